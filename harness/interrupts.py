"""Interrupts that arrive: Python drops one that hits a destructor or a weak reference."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN_S = 0.05


@contextmanager
def insistent() -> Iterator[None]:
    """Raise an interrupt again, in the main thread, that Python reports as ignored."""
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        timer = threading.Timer(AGAIN_S, _interrupt_main_thread)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt_main_thread() -> None:
    """A signal to that thread, not only a note: it may be waiting in a system call."""
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)

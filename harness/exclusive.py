"""The machine to ourselves: one timing run at a time, and no other process on its GPU."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.validity.foreign import foreign_processes

LOCK = "evict-bench.timing.lock"


@contextmanager
def machine_lock(policy: str, place: Path | None = None) -> Iterator[None]:
    """Hold the machine while something is timed.

    policy: "exclusive" raises InputError when another process holds it, "wait" blocks until it is
    free, "shared" does not ask. The lock goes with the process, however it ends.
    """
    if policy == "shared":
        yield
        return
    file = (place or Path(tempfile.gettempdir())) / LOCK
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _acquire(handle, policy, file)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, policy: str, file: Path) -> None:
    if policy == "wait":
        fcntl.flock(handle, fcntl.LOCK_EX)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
        raise InputError(
            "another timing run is using this machine, and each would slow the other",
            seen=f"process {holder} holds {file}",
            hint="machine=wait queues behind it; machine=shared measures all the same",
        ) from None


def check_gpus(policy: str, device: str, gpu_states: Iterable[Mapping[str, Any]]) -> None:
    """InputError where the engine runs on a GPU that others use and policy is "refuse".

    With "warn" the runs are made and judged: foreign_gpu_process makes their times invalid.
    """
    others = [] if device.startswith("cpu") else foreign_processes(gpu_states)
    if others and policy == "refuse":
        raise InputError(
            "other processes use the GPU, and their work would be measured too",
            seen="; ".join(others),
            hint="wait for them to end; foreign_gpu=warn measures all the same",
        )

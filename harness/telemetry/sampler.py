"""Telemetry from probes: read at both ends of a window, and by a thread of its own in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from evict.errors import InputError
from harness.clock import Clock
from harness.hardware.cpu import open_rapl
from harness.hardware.gpu import open_gpus
from harness.telemetry.cpu_probe import CpuProbe
from harness.telemetry.gpu_probe import GpuProbe
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sample import CPU, Sample
from harness.telemetry.window import Telemetry, Window

INTERVAL_S = 0.2


class Probe(Protocol):
    """What reads one kind of device. prepare: what takes long, done before a window opens.

    name: how the names of its devices begin. absent: what it cannot read and why, by name.
    """

    name: str
    absent: dict[str, str]

    def prepare(self) -> None: ...

    def read(self, at_ms: float) -> list[Sample]: ...

    def close(self) -> None: ...


class Sampler:
    """The thread sleeps until a window opens, and inside one between readings.

    Both ends are read by whoever opens and closes the window, so that what is measured lies
    between two readings and no reading at an end lies within it. A probe that raises is named in
    `absent` and not asked again; a window that it did not see to its end keeps none of its samples.
    clock: the rows' own. interval_s: from one reading to the next.
    """

    def __init__(
        self, probes: Sequence[Probe], clock: Clock, interval_s: float = INTERVAL_S
    ) -> None:
        if not interval_s > 0:
            raise InputError("telemetry needs time between samples", seen=interval_s, allowed="> 0")
        self.absent: dict[str, str] = {}
        self._clock, self._interval_s = clock, interval_s
        self._all, self._probes = tuple(probes), list(probes)
        self._open: Window | None = None
        self._closed = False
        self._changed = threading.Condition()
        for probe in probes:
            self.absent |= probe.absent
        self.thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self.thread.start()

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Samples while the block runs; complete after it, also when it raises."""
        window = Window()
        with self._changed:
            self._each(window, lambda probe: probe.prepare())
            self._read(window)
            self._switch(window)
        try:
            yield window
        finally:
            with self._changed:
                self._switch(None)
                self._read(window)

    def close(self) -> None:
        """End the thread and let go of the devices; a second call does nothing."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self.thread.join()
        for probe in self._all:
            probe.close()

    def _switch(self, window: Window | None) -> None:
        self._open = window
        self._changed.notify()

    def _run(self) -> None:
        """Holds `_changed` while it reads; a wait that times out means that a sample is due."""
        with self._changed:
            while not self._closed:
                idle = self._open is None
                woken = self._changed.wait(None if idle else self._interval_s)
                if not woken and self._open is not None:
                    self._read(self._open)

    def _read(self, window: Window) -> None:
        at_ms = self._clock.now_ms()
        self._each(window, lambda probe: window.samples.extend(probe.read(at_ms)))

    def _each(self, window: Window, ask: Callable[[Probe], None]) -> None:
        for probe in list(self._probes):
            try:
                ask(probe)
            except Exception as error:  # a device that fails costs its samples, not the run
                self._probes.remove(probe)
                self.absent[probe.name] = f"{type(error).__name__}: {error}"
                whole = [one for one in window.samples if not one.device.startswith(probe.name)]
                window.samples[:] = whole
            self.absent |= probe.absent


def open_telemetry(
    device: str, clock: Clock, interval_s: float = INTERVAL_S, nvml: Any = None
) -> Telemetry:
    """Probes for where an engine runs (EngineFacts.device): "cpu (...)", else a GPU's name.

    The processor's energy is not read beside a GPU's: it must never stand for it. nvml: pynvml or a
    stand-in.
    """
    tree = ProcessTree()
    if device.split(" ")[0] == CPU:
        return Sampler([CpuProbe(tree, open_rapl())], clock, interval_s)
    host = CpuProbe(tree, "the engine runs on a GPU")
    return Sampler([host, GpuProbe(open_gpus(nvml), tree)], clock, interval_s)

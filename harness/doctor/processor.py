"""The processor: cores, clock, and who else uses it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from harness.doctor.check import BAD, OK, WARN, Check, Here
from harness.doctor.settings import engine_threads
from harness.hardware import cpu
from harness.hardware.processes import Busy, Load

WATCHED_S = 1.0
NOTICEABLE, SPOILING = 0.05, 0.10  # share of the cores that others use
NAMED = 3


def processor(here: Here) -> list[Check]:
    """Model, cores and how many of them are ours; the engines' threads against these."""
    cores, usable = os.cpu_count() or 1, cpu.usable_cores()
    model = cpu.cpu_model() or "processor of unknown name"
    limit = "" if usable == cores else " (an affinity or a control group withholds the others)"
    line = Check("processor", OK, f"{model}, {usable} of {cores} cores usable{limit}")
    return [line, *threads_lines(engine_threads(), usable)]


def threads_lines(threads: Mapping[str, int], usable: int) -> list[Check]:
    """Threads that each engine computes with, against the cores that it may use."""
    return [_threads(engine, count, usable) for engine, count in threads.items()]


def _threads(engine: str, count: int, usable: int) -> Check:
    what = f"engine={engine} computes with {count} thread{'s' * (count > 1)} on {usable} cores"
    if count > usable:
        return Check("threads", BAD, f"{what}: they would wait for one another", _fewer(usable))
    if count == usable:
        return Check("threads", WARN, f"{what}: none is left for the system", _fewer(usable - 1))
    return Check("threads", OK, what)


def _fewer(count: int) -> str:
    return f"engine.threads={count}" if count else "measure on a machine with more cores"


def clock(here: Here) -> list[Check]:
    """Whether the clock stands still while something is measured."""
    return [clock_line(cpu.governor(), cpu.clock_mhz(), cpu.clock_max_mhz())]


def clock_line(governor: str | None, mhz: float | None, max_mhz: float | None) -> Check:
    """governor: as the kernel names it, None unread. mhz: now, and at most."""
    now = f"{mhz:.0f} MHz" if mhz else "clock unknown"
    most = f" of {max_mhz:.0f}" if mhz and max_mhz else ""
    if governor is None:
        why = "no governor to be read (a virtual machine?), so a change of clock goes unseen"
        hint = "trust interleaved comparisons only (compare=[..]), and their A/A row"
        return Check("clock", WARN, f"{now}{most}; {why}", hint)
    if governor != "performance":
        hint = "sudo cpupower frequency-set -g performance"
        return Check("clock", WARN, f"{now}{most}, governor {governor}: it changes at will", hint)
    return Check("clock", OK, f"{now}{most}, governor {governor}")


def load(here: Here) -> list[Check]:
    """How busy others keep the cores, seen for a second."""
    seen = here.watch.stop(WATCHED_S)
    return [load_line(seen, os.cpu_count() or 1, cpu.load_average())]


def load_line(seen: Load, cores: int, average: Sequence[float] | None) -> Check:
    """average: over 1, 5 and 15 minutes; shown, not judged, as it holds what has ended."""
    past = "" if average is None else f"; load average {' '.join(f'{x:.2f}' for x in average)}"
    if seen.cores is None:
        return Check("load", WARN, f"cannot be read{past}")
    share = seen.cores / cores
    text = f"others keep {seen.cores:.2f} of {cores} cores busy ({share:.0%}){past}"
    if share <= NOTICEABLE:
        return Check("load", OK, text)
    level = BAD if share > SPOILING else WARN
    return Check("load", level, text, f"wait for, or end: {_named(seen.busiest)}")


def _named(busiest: Sequence[Busy]) -> str:
    most = [busy for busy in busiest[:NAMED] if busy.cores >= NOTICEABLE]
    seen = [f"{busy.name} (pid {busy.pid}, {busy.cores:.2f} cores)" for busy in most]
    return ", ".join(seen) or "processes that cannot be seen from here"

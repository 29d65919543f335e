"""Memory, room for results, energy counters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.doctor.check import BAD, OK, WARN, Check, Here
from harness.hardware.cpu import RaplCounter, open_rapl
from harness.hardware.disk import existing, free_bytes, why_not_writable
from harness.hardware.memory import memory_facts

GIB = 2**30
LITTLE_GIB, TOO_LITTLE_GIB = 4.0, 2.0  # memory: the lab model with torch takes about one
LITTLE_ROOM_GIB, NO_ROOM_GIB = 10.0, 1.0


def memory(here: Here) -> list[Check]:
    """Memory that is free to use."""
    return [memory_line(memory_facts())]


def memory_line(facts: Mapping[str, float]) -> Check:
    """facts: as `memory_facts` gives them, GiB."""
    free = facts["available_gib"]
    text = f"{free:.1f} of {facts['usable_gib']:.1f} GiB available"
    if facts["swap_used_gib"]:
        text += f", {facts['swap_used_gib']:.1f} GiB swapped out"
    if free >= LITTLE_GIB:
        return Check("memory", OK, text)
    level = BAD if free < TOO_LITTLE_GIB else WARN
    return Check("memory", level, text, "end what holds it: a run that swaps measures the disk")


def disk(here: Here) -> list[Check]:
    """Whether runs can be written, and how much room they have."""
    return [disk_line(here.results, why_not_writable(here.results), free_bytes(here.results))]


def disk_line(results: Path, refusal: str | None, free: int | None) -> Check:
    """refusal: why nothing can be written. free: bytes, None when nobody tells."""
    if refusal is not None:
        hint = "results_dir=FOLDER chooses another place"
        return Check("results", BAD, f"{existing(results)}: {refusal}", hint)
    if free is None:
        return Check("results", WARN, f"{results} is writable, its free room is unknown")
    text = f"{results} is writable, {free / GIB:.0f} GiB free"
    if free / GIB >= LITTLE_ROOM_GIB:
        return Check("results", OK, text)
    level = BAD if free / GIB < NO_ROOM_GIB else WARN
    return Check("results", level, text, "make room, or results_dir=FOLDER")


def energy(here: Here) -> list[Check]:
    """Whether the processor counts its energy for us; GPUs count their own."""
    return [energy_line(open_rapl())]


def energy_line(counter: RaplCounter | str) -> Check:
    """counter: what `open_rapl` gave, or why it gave none."""
    if isinstance(counter, str):
        reason, _, hint = counter.partition("; try: ")
        return Check("energy", WARN, f"none for runs on the processor: {reason}", hint)
    return Check("energy", OK, f"RAPL counters of {len(counter.zones)} processor package(s)")

"""The machines behind a model's numbers, as label and value: processor, load, GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Part = Mapping[str, Any]


def machine_lines(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """From the provenance of each process; several values where they differ, "" where unknown."""
    gpus = [gpu for part in parts for gpu in part.get("gpus") or []]
    return [
        ("processor", each(parts, "cpu")),
        ("cores", each(parts, "cores")),
        ("usable cores", each(parts, "usable_cores")),
        ("frequency governor", _or_absent(parts, "governor")),
        ("load before measuring", _loads(parts)),
        ("GPUs", join(map(_gpus, parts))),
        ("GPU driver", each(gpus, "driver")),
        ("GPU power limit", join(map(_limit, gpus))),
        ("GPU clock at most", join(map(_clock, gpus))),
        ("GPU processes of others", join(map(_foreign, parts))),
    ]


def each(rows: Iterable[Part], name: str) -> str:
    """The distinct values of a name."""
    return join(row.get(name) for row in rows)


def join(values: Iterable[Any]) -> str:
    """The distinct values that are known, sorted."""
    known = {str(value) for value in values if value is not None and value == value}
    return ", ".join(sorted(known))


def _or_absent(parts: Sequence[Part], name: str) -> str:
    """The value, or why it could not be read."""
    found = each(parts, name)
    why = join((part.get("absent") or {}).get(name) for part in parts)
    return found or (f"not read: {why}" if why else "")


def _loads(parts: Sequence[Part]) -> str:
    """Load averages over the last minute when the processes began, from the least to the most."""
    loads = sorted(float(part["load_average"][0]) for part in parts if part.get("load_average"))
    if not loads:
        return ""
    ends = dict.fromkeys(f"{load:.2f}" for load in (loads[0], loads[-1]))
    return f"{' to '.join(ends)} (average of a minute)"


def _gpus(part: Part) -> str | None:
    """How many, their names and memory; why there are none."""
    gpus = part.get("gpus") or []
    names = join(gpu.get("name") for gpu in gpus)
    memory = join(f"{gpu['memory_gib']:g} GiB" for gpu in gpus if gpu.get("memory_gib"))
    found = ", ".join(text for text in (str(len(gpus)), names, memory) if text)
    reason = part.get("gpus_reason")
    return found if gpus else f"none: {reason}" if reason else None


def _limit(gpu: Part) -> str | None:
    limit, default = gpu.get("power_limit_w"), gpu.get("power_default_w")
    if limit is None:
        return None
    changed = default is not None and default != limit
    return f"{limit:g} W" + (f" (default {default:g} W)" if changed else "")


def _clock(gpu: Part) -> str | None:
    clock = gpu.get("clock_max_mhz")
    return None if clock is None else f"{clock:g} MHz"


def _foreign(part: Part) -> str | None:
    """Who else used a GPU when the process began; None where nobody did or nobody can tell."""
    states = part.get("gpu_state") or []
    return join(name for state in states for name in state.get("foreign_processes") or []) or None

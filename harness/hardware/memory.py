"""Memory of the machine, and what a control group leaves of it."""

from __future__ import annotations

from typing import Any

import psutil

from harness.hardware.cgroup import memory_limit

GIB = 2**30


def memory_facts() -> dict[str, Any]:
    """GiB: total, of the machine; usable, by the control group's limit; available now; swap used.

    available_gib does not see how much of the limit is already taken.
    """
    memory, limit = psutil.virtual_memory(), memory_limit()
    usable = memory.total if limit is None else min(limit, memory.total)
    return {
        "total_gib": round(memory.total / GIB, 1),
        "usable_gib": round(usable / GIB, 1),
        "available_gib": round(min(memory.available, usable) / GIB, 1),
        "swap_used_gib": round(psutil.swap_memory().used / GIB, 1),
    }

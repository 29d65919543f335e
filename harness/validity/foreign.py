"""Who else uses the GPUs, asked before measuring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def foreign_processes(gpu_states: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line per compute process that is not ours: "GPU 0: python".

    gpu_states: `Gpu.state(own_pids)` of each GPU; one that cannot tell whose its processes are
    names none.
    """
    return [
        f"GPU {state.get('index', place)}: {name}"
        for place, state in enumerate(gpu_states)
        for name in state.get("foreign_processes") or ()
    ]

"""The point on captures: seconds and memory of the graphs of each further verify width."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.engines.sglang.gpu_check.arms import POLICY, Arms

LOGGED = re.compile(r"verify width (\d+) captured in ([0-9.]+) s(?:, (-?[0-9.]+) GB)?")
NO_MEMORY = "the worker reports no memory of its captures"


class NothingCaptured(Exception):
    """The regime has no graphs, or the worker said nothing of them."""


def captures(arms: Arms) -> dict[str, Any]:
    """What the EVICT worker says of its captures; NothingCaptured where it captured nothing."""
    running = arms.get(POLICY)
    state = (running.session.state() if running.session else None) or {}
    log = running.server.spec.log.read_text(errors="replace")
    rows = capture_rows(state.get("captured") or {}, log)
    if not rows:
        raise NothingCaptured(f"no width was captured; regime: {state.get('resolved')}")
    return {"widths": rows, "server": {"widths": state.get("tiers")}}


def capture_rows(reported: Mapping[str, Mapping[str, float]], log: str) -> list[dict[str, Any]]:
    """A row per width, ascending: as reported, else as logged; the log's GB are 2**30 bytes."""
    told = _logged(log)
    for width, row in reported.items():
        told.setdefault(int(width), {}).update(row)
    return [
        {
            "k": width,
            "seconds": told[width].get("seconds"),
            "gib": told[width].get("gib"),
            "reason": None if "gib" in told[width] else NO_MEMORY,
        }
        for width in sorted(told)
    ]


def _logged(log: str) -> dict[int, dict[str, float]]:
    return {
        int(width): {"seconds": float(seconds), **({"gib": float(gib)} if gib else {})}
        for width, seconds, gib in LOGGED.findall(log)
    }

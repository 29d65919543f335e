"""Whether the times of a run were taken as they should be: dated, in one session, after warm-up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from harness.validity.verdict import Reason
from harness.validity.view import RunView


def not_recorded(view: RunView) -> Iterable[Reason]:
    """An older version made the run: what it did not write down can clear nothing."""
    missing = [] if view.result.fingerprint else ["no fingerprint"]
    if np.isnan(view.of_good("started_ms")).any():
        missing.append("no start times")
    if missing:
        text = f"{', '.join(missing)}: an older version made it; delete its folder and run it again"
        yield Reason("not_recorded", text, "unknown", "time")


def mixed_session(view: RunView) -> Iterable[Reason]:
    """Its rows come from processes whose engine or machine differ."""
    if view.result.machine_hash is None:
        text = "its rows come from processes whose engine or machine differ; measure it in one go"
        yield Reason("mixed_session", text, "invalid", "time")


def warmup_overlap(view: RunView) -> Iterable[Reason]:
    """A warm-up ran while a measured request did, or ended after the first had begun."""
    starts, ends = view.of_good("started_ms"), view.of_good("ended_ms")
    parts = view.of_good("part")
    for warm in view.result.warmup:
        own = parts == warm["part"]
        began, ended = warm.get("started_ms"), float(warm["ended_ms"])
        caught = own & (starts < ended)
        if began is not None:  # a later warm-up, of a new server, is between measured requests
            caught &= ends > float(began)
        if caught.any():
            first = float(np.nanmin(starts[caught]))
            text = f"measured from {first:.0f} ms on, warm-up ended at {ended:.0f} ms"
            yield Reason("warmup_overlap", text, "invalid", "time")
            return

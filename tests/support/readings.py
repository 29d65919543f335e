"""Telemetry and request frames as files hold them, from short lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from harness.telemetry.sample import Sample


def window(
    at_s: Sequence[float],
    prompt: str = "p0",
    device: str = "gpu0",
    run: str = "run",
    **columns: Sequence[Any],
) -> list[dict[str, Any]]:
    """Rows of telemetry of one device in one generation; columns: fields of Sample."""
    key = {"run": run, "prompt_id": prompt, "turn": 0, "repeat": 0}
    rows = []
    for index, seconds in enumerate(at_s):
        values = {name: column[index] for name, column in columns.items()}
        rows.append({**key, **Sample(at_ms=seconds * 1e3, device=device, **values).to_dict()})
    return rows


def telemetry(*windows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """All windows in one frame."""
    return pd.DataFrame([row for rows in windows for row in rows])


def requests(tokens: dict[str, int | None], run: str = "run") -> pd.DataFrame:
    """A row per prompt: its decode tokens, or None for a generation that failed."""
    return pd.DataFrame(
        [
            {
                "run": run,
                "prompt_id": prompt,
                "turn": 0,
                "repeat": 0,
                "decode_tokens": count,
                "error_class": None if count is not None else "RuntimeError",
            }
            for prompt, count in tokens.items()
        ]
    )

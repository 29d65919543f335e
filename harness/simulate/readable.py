"""Which published numbers a fit may read: declared here, enforced by the only view that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from evict.errors import InputError
from harness.report.published import published

READABLE: Mapping[str, frozenset[str]] = {
    "decoding_speed": frozenset({"vanilla", "eagle3"}),
    "mean_accepted_tokens": frozenset({"eagle3"}),
    "claims": frozenset({"verify_share_low", "verify_share_high"}),
}
AVERAGE = "average"
KEYS = ["model", "temperature", "benchmark"]
VALUE = {"decoding_speed": "tokens_per_s", "mean_accepted_tokens": "mat", "claims": "value"}


class NotForFitting(InputError):
    """A fit asked for a published number that it must predict."""


@dataclass(frozen=True, eq=False)
class FitView:
    """The published tables without everything that is to be predicted.

    tables: the readable rows alone; what is not readable is not in here.
    """

    tables: Mapping[str, pd.DataFrame]

    @staticmethod
    def of(tables: Mapping[str, pd.DataFrame]) -> FitView:
        """Keep the readable rows of these tables; averages are derived, so they go too."""
        kept = {}
        for name, allowed in READABLE.items():
            frame = tables[name]
            rows = frame[frame[_row_key(name)].isin(allowed)]
            if "benchmark" in rows:
                rows = rows[rows["benchmark"] != AVERAGE]
            kept[name] = rows.reset_index(drop=True)
        return FitView(kept)

    @staticmethod
    def published() -> FitView:
        """The view of results/paper."""
        return FitView.of({name: published(name) for name in READABLE})

    def cells(self, table: str, method: str, model: str) -> pd.Series[float]:
        """One method's numbers on one model, indexed by (temperature, benchmark), sorted.

        Raises NotForFitting for a table or method that is not readable.
        """
        self._check(table, method)
        frame = self.tables[table]
        chosen = frame[(frame["method"] == method) & (frame["model"] == model)]
        if chosen.empty:
            known = ", ".join(sorted(set(frame["model"])))
            raise InputError("no published numbers of this model", seen=model, allowed=known)
        return chosen.set_index(KEYS[1:])[VALUE[table]].sort_index()

    def claim(self, name: str) -> float:
        """One number of the text; NotForFitting unless it is readable."""
        self._check("claims", name)
        claims = self.tables["claims"].set_index("id")["value"]
        return float(claims[name])

    def models(self) -> list[str]:
        """Models with published speeds, in the paper's order."""
        return list(dict.fromkeys(self.tables["decoding_speed"]["model"]))

    @staticmethod
    def _check(table: str, row: str) -> None:
        if row not in READABLE.get(table, frozenset()):
            raise NotForFitting(
                "a published number that no fit may read",
                seen=f"{table}: {row}",
                allowed="; ".join(f"{t}: {', '.join(sorted(r))}" for t, r in READABLE.items()),
                hint="it is there to be predicted",
            )


def _row_key(table: str) -> str:
    return "id" if table == "claims" else "method"

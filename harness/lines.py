"""Files that grow by one line per generation, and the parquet files they are folded into."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evict.errors import InputError
from harness.atomic import replacing
from harness.sealed import Line, read_lines, sealed
from harness.sums import matches
from harness.trees import packed, unpacked

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)
Key = tuple[str, int, int]
KEY = ("prompt_id", "turn", "repeat")
ROWS = "rows"
Row = Mapping[str, Any]


class Damaged(Exception):
    """A file that cannot be read as what it should hold."""


@dataclass(frozen=True)
class Side:
    """Rows that belong to a generation: `lines` while the run grows, `table` once it has ended.

    A line holds the generation's key and its rows, so that a damaged line costs one generation.
    pack, unpack: between a row of a line and a row of the table. optional: rows of a run that
    never had this file are as good without.
    """

    lines: str
    table: str
    pack: Callable[[Row], Row]
    unpack: Callable[[Row], Row]
    optional: bool = False

    def line(self, key: Key, rows: Sequence[Row]) -> Line:
        """The line of one generation."""
        return sealed({**dict(zip(KEY, key, strict=True)), ROWS: list(rows)})

    def fold(self, path: Path, keys: Sequence[Key]) -> None:
        """Write the table, its generations in the order of `keys`.

        An optional table without a row is not written. Raises InputError when a line is missing.
        """
        import pandas as pd

        lines = by_key(read_lines(path / self.lines))
        if missing := sum(key not in lines for key in keys):
            raise InputError(
                f"{self.lines} was damaged while the run was written",
                seen=f"{missing} of {len(keys)} generations cannot be read: {path}",
                hint="run the same command again: it measures those, and no other",
            )
        rows = [
            {**dict(zip(KEY, key, strict=True)), **self.pack(row)}
            for key in keys
            for row in lines[key].values[ROWS]
        ]
        if self.optional and not rows:
            (path / self.table).unlink(missing_ok=True)
            return
        with replacing(path / self.table) as temporary:
            pd.DataFrame(rows).to_parquet(
                temporary, index=False, compression="zstd", write_page_checksum=True
            )

    def take_up(self, path: Path, keys: Sequence[Key], written: str | None) -> dict[Key, Line]:
        """The lines of these generations that can be read; those of others are left out.

        written: the table's sum in the run's summary, if there is one. The table it fits is the
        source; else the lines are, and what they lack comes from a table without a sum: a process
        that died while it folded, or an older version, left it.
        """
        growing, table = path / self.lines, path / self.table
        if matches(table, written):
            return self._from_table(table, keys)
        if self.optional and written is None and not growing.is_file() and not table.exists():
            return {key: self.line(key, []) for key in keys}
        folded = self._from_table(table, keys) if written is None and table.is_file() else {}
        found = folded | by_key(read_lines(growing))
        return {key: found[key] for key in keys if key in found}

    def _from_table(self, file: Path, keys: Sequence[Key]) -> dict[Key, Line]:
        rows: dict[Key, list[Row]] = {key: [] for key in keys}
        try:
            for row in _parquet(file, "to_pylist"):
                key = tuple(row.pop(name) for name in KEY)
                if key in rows:
                    rows[key].append(self.unpack(row))
        except (Damaged, KeyError, TypeError, ValueError) as error:
            log.warning("%s: %s", file.parent, error)
            return {}
        return {key: self.line(key, found) for key, found in rows.items()}


def by_key(lines: Sequence[Line]) -> dict[Key, Line]:
    """Lines by the generation they belong to.

    Copies of a line count once; generations whose lines contradict each other are left out, as are
    lines that name no generation.
    """
    found: dict[Key, Line] = {}
    contradicted = set()
    for line in lines:
        key = _key(line.values)
        if key is not None and found.setdefault(key, line) != line:
            contradicted.add(key)
    return {key: line for key, line in found.items() if key not in contradicted}


def _key(values: Row) -> Key | None:
    prompt, turn, repeat = (values.get(name) for name in KEY)
    if isinstance(prompt, str) and isinstance(turn, int) and isinstance(repeat, int):
        return prompt, turn, repeat
    return None


def frame(file: Path) -> pd.DataFrame:
    """The table of a parquet file, its pages checked. Raises Damaged for anything else."""
    found: pd.DataFrame = _parquet(file, "to_pandas")
    return found


def _parquet(file: Path, form: str) -> Any:
    import pyarrow.parquet as pq

    if not file.is_file():  # of a folder, it would read whatever lies in it
        raise Damaged(f"{file.name} is no file")
    try:
        return getattr(pq.read_table(file, page_checksum_verification=True), form)()
    except Exception as error:  # a parser on arbitrary bytes may raise what it likes
        reason = str(error).split("\n")[0]
        raise Damaged(f"{file.name} cannot be read: {reason}") from error


def _same(row: Row) -> Row:
    return row


STEPS = Side("steps.jsonl", "steps.parquet", _same, _same)
TELEMETRY = Side("telemetry.jsonl", "telemetry.parquet", _same, _same, optional=True)
TREES = Side("trees.jsonl", "trees.parquet", packed, unpacked)
SIDES = (STEPS, TELEMETRY, TREES)

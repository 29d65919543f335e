"""The doctor's screen: checks above, models and engines below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from harness.doctor.cells import Cell
from harness.doctor.check import BAD, OK, WARN, Check, fit

STYLES = {OK: "green", WARN: "yellow", BAD: "bold red"}
VERDICTS = {True: ("fit to measure", "bold green"), False: ("not fit to measure", "bold red")}


def show(console: Console, checks: Sequence[Check], cells: Sequence[Cell]) -> None:
    """Print all of it."""
    verdict, style = VERDICTS[fit(checks)]
    counts = ", ".join(f"{sum(c.level == level for c in checks)} {level}" for level in STYLES)
    console.print(Group(_checks(checks), Text(), _cells(cells), Text()))
    console.print(Text.assemble("This machine is ", (verdict, style), f" ({counts})."))


def _checks(checks: Iterable[Check]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for check in checks:
        text = Text(check.text)
        if check.hint:
            text.append(f"\n-> {check.hint}", style="cyan")
        table.add_row(Text(check.level, style=STYLES[check.level]), check.name, text)
    return table


def _cells(cells: Iterable[Cell]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("model=", "engine=", "here"):
        table.add_column(title, no_wrap=title != "here")
    for (model, runs, note, hint), group in groupby(_alike(cells), key=_outcome):
        names = "\n".join(cell.engine for cell in group)
        said = Text.assemble(("runs", "green"), note and f" {note}") if runs else Text(note)
        if hint:
            said.append(f"\n-> {hint}", style="cyan")
        table.add_row(model, names, said)
    return table


def _alike(cells: Iterable[Cell]) -> list[Cell]:
    """A model's engines with equal outcomes side by side; models in their order."""
    return sorted(cells, key=lambda cell: (cell.model, not cell.runs, cell.note, cell.hint))


def _outcome(cell: Cell) -> tuple[str, bool, str, str]:
    return cell.model, cell.runs, cell.note, cell.hint

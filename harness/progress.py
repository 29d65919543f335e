"""A progress bar on standard error; without a terminal, a line now and then for long jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

LINES = 20
REPLAYED = 0.02  # a generation that runs no model, in generations that do


@dataclass
class Bar:
    """Counts generations; redrawn only when told, so that no thread disturbs what is measured.

    total: generations planned, one that runs no model counting REPLAYED. spoken: print a line at
    every LINES-th part, for logs.
    """

    progress: Progress
    task: TaskID
    total: float
    spoken: bool = False
    done: float = 0.0
    measuring_s: float = 0.0
    begin: float = field(default_factory=time.monotonic)
    _last: float = field(default_factory=time.monotonic)

    def advance(self, what: str, weight: float = 1.0) -> None:
        """Count one generation."""
        now, before = time.monotonic(), self.done
        self.measuring_s += now - self._last
        self._last, self.done = now, before + weight
        self.progress.update(self.task, advance=weight, description=what, whole=self.estimate())
        self.progress.refresh()
        if self.spoken and self.done * LINES // self.total > before * LINES // self.total:
            share = min(1.0, self.done / self.total)
            print(f"{share:4.0%}, {self.estimate()}: {what}", file=sys.stderr, flush=True)

    def stage(self, what: str, share: float) -> None:
        """Show how far a step that is no generation has come, 0..1."""
        self._last = time.monotonic()
        self.progress.update(self.task, description=f"{what} {share:.0%}")
        self.progress.refresh()

    def estimate(self) -> str:
        """What the whole is likely to take, from the generations so far."""
        elapsed = time.monotonic() - self.begin
        left = self.measuring_s / max(1.0, self.done) * max(0.0, self.total - self.done)
        return f"about {(elapsed + left) / 60:.0f} min in all, {left / 60:.0f} left"


@contextmanager
def bar(total: float, spoken: bool = False) -> Iterator[Bar]:
    """A bar over `total` generations, gone when it is left."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[whole]}"),
    )
    terminal = console.is_terminal
    with Progress(
        *columns, console=console, auto_refresh=False, transient=True, disable=not terminal
    ) as progress:
        task = progress.add_task("", total=total, whole="")
        yield Bar(progress, task, total, spoken and not terminal)

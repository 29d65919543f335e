"""A progress bar on standard error; silent when that is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)


@dataclass(frozen=True)
class Bar:
    """Counts generations; redrawn only when told, so that no thread disturbs what is measured."""

    progress: Progress
    task: TaskID

    def advance(self, what: str) -> None:
        """Count one generation."""
        self.progress.update(self.task, advance=1, description=what)
        self.progress.refresh()

    def stage(self, what: str, share: float) -> None:
        """Show how far a step that is no generation has come, 0..1."""
        self.progress.update(self.task, description=f"{what} {share:.0%}")
        self.progress.refresh()


@contextmanager
def bar(total: int) -> Iterator[Bar]:
    """A bar over `total` generations, gone when it is left."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns,
        console=console,
        auto_refresh=False,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        yield Bar(progress, progress.add_task("", total=total))

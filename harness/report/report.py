"""From a results folder to tables, figures and one page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from harness.collect import collect, collect_facts
from harness.collection import Collection
from harness.facts import Facts
from harness.report.blocks import REPLAY, recorded_runs, timing
from harness.report.book import Book, ModelBook, Shown
from harness.report.figures import FIGURES, save
from harness.report.headline import headline
from harness.report.how import how_measured, setting_line
from harness.report.layouts import reservations, texts
from harness.report.notes import notes
from harness.report.page import render
from harness.report.published import paper_label
from harness.report.spec import FigureSpec, Missing, TableSpec
from harness.report.tables import TABLES
from harness.report.tables.each import main_blocks
from harness.report.words import model_text
from harness.report.write import write_table

MANIFEST = "files.txt"
PAGE = "report.html"
OWN_SECTION = "runs"
EVERY_RUN = ("summary", "tuning", OWN_SECTION)
ON_TIMES = ("drift", "floor")
ON_TREES = ("calibration", "union")
ON_REPLAYS = ("regret", "replay_check")
BESIDE_PAPER = ("table1_paper", "mat", "reductions")


@dataclass
class Written:
    """The files of one report, below `out`."""

    out: Path
    files: list[Path] = field(default_factory=list)

    def text(self, name: str, text: str) -> None:
        """Write one text file."""
        path = self.out / name
        path.write_bytes(text.encode("utf-8", "replace"))
        self.files.append(path)


def write_report(results: Path, out: Path) -> Book:
    """Write tables/, figures/ and report.html below `out`; files of an earlier report go first.

    Equal results give equal bytes. Tables and figures that lack data are named, not written.
    """
    data = collect(results)
    facts = collect_facts(results, data.runs["run"]) if len(data.runs) else {}
    _clear(out)
    out.mkdir(parents=True, exist_ok=True)
    written = Written(out)
    models = [str(name) for name in sorted(set(data.runs["model"]))] if len(data.runs) else []
    books, found = [], []
    for model in models:
        own = data.select(set(data.runs.loc[data.runs["model"] == model, "run"]), {})
        prefix = f"{model}-" if len(models) > 1 else ""
        book, sentences = _model_book(own, facts, written, prefix)
        books.append(book)
        found += [f"{book.label}: {line}" if prefix else line for line in sentences]
    report = Book(_title(books), found or [_nothing(data)], books, data.left_out)
    written.text(PAGE, render(report))
    listed = sorted(path.relative_to(out).as_posix() for path in written.files)
    written.text(MANIFEST, "".join(f"{name}\n" for name in listed))
    return report


def _model_book(
    data: Collection, facts: Mapping[str, Facts], written: Written, prefix: str
) -> tuple[ModelBook, list[str]]:
    first = data.runs.iloc[0]
    tables, figures, missing = [], [], []
    for spec in TABLES.values():
        try:
            tables.append(_table(spec, data, written, prefix))
        except Missing as gap:
            missing.append((spec.title, str(gap)))
    for picture in FIGURES.values():
        try:
            figures.append((picture, _figure(picture, data, written, prefix)))
        except Missing as gap:
            missing.append((picture.title, str(gap)))
    frames = {shown.spec.name: shown.frame for shown in tables}
    book = ModelBook(
        model=str(first["model"]),
        label=str(first["model_label"]),
        lab=bool(first["lab"]),
        tables=[shown for shown in tables if shown.spec.name != OWN_SECTION],
        missing=missing,
        figures=figures,
        notes=notes(frames["summary"], data),
        how=how_measured(data, facts),
        verdicts=_verdicts(tables),
        data=data,
    )
    return book, headline(data, frames)


def _table(spec: TableSpec, data: Collection, written: Written, prefix: str) -> Shown:
    frame = spec.build(data)
    heads, rows = texts(spec.name, frame)
    caption = f"{spec.caption} {setting_line(shown_runs(spec.name, data))}."
    if spec.name in BESIDE_PAPER:
        caption += f" The paper's numbers are for {paper_label(str(data.runs['model'].iloc[0]))}."
    caption = " ".join([caption, *reservations(spec.name, frame)])
    shown = Shown(replace(spec, caption=caption), frame, heads, rows)
    written.files += write_table(shown, written.out / "tables", prefix + spec.name)
    return shown


def shown_runs(table: str, data: Collection) -> Collection:
    """The runs that a table is about: the main blocks but for those that say otherwise."""
    if table in EVERY_RUN:
        return data
    if table in ON_TIMES:
        return timing(data)
    if table in ON_TREES:
        return recorded_runs(data)
    if table in ON_REPLAYS:
        return data.select(set(data.runs.loc[data.runs["engine"] == REPLAY, "run"]))
    return data.select({run for block in main_blocks(data) for run in block.runs["run"]})


def _figure(spec: FigureSpec, data: Collection, written: Written, prefix: str) -> bytes:
    frame = spec.frame(data)
    paths = save(spec.draw(frame), frame, written.out / "figures", prefix + spec.name)
    written.files += paths
    return next(path for path in paths if path.suffix == ".png").read_bytes()


def _verdicts(tables: list[Shown]) -> pd.DataFrame:
    """The runs as a person reads them."""
    shown = next(table for table in tables if table.spec.name == OWN_SECTION)
    return pd.DataFrame(shown.text_rows, columns=shown.heads)


def _title(books: list[ModelBook]) -> str:
    labels = ", ".join(model_text(book.label, book.lab) for book in books)
    return f"Does verifying fewer tokens pay? {labels}".strip()


def _nothing(data: Collection) -> str:
    if data.runs.empty:
        return "No finished run. Run: python run.py +experiment=paper"
    return "No speedup can be said yet. Run: python run.py +experiment=table1"


def _clear(out: Path) -> None:
    """Remove what an earlier report listed, and nothing else."""
    manifest = out / MANIFEST
    if not manifest.is_file():
        return
    inside = out.resolve()
    for name in manifest.read_text(encoding="utf-8").splitlines():
        path = (out / name).resolve()
        if path.is_relative_to(inside) and path.is_file():
            path.unlink()
    manifest.unlink()

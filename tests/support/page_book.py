"""A book for the tests of the page: real steps of the sample, small tables and pictures."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import matplotlib
import pandas as pd

from harness.collection import Collection
from harness.report.book import Book, ModelBook, Shown
from harness.report.spec import FigureSpec, TableSpec
from tests.support.collection import sample_collection

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def sample_data() -> Collection:
    """Two benchmarks at two temperatures, recorded and timed."""
    return sample_collection(benchmarks=("gsm8k", "qa"), prompts=3, repeats=1)


def book_of(data: Collection, mark: str = "", label: str = "Sample MoE") -> Book:
    """A book with every part filled; `mark` is put into each of its texts."""
    return Book(
        title=f"A title {mark}",
        headline=[f"first finding {mark}", f"second finding {mark}"],
        models=[_model(data, mark, f"{label}{mark}")],
        left_out={f"paper/cut-run {mark}": f"cut: the same command resumes it {mark}"},
    )


def marked(data: Collection, mark: str) -> Collection:
    """The same runs with `mark` in prompts, outputs, benchmarks and labels."""

    def put(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].astype(str) + mark for name in columns})

    return replace(
        data,
        runs=put(data.runs, "method_label", "benchmark"),
        requests=put(data.requests, "prompt_id", "text"),
        trees=put(data.trees, "prompt_id"),
    )


def without_costs(data: Collection, keep: str = "") -> Collection:
    """Only the cost tables of runs whose name starts with `keep`."""
    costs = {run: cost for run, cost in data.costs.items() if keep and run.startswith(keep)}
    return replace(data, costs=costs)


def _model(data: Collection, mark: str, label: str) -> ModelBook:
    rows = [[f"vanilla {mark}", "210.4", "1.00x"], [f"EVICT {mark}", "301.9", "1.43x"]]
    heads = [f"method {mark}", "tok/s", "speedup"]
    verdicts = pd.DataFrame(
        [{"run": f"paper/one {mark}", "status": "partial", "reasons": [f"1 failed {mark}", "2"]}]
    )
    return ModelBook(
        model="sample",
        label=label,
        lab=True,
        tables=[Shown(_spec(TableSpec, "table1", mark), pd.DataFrame(rows), heads, rows)],
        missing=[(f"Figure 6 {mark}", f"one engine; run: python run.py +experiment=fig6 {mark}")],
        figures=[(_spec(FigureSpec, "fig1", mark), drawn_png())],
        notes=[f"a note {mark}"],
        how=[(f"device {mark}", f"cpu {mark}")],
        verdicts=verdicts,
        data=data,
    )


def _spec(kind: Any, name: str, mark: str) -> Any:
    unused = (None,) if kind is TableSpec else (None, None)
    return kind(name, f"Title of {name} {mark}", f"Caption of {name} {mark}", *unused)


def drawn_png() -> bytes:
    """A real picture, one column wide."""
    figure, axis = plt.subplots(figsize=(3.5, 2.0))
    axis.plot([1, 2, 3], [3, 1, 2])
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=200, metadata={"Software": None})
    plt.close(figure)
    return file.getvalue()

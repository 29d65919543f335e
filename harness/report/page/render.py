"""The report as one HTML file that asks for nothing from outside."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from harness.report.book import Book, ModelBook
from harness.report.page.inline import Asset, Picture, asset, json_text, picture
from harness.report.page.utility import step_groups
from harness.report.page.view import TableView, frame_view, table_view
from harness.report.page.words import DEFINITIONS
from harness.report.spec import FigureSpec, Missing
from harness.report.words import model_text

TEMPLATE = "page.html.j2"


@dataclass(frozen=True)
class FigureView:
    """A picture with its words."""

    anchor: str
    title: str
    caption: str
    alt: str
    picture: Picture


@dataclass(frozen=True)
class ModelView:
    """One model's part of the page."""

    label: str
    text: str
    lab: bool
    tables: list[TableView]
    missing: list[tuple[str, str]]
    figures: list[FigureView]
    notes: list[str]
    how: list[tuple[str, str]]
    verdicts: TableView


@dataclass(frozen=True)
class Entry:
    """A line of the contents."""

    anchor: str
    title: str
    below: list[Entry]


def render(book: Book) -> str:
    """The whole page. Same book, same text; every text of the book is escaped."""
    models = [_model(model, i) for i, model in enumerate(book.models, start=1)]
    groups, without_steps = _recorded(book)
    style, script = asset("style.css"), asset("utility.js")
    page = (
        _environment()
        .get_template(TEMPLATE)
        .render(
            book=book,
            models=models,
            subtitle="; ".join(one.text for one in models if one.text not in book.title),
            contents=_contents(models),
            definitions=DEFINITIONS,
            groups=groups,
            recorded=json_text(groups),
            without_steps=without_steps,
            left_out=_by_reason(book.left_out),
            style=style,
            script=script,
            policy=_policy(style, script),
        )
    )
    # A text may hold half a surrogate pair, which no file can.
    return page.encode("utf-8", "replace").decode("utf-8")


def _recorded(book: Book) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Recorded steps of every model, and why a model has none."""
    groups: list[dict[str, Any]] = []
    without: list[tuple[str, str]] = []
    for model in book.models:
        try:
            groups += step_groups(model.label, model.data)
        except Missing as reason:
            without.append((model.label, str(reason)))
    return groups, without


def _environment() -> Environment:
    def source(name: str) -> str:
        return files(__package__).joinpath(name).read_text(encoding="utf-8")

    return Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=False,
        keep_trailing_newline=True,
    )


def _policy(style: Asset, script: Asset) -> str:
    """Nothing may be loaded or run but this page's own style, script and pictures."""
    return (
        f"default-src 'none'; style-src {style.source}; script-src {script.source}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _model(model: ModelBook, number: int) -> ModelView:
    return ModelView(
        label=model.label,
        text=model_text(model.label, model.lab),
        lab=model.lab,
        tables=[
            table_view(
                f"table-{number}-{shown.spec.name}",
                shown.spec.title,
                shown.spec.caption,
                *shown.heads_and_rows(),
            )
            for shown in model.tables
        ],
        missing=model.missing,
        figures=[_figure(number, *found) for found in model.figures],
        notes=model.notes,
        how=model.how,
        verdicts=frame_view(f"runs-{number}", f"Runs of {model.label}", model.verdicts),
    )


def _figure(number: int, spec: FigureSpec, png: bytes) -> FigureView:
    return FigureView(
        anchor=f"figure-{number}-{spec.name}",
        title=spec.title,
        caption=spec.caption,
        alt=f"Figure: {spec.title}. Its numbers are in the CSV file of the same name.",
        picture=picture(png),
    )


def _by_reason(left_out: dict[str, str]) -> list[tuple[str, str]]:
    """Each reason once, with the runs that it names."""
    runs: dict[str, list[str]] = {}
    for run, reason in left_out.items():
        runs.setdefault(reason, []).append(run)
    return [(reason, ", ".join(named)) for reason, named in runs.items()]


def _contents(models: list[ModelView]) -> list[Entry]:
    def below(kind: str) -> list[Entry]:
        named = len(models) > 1
        return [
            Entry(item.anchor, f"{item.title} ({model.label})" if named else item.title, [])
            for model in models
            for item in getattr(model, kind)
        ]

    return [
        Entry("found", "What was found", []),
        Entry("reading", "How to read it", []),
        Entry("tables", "Tables", below("tables")),
        Entry("figures", "Figures", below("figures")),
        Entry("utility-curve", "The utility curve, step by step", []),
        Entry("measured", "How it was measured", []),
        Entry("verdicts", "Verdicts", []),
        Entry("definitions", "Definitions", []),
    ]

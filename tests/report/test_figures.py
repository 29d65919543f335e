"""How figures look and are written: the same bytes, nothing hidden or cut, units, honest gaps."""

from __future__ import annotations

import contextlib
import itertools
import re
from dataclasses import replace
from pathlib import Path

import matplotlib
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from harness.collection import Collection
from harness.report.cost import cost_text
from harness.report.figures import FIGURES, save
from harness.report.figures.style import LOOKS, SETTINGS, STAGES, STYLE, WIDTH, Look
from harness.report.spec import Missing
from tests.support.collection import sample_collection
from tests.support.sample_evidence import names, silent_cache, under_load, warm_prompts
from tests.support.sample_trees import sample_cost
from tests.support.tiny import PLAIN, Tiny, step

NAMES = sorted(FIGURES)
# Words that each figure's axis labels must have: the unit, or what is counted.
UNITS = {
    "cost": ["time (ms)", "experts per layer (of 48)", "k (nodes, root included)"],
    "fig1": ["experts per layer", "latency (ms)", "k (verified nodes)"],
    "fig2": ["share of a step (%)", "k (verified nodes)", "in ms"],
    "fig5": ["verified nodes", "experts per layer", "ms per step", "tokens per step"],
    "fig6": ["tokens/s"],
    "fig7": ["plain decoding (×)", "share of the tree's score"],
    "k_histogram": ["steps (%)", "verified nodes k"],
    "regret": ["regret (%)"],
    "reliability": ["score (probability)", "share of nodes"],
    "speedups": ["EAGLE-3 (×)", "vanilla (×)"],
}


@pytest.fixture(scope="module")
def frames() -> dict[str, pd.DataFrame]:
    data = sample_collection()
    return {name: spec.frame(data) for name, spec in FIGURES.items()}


@pytest.fixture(scope="module")
def crowded(frames: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    """The same with a second engine of a long name; replays have none but their own."""
    return {
        name: laid_out(FIGURES[name].draw(pd.concat([frame.assign(engine="sglang_eager"), frame])))
        for name, frame in frames.items()
        if set(frame["engine"]) != {"replay"}
    }


@pytest.fixture(scope="module")
def drawn(frames: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    return {name: laid_out(FIGURES[name].draw(frame)) for name, frame in frames.items()}


@pytest.fixture(scope="module")
def doubtful() -> dict[str, Figure]:
    """Most runs unknown, some invalid: every figure has gaps and small print."""
    data = sample_collection()
    data = silent_cache(data, names(data, engine="torch"))
    load = [("evict", "qa"), ("eagle3", "gsm8k"), ("fixed_k_8", "qa"), ("coverage_0.7", "qa")]
    data = under_load(data, [r for m, b in load for r in names(data, method=m, benchmark=b)])
    data = warm_prompts(data, names(data, experiment="trees", benchmark="qa", temperature=0.0))
    found = {}
    for name, spec in FIGURES.items():
        with contextlib.suppress(Missing):
            found[name] = laid_out(spec.draw(spec.frame(data)))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_same_frame_gives_the_same_bytes_whatever_the_callers_style(
    name: str, frames: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    draw, frame = FIGURES[name].draw, frames[name]
    before = frame.copy(deep=True)
    first = [path.read_bytes() for path in save(draw(frame), frame, tmp_path, name)]
    with matplotlib.rc_context({"font.size": 19, "axes.grid": False, "pdf.fonttype": 3}):
        paths = save(draw(frame), frame, tmp_path, name)
    assert [path.name for path in paths] == [f"{name}.pdf", f"{name}.png", f"{name}.csv"]
    assert [path.read_bytes() for path in paths] == first
    pd.testing.assert_frame_equal(frame, before)


def test_a_figure_can_be_drawn_from_its_csv(
    frames: dict[str, pd.DataFrame], drawn: dict[str, Figure], tmp_path: Path
) -> None:
    for name in NAMES:
        table = save(Figure(), frames[name], tmp_path, name)[2]
        again = laid_out(FIGURES[name].draw(pd.read_csv(table)))
        assert [text.get_text() for text in texts(again)] == [
            text.get_text() for text in texts(drawn[name])
        ]


@pytest.mark.parametrize("engines", ["drawn", "crowded", "doubtful"])
@pytest.mark.parametrize("name", NAMES)
def test_legends_lie_over_no_axes_and_nothing_is_cut(
    name: str, engines: str, request: pytest.FixtureRequest
) -> None:
    figure = figure_of(request, engines, name)
    areas = [axis.get_window_extent() for axis in figure.axes if axis.get_visible()]
    for legend in [*figure.legends, *filter(None, map(Axes.get_legend, figure.axes))]:
        box = legend.get_window_extent()
        assert not any(inner(box, area) for area in areas)
        assert not any(inner(box, text.get_window_extent()) for text in titles(figure))
    page = figure.bbox.padded(0.5)
    for text in texts(figure):
        box = text.get_window_extent()
        assert page.x0 <= box.x0, text
        assert box.x1 <= page.x1, text
        assert page.y0 <= box.y0, text
        assert box.y1 <= page.y1, text


@pytest.mark.parametrize("engines", ["drawn", "crowded", "doubtful"])
@pytest.mark.parametrize("name", NAMES)
def test_no_two_texts_meet(name: str, engines: str, request: pytest.FixtureRequest) -> None:
    figure = figure_of(request, engines, name)
    found = [text for text in texts(figure) if not text.get_rotation() % 90]
    for one, other in itertools.combinations(found, 2):
        boxes = one.get_window_extent(), other.get_window_extent()
        assert not inner(*boxes), (one.get_text(), other.get_text())


@pytest.mark.parametrize("name", NAMES)
def test_one_column_wide_with_units_on_its_axes(name: str, drawn: dict[str, Figure]) -> None:
    figure = drawn[name]
    assert figure.get_figwidth() == WIDTH <= 3.5
    assert figure.get_figheight() <= 5.0
    labels = [text for axis in figure.axes for text in (axis.get_xlabel(), axis.get_ylabel())]
    written = " | ".join([*labels, figure.get_supxlabel(), figure.get_supylabel()])
    flat = written.replace("\n", " ")
    for unit in UNITS[name]:
        assert unit in flat
    assert min(text.get_fontsize() for text in texts(figure)) >= 6


def test_every_figure_says_what_to_type_when_its_runs_are_not_there() -> None:
    alone = Tiny().add(PLAIN, [[step(1, 1, 4.0)]]).collection()
    nothing = Collection(pd.DataFrame(), pd.DataFrame(), pd.DataFrame())
    for name, data in itertools.product(NAMES, (alone, nothing)):
        with pytest.raises(Missing, match=r"run: python run\.py \S+") as raised:
            FIGURES[name].frame(data)
        assert re.search(r"\+experiment=\w+|profile=only", str(raised.value)), name


@pytest.mark.parametrize("looks", [list(LOOKS.values()), list(SETTINGS)], ids=["kinds", "settings"])
def test_colours_differ_and_so_does_what_is_left_in_grey(looks: list[Look]) -> None:
    for one, other in itertools.combinations(looks, 2):
        assert one.colour != other.colour
        assert one.marker != other.marker
        assert (one.line, one.filled) != (other.line, other.filled)
        assert one.hatch != other.hatch or not one.hatch


def test_figures_with_gaps_say_so_in_small_print(doubtful: dict[str, Figure]) -> None:
    assert {"speedups", "fig1", "fig2", "fig5", "fig6", "fig7", "reliability"} <= set(doubtful)
    for name, figure in doubtful.items():
        written = " ".join(text.get_text() for text in texts(figure))
        assert "nan" not in written.lower(), name
        assert ("invalid: " in written) == (name != "cost"), name
    assert "not drawn, invalid: cpu_load" in doubtful["fig6"].get_supxlabel()


def test_neighbouring_stages_differ_without_colour() -> None:
    hatches = [look.hatch for look in STAGES.values()]
    assert len(set(hatches)) == len(hatches)


def test_fonts_are_embedded_as_outlines_and_numbers_keep_their_format(tmp_path: Path) -> None:
    figure = Figure()
    figure.text(0.5, 0.5, "k")
    frame = pd.DataFrame({"a": [1 / 3, None], "b": ["x,y", "z"]})
    pdf, _, table = save(figure, frame, tmp_path, "one")
    assert b"/Type3" not in pdf.read_bytes()
    assert b"/FontFile2" in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()
    assert table.read_bytes() == b'a,b\n0.333333,"x,y"\n,z\n'


def figure_of(request: pytest.FixtureRequest, engines: str, name: str) -> Figure:
    plain: dict[str, Figure] = request.getfixturevalue("drawn")
    return {**plain, **request.getfixturevalue(engines)}[name]


def laid_out(figure: Figure) -> Figure:
    with matplotlib.rc_context(STYLE):
        figure.draw_without_rendering()
    return figure


def texts(figure: Figure) -> list[Text]:
    """Every text that can be seen."""
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    hidden = {id(t) for axis in figure.axes for t in unseen(axis)}
    return [text for text in found if id(text) not in hidden]


def unseen(axis: Axes) -> list[Text]:
    """Texts of an axis that are never painted: of hidden axes, and ticks outside the limits."""
    if not axis.get_visible():
        return axis.findobj(Text)
    ticks = []
    for side in (axis.xaxis, axis.yaxis):
        low, high = sorted(side.get_view_interval())
        slack = 1e-6 * (high - low)
        for tick in [*side.get_major_ticks(), *side.get_minor_ticks()]:
            outside = not low - slack <= tick.get_loc() <= high + slack
            ticks += [
                text for text in (tick.label1, tick.label2) if outside or not text.get_visible()
            ]
    return ticks


def titles(figure: Figure) -> list[Text]:
    return [
        title
        for axis in figure.axes
        for title in (axis.title, axis._left_title)  # type: ignore[attr-defined]
        if title.get_text()
    ]


def inner(one: Bbox, other: Bbox) -> bool:
    """Whether two boxes overlap by more than a hair."""
    return one.padded(-0.5).overlaps(other.padded(-0.5))


def test_a_cost_curve_without_expert_counts_draws_and_prints_none(
    frames: dict[str, pd.DataFrame],
) -> None:
    figure = FIGURES["cost"].draw(frames["cost"].assign(expert_union=float("nan")))
    below = figure.axes[1]
    assert {line.get_label() for line in below.lines} == {"uniform routing", "one token"}
    text = cost_text(replace(sample_cost(), expert_union=None))
    assert text[1].split()[-1] == "-"
    assert "nan" not in " ".join(text)

"""The answer to a what-if, on paper and on the screen; every file name says predicted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from harness.report.figures import predicted as figures
from harness.simulate.files import Sheet, draw, write
from harness.simulate.question import OVER_ALL, Question
from harness.simulate.target import fits
from harness.simulate.whatif import GONE, WhatIf, gone_at, saturated_at

SHOWN_K = (1, 2, 4, 8, 16, 24, 32)


def sheets(found: WhatIf, question: Question) -> list[Sheet]:
    """All tables of an answer."""
    setting = question.setting
    what = (
        f"{setting.model.name} on {setting.tensor_parallel} x {setting.hardware.label}, "
        f"{setting.batch} request(s) at once, T={question.temperature:g}"
    )
    said = f"Predicted, not measured: {what}."
    return [
        Sheet("terms", "Terms of C(k) in ms, predicted", said, _wide(found.terms)),
        Sheet("costs", "C(k) and the experts behind it, predicted", said, found.costs),
        Sheet("lengths", "Verify lengths that EVICT chooses, predicted", said, found.lengths),
        Sheet(
            "speedups",
            "Speedups, predicted",
            f"{said} vs_eagle3, vs_vanilla: EVICT's speed over theirs; low and high: 90 % band "
            "from what is not known of every parameter and the model's own error on the lab model.",
            found.speedups,
        ),
        Sheet(
            "batches",
            "Does the bottleneck survive batching? Predicted",
            f"{said} predicted: EVICT / EAGLE-3; expert_part: what of it the experts' growth "
            "causes; predicted_same_experts: what is left did all nodes choose the same.",
            found.batches,
        ),
        Sheet(
            "sparsity",
            "EVICT / EAGLE-3 by number of experts, predicted",
            f"{said} The experts of a layer weigh the same together, however many there are.",
            found.sparsity,
        ),
        Sheet(
            "effects",
            "What the predicted EVICT / EAGLE-3 depends on",
            f"{said} Log effect of one deviation of each parameter.",
            found.effects,
        ),
    ]


def write_answer(found: WhatIf, question: Question, folder: Path) -> list[Path]:
    """Every table as CSV and Markdown, every figure as PDF and PNG with its CSV."""
    paths = write(sheets(found, question), folder)
    paths += draw("costs_figure", figures.draw_costs, found.terms, folder)
    paths += draw("lengths_figure", figures.draw_lengths, found.lengths, folder)
    paths += draw("batches_figure", figures.draw_batches, found.batches, folder)
    if len(found.sparsity):
        paths += draw("sparsity_figure", figures.draw_sparsity, found.sparsity, folder)
    return paths


def print_answer(found: WhatIf, question: Question) -> None:
    """The tables, and in sentences what they come to."""
    shown = {sheet.name: sheet for sheet in sheets(found, question)}
    for name in ("terms", "speedups", "batches"):
        shown[name].show()
    print("\nverify lengths that EVICT chooses, predicted share of steps in %")
    chosen = found.lengths.pivot_table(index="benchmark", columns="k", values="predicted_share")
    print((100 * chosen).round().astype(int).to_string())
    print("\n" + "\n".join(sentences(found, question)))


def sentences(found: WhatIf, question: Question) -> list[str]:
    """What a reader who asked takes away; all of it predicted."""
    rows = found.speedups[found.speedups["benchmark"] == OVER_ALL]
    said = {row["measure"]: _band(row) for row in rows.to_dict("records")}
    lines = [
        f"predicted, not measured: EVICT decodes {said['vs_eagle3']} as fast as "
        f"EAGLE-3, {said['vs_vanilla']} as fast as plain decoding.",
        _experts(found.batches, question),
        _least(found.batches),
    ]
    need, have = fits(question.setting)
    if need > have:
        lines.append(
            f"the weights do not fit: {need:.0f} GiB per device, which has {have:.0f} GiB."
        )
    if len(question.drafter.donors) > 1:
        lines.append(
            "the paper has no numbers of this model: routing overlap, remainders and Mat are the "
            f"mean of {', '.join(question.drafter.donors)}; engine.mat= sets the Mat."
        )
    return lines


def _experts(batches: pd.DataFrame, question: Question) -> str:
    if not question.setting.model.experts:
        return "a dense target: no expert effect; any gain comes from compute and launches."
    gone, full = gone_at(batches, "expert_part"), saturated_at(batches)
    largest = int(batches["batch"].max())
    return (
        f"the experts' part of the gain is below {GONE:.0%} "
        f"{f'from {gone} requests at once on' if gone else f'nowhere up to {largest} requests'}; "
        f"experts saturate {f'at {full}' if full else f'nowhere up to {largest}'} (predicted)."
    )


def _least(batches: pd.DataFrame) -> str:
    gone = gone_at(batches)
    least = min(batches.to_dict("records"), key=lambda row: float(row["predicted"]))
    place = f"at {least['batch']:.0f} requests ({least['predicted'] - 1:+.1%})"
    if gone is None:
        return f"EVICT's whole gain is smallest {place} and does not disappear: compute follows."
    return f"EVICT's whole gain disappears at {gone} requests at once; it is smallest {place}."


def _band(row: Mapping[Hashable, Any]) -> str:
    return f"{row['predicted']:.2f}x [{row['low']:.2f}, {row['high']:.2f}]"


def _wide(terms: pd.DataFrame) -> pd.DataFrame:
    names = ["stage", "term", "bound"]
    kept = terms[terms["k"].isin(SHOWN_K)]
    wide = kept.pivot_table(index=names, columns="k", values="predicted_ms", sort=False)
    total = wide.sum().to_frame().T.set_index(pd.MultiIndex.from_tuples([("step", "C(k)", "")]))
    both = pd.concat([wide, total]).rename_axis(names)
    return both.rename(columns=lambda k: f"k={k}").reset_index()

"""What a reader must know beside the numbers: marks, gaps, exclusions, runs that are not whole."""

from __future__ import annotations

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import BLOCK, PREDICTED
from harness.report.doubt import invalid, time_doubt
from harness.report.tables.summary import OVERALL, ROLES
from harness.report.verdict_notes import baseline_label, few, verdict_notes
from harness.report.words import MARK_NOTES, marks

BASELINES = {
    "plain": ("plain decoding", "vanilla"),
    "full": ("EAGLE-3 (the full tree)", "eagle3"),
}
PREDICTIONS = {
    "replay": "engine replay: predicted from recorded trees and a cost table, not measured.",
    "simulated": "engine simulated: predicted from drawn trees and a cost model, not measured.",
}


def notes(table: pd.DataFrame, data: Collection) -> list[str]:
    """What qualifies the numbers of a summary table and of the runs behind it."""
    lines: list[str] = []
    if len(table):
        lines += _kind_notes(table) + _mark_notes(table)
        lines += verdict_notes(table, data.runs) + _missing_baselines(table)
        lines += _pair_notes(table) + _machine_notes(data.runs) + _run_notes(data.runs)
    if data.left_out:
        lines.append(f"left out: {len(data.left_out)}")
        lines += [f"  {name}: {reason}" for name, reason in sorted(data.left_out.items())]
    return lines


def _kind_notes(table: pd.DataFrame) -> list[str]:
    lines = []
    if table["lab"].any():
        lines.append("lab model: real routing and acceptance, not the paper's models or speeds.")
    if table["recorded"].any():
        lines.append("runs that kept their trees have no speed: recording takes time.")
    shown = set(table.loc[table["predicted"].astype(bool), "engine"])
    lines += [text for engine, text in PREDICTIONS.items() if engine in shown]
    return lines


def _mark_notes(table: pd.DataFrame) -> list[str]:
    used = "".join(marks(row) for row in table[["scores", "lossless"]].to_dict("records"))
    lines = [text for mark, text in MARK_NOTES.items() if mark in used]
    remarks = table[table["remark"] != ""].drop_duplicates(["method_label", "remark"])
    return lines + [f"{row.method_label}: {row.remark}." for row in remarks.itertuples()]


def _missing_baselines(table: pd.DataFrame) -> list[str]:
    """Blocks without a baseline, and rows that found no partner in one that has it."""
    timed = table[~table["predicted"] & ~table["recorded"] & (table["benchmark"] != OVERALL)]
    lines: list[str] = []
    for _, block in timed.groupby(BLOCK, sort=False):
        first = block.iloc[0]
        place = f"{first['experiment']}, engine {first['engine']}, T={first['temperature']:g}"
        for role in ROLES:
            label, method = BASELINES[role]
            if not (block["baseline"] == role).any():
                lines.append(
                    f"{place}: no run of {label} with the same settings, no speedup over it; "
                    f"run the same command with 'compare=[{method}]'."
                )
                continue
            alone = block[(block["baseline"] != role) & (block[f"vs_{role}_prompts"] == 0)]
            if len(alone):
                names = ", ".join(f"{r.method_label} on {r.benchmark}" for r in alone.itertuples())
                lines.append(f"{place}: no run of {label} to pair with: {names}.")
    return lines


def _pair_notes(table: pd.DataFrame) -> list[str]:
    lines = []
    measured = table[~table["predicted"]]
    for role in ROLES:
        label = baseline_label(table, role)
        single = measured[measured["benchmark"] != OVERALL]
        excluded = int(single[f"vs_{role}_excluded"].sum())
        if excluded:
            lines.append(f"vs {label}: {excluded} generations without a usable partner left out.")
        if (measured[f"vs_{role}_interleaved"].dropna() < 1).any():
            lines.append(f"vs {label}: not all pairs were measured interleaved in one process.")
        exact = single[(single["temperature"] == 0) & single["lossless"]]
        different = int(exact[f"vs_{role}_different"].sum())
        if different:
            faults = int(exact[f"vs_{role}_faults"].sum())
            lines.append(
                f"vs {label}: {different} greedy outputs differ from the baseline's, {faults} of "
                "them by more than a stop rule."
            )
    return lines


def _machine_notes(runs: pd.DataFrame) -> list[str]:
    timed = runs[~runs["engine"].isin(PREDICTED)]
    return [
        f"{block['experiment'].iloc[0]}: runs from {block['machine_hash'].nunique()} machines or "
        "engine builds in one table; they are never paired, and no speed pools them."
        for _, block in timed.groupby(BLOCK, sort=False)
        if block["machine_hash"].nunique() > 1
    ]


def _run_notes(runs: pd.DataFrame) -> list[str]:
    lines = []
    truncated = int(runs["truncated_requests"].sum())
    if truncated:
        lines.append(f"{truncated} prompts were truncated to fit the context.")
    whys: dict[str, list[str]] = {}
    for row in runs[runs["reasons"].map(len) > 0].to_dict("records"):
        whys.setdefault(f"{row['status']}: {'; '.join(row['reasons'])}", []).append(row["run"])
    lines += [f"{few(found)}: {why}" for why, found in whys.items()]
    live = runs[~runs["engine"].isin(PREDICTED) & ~_invalid_times(runs)]
    wall = float(live["wall_ms"].sum())
    if wall:
        outside = 100 * (1 - float(live["engine_ms"].sum()) / wall)
        lines.append(f"time outside the engine: {outside:.1f} % of the measured part.")
    return lines


def _invalid_times(runs: pd.DataFrame) -> pd.Series:
    found = [invalid(time_doubt(runs.iloc[[i]])) for i in range(len(runs))]
    return pd.Series(found, index=runs.index, dtype=bool)

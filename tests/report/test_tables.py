from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.collection import Collection
from harness.report.layouts import texts
from harness.report.spec import Missing
from harness.report.tables import TABLES
from harness.report.tables.measures import step_means
from harness.stats import Pair, speedup
from tests.support.collection import sample_collection
from tests.support.sample_methods import EVICT, VANILLA

Rows = list[dict[str, object]]


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection()


def rows(frame: pd.DataFrame, **wanted: object) -> Rows:
    """Rows of a frame with these values."""
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return frame.to_dict("records")  # type: ignore[return-value]


def one(frame: pd.DataFrame, **wanted: object) -> dict[str, float]:
    (row,) = rows(frame, **wanted)
    return row  # type: ignore[return-value]


def runs_of(data: Collection, experiment: str, method: str, temperature: float = 0.0) -> set[str]:
    found = rows(data.runs, experiment=experiment, method=method, temperature=temperature)
    return {str(row["run"]) for row in found}


def changed(data: Collection, edit: Callable[[pd.DataFrame], None]) -> Collection:
    """The collection with its runs edited in place, the shared sample untouched."""
    runs = data.runs.copy()
    edit(runs)
    return replace(data, runs=runs)


def test_table1_pools_prompts_and_repeats_and_averages_benchmarks(data: Collection) -> None:
    frame = TABLES["table1"].build(data)
    speeds = {}
    for method in ("vanilla", "evict"):
        for name in data.runs["benchmark"].unique():
            runs = runs_of(
                data.select(set(data.runs.loc[data.runs.benchmark == name, "run"])), "paper", method
            )
            own = data.requests[data.requests["run"].isin(runs)]
            speeds[method, name] = 1e3 * own["decode_tokens"].sum() / own["decode_ms"].sum()
            row = one(frame, method=method, benchmark=name, temperature=0.0)
            assert row["tokens_per_s"] == pytest.approx(speeds[method, name])
    means = {
        m: np.mean([v for (k, _), v in speeds.items() if k == m]) for m in ("vanilla", "evict")
    }
    average = one(frame, method="evict", benchmark="average", temperature=0.0)
    assert average["tokens_per_s"] == pytest.approx(means["evict"])
    assert average["over_plain"] == pytest.approx(means["evict"] / means["vanilla"])


def test_a_method_without_all_benchmarks_has_no_average(data: Collection) -> None:
    gone = set(rows_runs(data, method="evict", benchmark="qa", experiment="paper"))
    partial = data.select(set(data.runs["run"]) - gone)
    frame = TABLES["table1"].build(partial)
    assert math.isnan(
        one(frame, method="evict", benchmark="average", temperature=0.0)["tokens_per_s"]
    )
    heads, cells = texts("table1", frame)
    line = next(row for row in cells if row[:2] == ["0", "EVICT"])
    assert (line[heads.index("QA")], line[heads.index("average")]) == ("-", "- (-)")


def rows_runs(data: Collection, **wanted: object) -> list[str]:
    return [str(row["run"]) for row in rows(data.runs, **wanted)]


def test_speedups_are_paired_by_prompt_against_all_three_baselines(data: Collection) -> None:
    frame = TABLES["table1_speedup"].build(data)
    for role, method in (("plain", "vanilla"), ("full", "eagle3"), ("tuned", "best_fixed")):
        expected = speedup(pairs(data, "evict", method))
        row = one(frame, method="evict", role=role, benchmark="all", temperature=0.0)
        assert row["ratio"] == pytest.approx(expected.ratio)
        assert row["prompts"] == expected.clusters == 24
        assert row["low"] < row["ratio"] < row["high"]
    assert {row["method"] for row in rows(frame)} == set(
        data.runs.loc[data.runs.experiment == "paper", "method"]
    ) - {"vanilla"}


def pairs(data: Collection, method: str, baseline: str) -> list[Pair]:
    key = ["prompt_id", "turn", "repeat"]
    arms = []
    for name in (method, baseline):
        own = data.requests[data.requests["run"].isin(runs_of(data, "paper", name))]
        arms.append({tuple(row[k] for k in key): row for row in own.to_dict("records")})
    left, right = arms
    return [
        Pair(
            k[0],
            left[k]["decode_ms"],
            left[k]["decode_tokens"],
            right[k]["decode_ms"],
            right[k]["decode_tokens"],
        )
        for k in sorted(left)
    ]


def test_an_interval_around_one_is_said_in_words(data: Collection) -> None:
    runs = data.runs.copy()
    evict = runs["run"].isin(runs_of(data, "paper", "evict"))
    twin = runs[evict].assign(
        run=runs.loc[evict, "run"] + "-twin", method="twin", method_label="twin"
    )
    twin["method_hash"], twin["baseline"] = "twin", "full"
    runs.loc[runs["baseline"] == "full", "baseline"] = None
    same = data.requests[data.requests["run"].isin(set(runs.loc[evict, "run"]))]
    requests = pd.concat([data.requests, same.assign(run=same["run"] + "-twin")])
    both = replace(data, runs=pd.concat([runs, twin], ignore_index=True), requests=requests)
    row = one(
        TABLES["table1_speedup"].build(both),
        method="evict",
        role="full",
        benchmark="all",
        temperature=0.0,
    )
    assert (row["ratio"], row["low"], row["high"]) == (1.0, 1.0, 1.0)
    _, cells = texts("table1_speedup", TABLES["table1_speedup"].build(both))
    line = next(row for row in cells if row[:3] == ["0", "twin", "EVICT"])
    assert line[3:] == ["no difference shown [1.00, 1.00]"] * 7


def test_without_a_baseline_there_is_no_speedup_over_it(data: Collection) -> None:
    alone = data.select(set(data.runs["run"]) - set(rows_runs(data, method="eagle3")))
    assert set(TABLES["table1_speedup"].build(alone)["role"]) == {"plain", "tuned"}
    bare = data.select(set(data.runs["run"]) - set(rows_runs(data, method="vanilla")))
    with pytest.raises(Missing, match=r"plain decoding.*\+experiment=table1"):
        TABLES["table1_speedup"].build(bare)


def test_the_papers_ratios_stand_beside_ours(data: Collection) -> None:
    frame = TABLES["table1_paper"].build(data)
    row = one(frame, method="evict", against="vanilla", benchmark="average", temperature=0.0)
    assert row["paper_ratio"] == pytest.approx(202.82 / 144.46)
    table1 = TABLES["table1"].build(data)
    ours = one(table1, method="evict", benchmark="average", temperature=0.0)["over_plain"]
    assert row["ratio"] == pytest.approx(ours)
    row = one(frame, method="evict", against="eagle3", benchmark="gsm8k", temperature=1.0)
    assert row["paper_ratio"] == pytest.approx(249.97 / 203.51)
    assert set(frame["method"]) == {"lookahead", "eagle3", "ddd", "evict"}
    other = changed(data, lambda runs: runs.__setitem__("model", "ling_flash"))
    row = one(
        TABLES["table1_paper"].build(other),
        method="evict",
        against="vanilla",
        benchmark="alpaca",
        temperature=0.0,
    )
    assert row["paper_ratio"] != pytest.approx(183.82 / 149.75)


def test_an_average_over_other_benchmarks_is_not_put_beside_the_papers(data: Collection) -> None:
    five = data.select(set(data.runs.loc[data.runs["benchmark"] != "qa", "run"]))
    frame = TABLES["table1_paper"].build(five)
    assert "average" not in set(frame["benchmark"])
    mats = TABLES["mat"].build(five)
    assert mats.loc[mats["benchmark"] == "average", "paper_mat"].isna().all()
    assert mats.loc[mats["benchmark"] == "average", "mat"].notna().all()


def test_mat_counts_committed_tokens_per_step(data: Collection) -> None:
    frame = TABLES["mat"].build(data)
    name = "gsm8k"
    mats = {}
    for method in ("evict", "eagle3"):
        runs = set(
            rows_runs(data, method=method, benchmark=name, experiment="paper", temperature=1.0)
        )
        own = data.steps[data.steps["run"].isin(runs)]
        mats[method] = own["committed"].sum() / len(own)
    row = one(frame, method="evict", benchmark=name, temperature=1.0)
    assert row["mat"] == pytest.approx(mats["evict"])
    assert row["retention"] == pytest.approx(mats["evict"] / mats["eagle3"])
    assert (row["paper_mat"], row["paper_retention"]) == (4.14, pytest.approx(4.14 / 4.58))
    average = one(frame, method="evict", benchmark="average", temperature=0.0)
    assert round(average["paper_retention"], 3) == 0.847
    assert "vanilla" not in set(frame["method"])


def test_acceptance_rates_follow_from_the_steps(data: Collection) -> None:
    frame = TABLES["acceptance"].build(data)
    own = data.steps[data.steps["run"].isin(runs_of(data, "paper", "evict"))]["committed"] - 1
    found = frame[(frame["method"] == "evict") & (frame["temperature"] == 0)].set_index("accepted")
    for i in found.index:
        assert found.at[i, "steps"] == (own == i).sum()
        assert found.at[i, "marginal"] == pytest.approx((own >= i).mean())
    assert found["share"].sum() == pytest.approx(1)
    assert found["length"].iloc[0] == pytest.approx(1 + own.mean())
    assert found.at[2, "conditional"] == pytest.approx((own >= 2).sum() / (own >= 1).sum())
    assert math.isnan(found.at[0, "conditional"])


def test_a_stage_that_was_not_measured_has_no_share_and_does_not_count_as_none(
    data: Collection,
) -> None:
    runs = data.runs[data.runs["method"] == "eagle3"].head(1)
    steps = data.steps[data.steps["run"].isin(runs["run"])].copy()
    steps.loc[:, "draft_ms"] = float("nan")
    steps.loc[steps.index[::2], "verify_ms"] = float("nan")
    found = step_means(replace(data, steps=steps), runs)
    kept = steps.dropna(subset="verify_ms")
    assert found["draft_share"] is None
    expected = kept["verify_ms"].sum() / kept["total_ms"].sum()
    assert found["verify_share"] == pytest.approx(expected)


def test_shares_leave_the_root_out_of_the_ratios(data: Collection) -> None:
    own = data.steps[data.steps["run"].isin(runs_of(data, "paper", "best_fixed"))]
    row = one(TABLES["shares"].build(data), method="best_fixed", benchmark="all", temperature=0.0)
    assert (row["drafted"], row["verified"]) == (31, 8)
    assert row["kept_share"] == pytest.approx(7 / 31)
    assert row["accepted_per_verified"] == pytest.approx(own["accepted"].mean() / 7)
    assert row["accepted_per_drafted"] == pytest.approx(own["accepted"].mean() / 31)
    assert row["verify_share"] == pytest.approx(own["verify_ms"].sum() / own["total_ms"].sum())


def test_reductions_compare_with_the_full_tree_and_with_the_claims(data: Collection) -> None:
    frame = TABLES["reductions"].build(data)
    row = one(
        frame, method="best_fixed", measure="verified_tokens", benchmark="all", temperature=0.0
    )
    assert row["saved"] == pytest.approx(24 / 32)
    means = [
        data.steps[data.steps["run"].isin(runs_of(data, "paper", name))]["verify_ms"].mean()
        for name in ("evict", "eagle3")
    ]
    row = one(frame, method="evict", measure="verify_latency", benchmark="all", temperature=0.0)
    assert row["saved"] == pytest.approx(1 - means[0] / means[1])
    claims = frame.loc[frame["method"] == "evict"].drop_duplicates("measure").set_index("measure")
    assert claims["paper"].to_dict() == {
        "verified_tokens": 0.747,
        "active_experts": 0.325,
        "verify_latency": 0.266,
    }
    assert frame.loc[frame["method"] != "evict", "paper"].isna().all()


def test_spread_is_over_repeats_and_refuses_what_n_does_not_carry(data: Collection) -> None:
    frame = TABLES["spread"].build(data)
    own = data.requests[data.requests["run"].isin(runs_of(data, "paper", "evict"))]
    sums = own.groupby("repeat")[["decode_tokens", "decode_ms"]].sum()
    speeds = 1e3 * sums["decode_tokens"] / sums["decode_ms"]
    row = one(frame, method="evict", temperature=0.0)
    assert row["mean_tokens_per_s"] == pytest.approx(speeds.mean())
    assert row["half_width"] == pytest.approx(4.303 * speeds.std() / math.sqrt(3), rel=1e-3)
    small = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 3, 1)
    found = TABLES["spread"].build(small)
    row = one(found, method="evict")
    assert row["steps"] < 100
    assert pd.isna(row["p99_ms"])
    heads, cells = texts("spread", found)
    line = next(row for row in cells if "EVICT" in row)
    assert [line[heads.index(name)] for name in ("tok/s", "p99 ms")] == ["n too small"] * 2
    assert line[heads.index("p50 ms")] != "n too small"


def test_tuned_settings_are_listed(data: Collection) -> None:
    frame = TABLES["tuning"].build(data)
    row = one(frame, experiment="paper", temperature=0.0, method="best_fixed")
    assert (row["parameter"], row["value"]) == ("selection.k", "8")
    with pytest.raises(Missing, match="tuned"):
        TABLES["tuning"].build(
            sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 3, 1).select(
                set(
                    rows_runs(
                        sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 3, 1),
                        experiment="paper",
                    )
                )
            )
        )


def test_runs_of_other_settings_never_enter_a_number(data: Collection) -> None:
    """A short run beside the full one: one block is shown, nothing is pooled."""
    runs = data.runs[data.runs["experiment"] == "paper"].copy()
    runs["run"], runs["settings_hash"], runs["requests_ok"] = runs["run"] + "-short", "short", 1
    runs["pair_hash"] = runs["pair_hash"] + "short"
    requests = data.requests[data.requests["run"].isin(runs_of(data, "paper", "evict"))]
    slow = requests.assign(run=requests["run"] + "-short", decode_ms=1e6)
    both = replace(
        data,
        runs=pd.concat([data.runs, runs], ignore_index=True),
        requests=pd.concat([data.requests, slow], ignore_index=True),
    )
    pd.testing.assert_frame_equal(TABLES["table1"].build(both), TABLES["table1"].build(data))
    summary = TABLES["summary"].build(both)
    kept = summary[summary["settings_hash"] != "short"].reset_index(drop=True)
    assert len(summary) > len(kept)
    found = kept.loc[kept.experiment == "paper", "decode_tokens_per_s"].tolist()
    before = TABLES["summary"].build(data)
    assert found == before.loc[before.experiment == "paper", "decode_tokens_per_s"].tolist()


def test_speeds_of_different_machines_are_not_pooled(data: Collection) -> None:
    def edit(runs: pd.DataFrame) -> None:
        moved = runs["run"].isin(
            set(rows_runs(data, method="evict", benchmark="qa", experiment="paper"))
        )
        runs.loc[moved, "machine_hash"] = "other"
        runs.loc[moved, "fingerprint"] = runs.loc[moved, "fingerprint"].map(
            lambda found: {**found, "machine.cpu": "another processor"}
        )

    summary = TABLES["summary"].build(changed(data, edit))
    row = one(summary, experiment="paper", method="evict", benchmark="all", temperature=0.0)
    assert math.isnan(row["decode_tokens_per_s"])
    row = one(summary, experiment="paper", method="evict", benchmark="qa", temperature=0.0)
    for role in ("plain", "full"):
        assert math.isnan(row[f"vs_{role}"])
        assert "not_comparable" in row[f"vs_{role}_doubt"]


def test_recorded_runs_have_no_speed_and_replays_are_called_predicted(data: Collection) -> None:
    frame = TABLES["summary"].build(data)
    recorded = frame[frame["recorded"]]
    assert len(recorded)
    assert recorded["decode_tokens_per_s"].isna().all()
    assert recorded["draft_share"].isna().all()
    assert recorded["mat"].notna().all()
    heads, cells = texts("summary", frame)
    column = heads.index("experiment")
    assert {row[column] for row in cells} == {
        "paper",
        "tree_size",
        "trees (trees kept)",
        "replay (predicted)",
    }


def test_a_model_without_runs_says_what_to_type() -> None:
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 3, 1)
    nothing = data.select(set())
    for spec in TABLES.values():
        if spec.name != "summary":
            with pytest.raises(Missing, match=r"run: python run\.py"):
                spec.build(nothing)
    assert TABLES["summary"].build(nothing).empty

"""Tables about the runs: what they took, equal outputs, drift, plain decoding against itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.collection import Collection
from harness.report.doubt import TIME
from harness.report.figures import FIGURES
from harness.report.headline import headline
from harness.report.layouts import texts
from harness.report.spec import Missing
from harness.report.tables import TABLES
from harness.validity.judge import judge
from tests.support.collection import sample_collection
from tests.support.sample_evidence import (
    ABSENT,
    MEMORY_MIB,
    WATT,
    edited,
    names,
    of_an_older_version,
    under_load,
)
from tests.support.sample_methods import EAGLE3, EVICT, VANILLA, VANILLA_AA

METHODS = (VANILLA, VANILLA_AA, EAGLE3, EVICT)


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection((0.0,), ("gsm8k", "qa"), METHODS, 3, 2)


def built(data: Collection, name: str, **wanted: object) -> dict[str, Any]:
    frame = TABLES[name].build(data)
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    (row,) = frame.to_dict("records")
    return {str(key): value for key, value in row.items()}


def own(data: Collection, method: str) -> pd.DataFrame:
    runs = names(data, experiment="paper", method=method)
    return data.requests[data.requests["run"].isin(runs)]


def line(data: Collection, name: str, method: str) -> dict[str, str]:
    """The row of a method as a person reads it."""
    heads, rows = texts(name, TABLES[name].build(data))
    found = next(row for row in rows if row[heads.index("method")] == method)
    return dict(zip(heads, found, strict=True))


def test_resources_are_summed_over_the_generations_of_a_method(data: Collection) -> None:
    row, rows = built(data, "resources", method="evict"), own(data, "evict")
    seconds = float(rows["engine_ms"].sum()) / 1e3
    assert row["cpu_s"] == pytest.approx(seconds)
    assert row["energy_j"] == pytest.approx(WATT * seconds)
    tokens = float(rows["decode_tokens"].sum()) + len(rows)
    assert row["j_per_token"] == pytest.approx(WATT * seconds / tokens)
    assert row["memory_peak_mib"] == MEMORY_MIB
    assert row["others_cores"] == pytest.approx(0.02)
    assert "GPU clock, MHz" not in line(data, "resources", "EVICT")


def test_one_run_without_energy_leaves_no_sum_and_the_reason_in_its_place(data: Collection) -> None:
    run = names(data, experiment="paper", method="evict", benchmark="qa")
    telemetry = data.telemetry.copy()
    telemetry.loc[telemetry["run"].isin(run), "energy_j"] = np.nan
    told = edited(data, run, "absent", lambda _: {**ABSENT, "cpu.energy": "no RAPL counter"})
    dark = judge(replace(told, telemetry=telemetry))
    row = built(dark, "resources", method="evict")
    assert row["energy_j"] is None or np.isnan(row["energy_j"])
    assert line(dark, "resources", "EVICT")["J/token"] == "no RAPL counter"
    assert float(line(dark, "resources", "EAGLE-3")["J/token"]) > 0
    silent = judge(replace(data, telemetry=telemetry))
    assert line(silent, "resources", "EVICT")["J/token"].startswith("energy was not read")


def test_a_gpu_brings_its_clock_its_memory_and_its_energy(data: Collection) -> None:
    run = data.telemetry["run"].isin(names(data, experiment="paper", method="evict"))
    gpu = data.telemetry[run].assign(
        device="gpu0", clock_mhz=1965.0, busy=0.9, memory_mib=4096.0, throttle="", foreign=0
    )
    gpu["energy_j"] = 400.0 * gpu["at_ms"] / 1e3
    both = judge(replace(data, telemetry=pd.concat([data.telemetry, gpu], ignore_index=True)))
    row, shown = built(both, "resources", method="evict"), line(both, "resources", "EVICT")
    assert (row["gpu_clock_mhz"], row["gpu_memory_peak_mib"]) == (1965.0, 4096.0)
    assert row["energy_j"] == pytest.approx(
        400.0 * float(own(data, "evict")["engine_ms"].sum()) / 1e3
    )
    assert (shown["GPU clock, MHz"], shown["GPU memory, MiB"]) == ("1965", "4096")
    assert line(both, "resources", "EAGLE-3")["GPU clock, MHz"] == "-"


def test_of_an_invalid_run_only_the_evidence_is_shown(data: Collection) -> None:
    loaded = under_load(data, names(data, experiment="paper", method="evict", benchmark="qa"))
    shown = line(loaded, "resources", "EVICT")
    assert shown["CPU s"] == shown["J/token"] == "invalid: cpu_load"
    assert shown["others' cores"] == "1.00"
    assert float(shown["memory, MiB"]) == MEMORY_MIB


def test_without_telemetry_there_is_no_table_of_it(data: Collection) -> None:
    for name in ("resources", "drift"):
        with pytest.raises(Missing, match=r"run: python run\.py"):
            TABLES[name].build(of_an_older_version(data))


def with_outputs(data: Collection, method: str, kinds: dict[str, list[int]]) -> Collection:
    """The outputs of a method's QA run, with first divergences by kind."""

    def value(row: dict[str, Any]) -> dict[str, Any]:
        pairs = row["outputs"]["pairs"]
        counts = {kind: len(places) for kind, places in kinds.items()}
        parted = [
            {"prompt_id": "p", "kind": kind, "first_divergence": place, "gap": 0.001}
            for kind, places in kinds.items()
            for place in places
        ]
        counts["equal"] = pairs - len(parted)
        return {"pairs": pairs, "counts": counts, "differences": parted}

    return edited(
        data, names(data, experiment="paper", method=method, benchmark="qa"), "outputs", value
    )


def test_outputs_are_counted_by_kind_beside_the_floor(data: Collection) -> None:
    changed = with_outputs(data, "evict", {"near_tie": [7, 4], "stop_rule": [11]})
    changed = with_outputs(changed, "vanilla_aa", {"near_tie": [9]})
    row = built(changed, "outputs", method="evict", benchmark="qa")
    assert [row[kind] for kind in ("equal", "near_tie", "stop_rule", "fault")] == [3, 2, 1, 0]
    assert (row["pairs"], row["first_divergence"]) == (6, 4)
    assert (row["floor"], row["floor_pairs"]) == (1, 6)
    pooled = built(changed, "outputs", method="evict", benchmark="all")
    assert (pooled["pairs"], pooled["equal"], pooled["floor_pairs"]) == (12, 9, 12)
    shown = line(changed, "outputs", "EVICT")
    assert (shown["near tie"], shown["itself"]) == ("2", "1 of 12")
    assert line(changed, "outputs", "vanilla, again")["near tie"] == "1"


def test_outputs_without_a_replica_have_no_floor_and_sampling_has_no_outputs() -> None:
    alone = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    assert line(alone, "outputs", "EVICT")["itself"] == "-"
    sampled = sample_collection((1.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    with pytest.raises(Missing, match="temperature=0"):
        TABLES["outputs"].build(sampled)


def faster_replica(data: Collection, factor: float) -> Collection:
    requests = data.requests.copy()
    again = requests["run"].isin(names(data, method="vanilla_aa"))
    requests.loc[again, "decode_ms"] /= factor
    return judge(replace(data, requests=requests))


def test_plain_decoding_against_itself_holds_one_or_says_that_it_does_not(data: Collection) -> None:
    row = built(data, "floor", benchmark="all")
    assert row["low"] <= 1.0 <= row["high"]
    assert (row["holds_one"], row["prompts"], row["different"], row["pairs"]) == (True, 6, 0, 12)
    moved = faster_replica(data, 1.2)
    row = built(moved, "floor", benchmark="all")
    assert row["ratio"] == pytest.approx(1.2, rel=0.02)
    assert row["holds_one"] is False
    heads, rows = texts("floor", TABLES["floor"].build(moved))
    assert rows[0][heads.index("all")].endswith("leaves out 1")
    with pytest.raises(Missing, match=r"only once.*\+experiment=paper"):
        TABLES["floor"].build(data.select(set(names(data, method="vanilla"))))


def test_an_invalid_replica_shows_no_floor(data: Collection) -> None:
    loaded = under_load(data, names(data, method="vanilla_aa", benchmark="qa"))
    assert built(loaded, "floor", benchmark="gsm8k")["ratio"] is not None
    for name in ("qa", "all"):
        row = built(loaded, "floor", benchmark=name)
        assert np.isnan(row["ratio"])
        assert row["ratio_doubt"] == "invalid: cpu_load"


def test_a_machine_that_slows_down_is_seen_in_the_drift_and_invalid_runs_are_not(
    data: Collection,
) -> None:
    rows = data.requests.copy()
    steady = rows.assign(decode_ms=72.0, decode_tokens=18)
    last = float(rows["ended_ms"].max())
    slowing = steady.assign(decode_ms=72.0 * (1 + 0.5 * rows["started_ms"] / last))
    found = built(judge(replace(data, requests=slowing)), "drift", experiment="paper")
    assert found["shown"]
    assert 0 < found["low"] < found["over_run"] < found["high"]
    assert found["generations"] == 48
    loaded = under_load(
        replace(data, requests=slowing), names(data, method="evict", engine="torch")
    )
    assert built(loaded, "drift", experiment="paper")["generations"] == 36
    quiet = judge(replace(data, requests=steady))
    heads, lines = texts("drift", TABLES["drift"].build(quiet))
    assert lines[0][heads.index("change, %")].startswith("no drift shown")


def test_a_replica_has_its_own_row_in_speed_tables_and_in_no_other(data: Collection) -> None:
    for name in ("table1", "spread", "summary", "table1_speedup"):
        assert "vanilla_aa" in set(TABLES[name].build(data)["method"]), name
    speedups = TABLES["table1_speedup"].build(data)
    assert set(speedups.loc[speedups["method"] == "vanilla_aa", "role"]) == {"plain"}
    for name in ("mat", "acceptance", "shares", "reductions", "table1_paper"):
        assert "vanilla_aa" not in set(TABLES[name].build(data)["method"]), name
    labels = [FIGURES[name].frame(data) for name in ("speedups", "fig5", "fig6")]
    assert not any("vanilla, again" in set(frame["method_label"]) for frame in labels)


def test_a_replica_is_no_rival_however_fast_it_is(data: Collection) -> None:
    requests = data.requests.copy()
    again = requests["run"].isin(names(data, method="vanilla_aa"))
    requests.loc[again, "decode_ms"] /= 100.0
    fast = judge(replace(data, requests=requests))
    frames = {"table1": TABLES["table1"].build(fast)}
    assert frames["table1"].set_index("method")["tokens_per_s"].idxmax() == "vanilla_aa"
    said = " ".join(headline(fast, frames))
    assert "highest pooled speed on" in said
    assert "again" not in said


def test_the_runs_table_says_the_verdict_and_what_speaks_against_a_run(data: Collection) -> None:
    (run,) = names(data, experiment="paper", method="evict", benchmark="qa")
    loaded = under_load(data, [run])
    row = built(loaded, "runs", run=run)
    assert row["verdict"] == row[TIME] == "invalid: cpu_load"
    assert row["against"].startswith("cpu_load (others used 1.0 of 2 cores")
    heads, rows = texts("runs", TABLES["runs"].build(loaded))
    shown = {line[heads.index("run")]: line for line in rows}
    assert "others used 1.0 of 2 cores" in shown[run][heads.index("reasons")]
    others = {line[heads.index("verdict")] for name, line in shown.items() if name != run}
    assert others == {"valid"}

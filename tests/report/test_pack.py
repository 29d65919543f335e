from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evict.errors import InputError
from harness import pack
from harness.collect import collect, collect_facts
from harness.collect_checks import copies
from harness.collection import Collection
from harness.facts import Facts
from harness.pack import write_pack
from harness.unpack import INDEX, read_pack, read_pack_facts
from tests.support.collection import sample_collection
from tests.support.run_folder import write_runs
from tests.support.sample_methods import EAGLE3, EVICT, VANILLA

KEYS = ["run", "prompt_id", "turn", "repeat", "step"]


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection((0.0,), ("gsm8k", "mt_bench"), (VANILLA, EAGLE3, EVICT), 2, 2)


@pytest.fixture
def packed(data: Collection, tmp_path: Path) -> Path:
    facts = {
        run: Facts({"limit": 4, "method": {"k": i % 2}}) for i, run in enumerate(data.runs.run)
    }
    return write_pack(data, facts, tmp_path / "pack")


def test_a_pack_gives_the_same_collection_to_the_microsecond(
    data: Collection, packed: Path
) -> None:
    found = read_pack(packed)
    assert found.runs.to_dict("records") == _plain(data.runs).to_dict("records")
    assert found.costs == data.costs
    for name in ("requests", "trees"):
        assert _rows(getattr(found, name)) == _rows(getattr(data, name))
    assert list(found.steps["run"]) == list(data.steps["run"])
    for name in data.steps.columns:
        left, right = found.steps[name], data.steps[name]
        if name.endswith("_ms"):
            np.testing.assert_allclose(left, right, rtol=0, atol=5.1e-4)
        elif right.dtype == float:
            np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-6)
        else:
            assert left.tolist() == right.tolist()


def test_recorded_trees_come_back_bit_by_bit(data: Collection, packed: Path) -> None:
    found = read_pack(packed)
    runs = data.runs.loc[data.runs["recorded"], "run"]
    pairs = [
        (left, right)
        for run in runs
        for left, right in zip(found.recorded_trees(run), data.recorded_trees(run), strict=True)
    ]
    assert len(pairs) > 20
    for left, right in pairs:
        assert left.to_row() == right.to_row()


def test_expert_ids_above_a_byte_and_trees_of_other_shapes_survive(tmp_path: Path) -> None:
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    trees = data.trees.copy().reset_index(drop=True)
    wide = np.arange(5 * 2 * 3, dtype="<i2").reshape(5, 2, 3) + 290
    changed = {
        "experts": wide.tobytes(),
        "experts_shape": [5, 2, 3],
        "tokens": [1, 2, 3, 4, 99_999],
    }
    for name, value in changed.items():
        trees.at[0, name] = value
    write_pack(replace(data, trees=trees), {}, tmp_path)
    row = read_pack(tmp_path).trees.iloc[0]
    assert row["experts"] == wide.tobytes()
    assert (list(row["experts_shape"]), list(row["tokens"])) == ([5, 2, 3], [1, 2, 3, 4, 99_999])


def test_a_missing_measurement_stays_missing(tmp_path: Path) -> None:
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    steps = data.steps.copy()
    steps["expert_union"] = steps["expert_union"].where(steps["step"] != 1)
    steps["extend_ms"] = steps["extend_ms"].where(steps["step"] != 2)
    write_pack(replace(data, steps=steps), {}, tmp_path)
    found = read_pack(tmp_path).steps
    assert found["expert_union"].isna().tolist() == (steps["step"] == 1).tolist()
    assert found["extend_ms"].isna().tolist() == (steps["step"] == 2).tolist()


def test_equal_input_gives_equal_bytes(data: Collection, packed: Path, tmp_path: Path) -> None:
    again = write_pack(data, read_pack_facts(packed), tmp_path / "again")
    assert _bytes(again) == _bytes(packed)


@pytest.mark.parametrize("name", ["runs.jsonl", "steps.parquet", "requests.parquet", "costs.json"])
def test_a_changed_file_is_refused_by_name(packed: Path, name: str) -> None:
    content = bytearray((packed / name).read_bytes())
    content[len(content) // 2] ^= 1
    (packed / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        read_pack(packed)
    (packed / name).unlink()
    with pytest.raises(InputError, match=f"{name}.*no such file"):
        read_pack(packed)


def test_a_pack_of_an_older_schema_is_refused(packed: Path) -> None:
    index = json.loads((packed / INDEX).read_text())
    (packed / INDEX).write_text(json.dumps(index | {"schema_version": 1}))
    with pytest.raises(InputError, match="schema version; seen: 1"):
        read_pack(packed)


def test_only_a_pack_or_an_empty_folder_is_written_to(data: Collection, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match="neither empty nor a pack"):
        write_pack(data, {}, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_command_packs_a_results_folder_without_local_paths(
    data: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, out = write_runs(data, tmp_path / "runs"), tmp_path / "out"
    (results / data.runs["run"][0] / "result.json").unlink()
    assert pack.main([str(results), str(out)]) == 0
    assert f"left out: {data.runs['run'][0]}: cut" in capsys.readouterr().out
    assert read_pack(out).left_out == collect(results).left_out
    for file in out.iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file.name
    run = data.runs["run"].iloc[-1]
    facts = collect_facts(out, [run])[run]
    assert facts == collect_facts(results, [run])[run]
    assert facts.config["calibration"] == "calibration.jsonl"
    assert facts.parts[0]["cpu"] == "sample processor"
    assert "results_dir" not in facts.config


def test_collect_reads_a_pack_like_the_directories(data: Collection, tmp_path: Path) -> None:
    results = write_runs(data, tmp_path / "runs")
    pack.main([str(results), str(tmp_path / "out")])
    live, found = collect(results), collect(tmp_path / "out")
    assert list(found.runs["run"]) == list(live.runs["run"])
    assert _rows(found.requests) == _rows(live.requests)
    assert set(found.costs) == set(live.costs)


def test_the_command_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pack.main([str(tmp_path / "none"), str(tmp_path / "out")]) == 2
    assert pack.main([str(tmp_path), str(tmp_path / "out")]) == 2
    printed = capsys.readouterr().err
    assert "no such folder" in printed
    assert "nothing to pack" in printed


def test_repeated_settings_are_stored_once(data: Collection, packed: Path) -> None:
    assert len(json.loads((packed / "costs.json").read_text())) == 1
    assert len((packed / "configs.jsonl").read_text().splitlines()) == 3
    assert {fact.config["limit"] for fact in read_pack_facts(packed).values()} == {4}


def test_a_second_copy_of_a_run_is_left_out_and_names_the_first(tmp_path: Path) -> None:
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    results = write_runs(data, tmp_path)
    shutil.copytree(results / "paper", results / "moved")
    found = collect(results)
    kept = [run.replace("paper/", "moved/") for run in data.runs["run"]]
    assert sorted(found.runs["run"]) == sorted(kept)
    first = str(data.runs["run"][0])
    assert first.replace("paper/", "moved/") in found.left_out[first]


def test_a_run_that_holds_a_generation_twice_is_left_out_whole() -> None:
    rows = [("a", 0), ("a", 0), ("b", 0), ("c", 0), ("c", 1)]
    found = copies(_runs("a1", "b1", "c2"), _requests(rows))
    assert list(found) == ["a"]
    assert "p, turn 0, repeat 0" in found["a"]


def test_the_same_run_in_two_experiments_is_no_copy() -> None:
    runs = _runs("a1", "b1", "c1").assign(experiment=["fig6", "fig7", "fig7"])
    assert list(copies(runs, _requests([("a", 0), ("b", 0), ("c", 0)]))) == ["c"]


def _runs(*names: str) -> pd.DataFrame:
    rows = [{"run": name[0], "run_hash": name[1], "experiment": "paper"} for name in names]
    return pd.DataFrame(rows)


def _requests(rows: list[tuple[str, int]]) -> pd.DataFrame:
    full = [{"run": run, "prompt_id": "p", "turn": turn, "repeat": 0} for run, turn in rows]
    return pd.DataFrame(full)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame that its rows as JSON would give."""
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return pd.DataFrame(json.loads(json.dumps(rows)))


def _rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(k): _value(v) for k, v in row.items()} for row in frame.to_dict("records")]


def _value(value: object) -> object:
    if isinstance(value, np.ndarray | list | tuple):
        return [_value(one) for one in value]
    if value is None or value != value:
        return None
    return value.item() if isinstance(value, np.generic) else value


def _bytes(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}

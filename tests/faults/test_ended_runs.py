"""A run that has ended, and one of its files damaged since: it neither counts nor stays so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.collect import collect, collect_facts
from harness.engines.base import Method, Request
from harness.facts import Facts
from tests.faults.damage import WAYS, cut_in_half, garble
from tests.faults.state import generations, keys
from tests.support.again import Command, TreesEngine
from tests.support.bench import Bench

PROMPTS = [f"gsm8k-{i}" for i in range(4)]
TABLES = ("steps.parquet", "telemetry.parquet", "trees.parquet")
OTHERS = ("config.yaml", "provenance.json", "cost_table.json", "warmup.jsonl")


@pytest.fixture
def ended(command: Command) -> Path:
    (path,) = command.run().runs
    return path


def left_out(command: Command) -> dict[str, str]:
    return collect(command.bench.results).left_out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_table_is_named_and_measured_again(
    command: Command, ended: Path, table: str, way: str
) -> None:
    """Careless: the run counts as finished for ever, or its report ends in a trace."""
    WAYS[way](ended / table)
    assert list(left_out(command)) == [f"adhoc/{ended.name}"]
    assert f"{table} " in left_out(command)[f"adhoc/{ended.name}"]
    outcome = command.run()
    assert outcome.skipped == []
    assert command.measured == PROMPTS
    _whole(command, ended)


@pytest.mark.parametrize("way", WAYS)
def test_damaged_rows_are_named_and_only_they_are_measured_again(
    command: Command, ended: Path, way: str
) -> None:
    """Careless: means over the rows that can still be read."""
    before = generations(ended)
    WAYS[way](ended / "requests.jsonl")
    assert "requests.jsonl " in left_out(command)[f"adhoc/{ended.name}"]
    kept = {key: one.row for key, one in generations(ended).items() if one == before[key]}
    command.run()
    assert command.measured == [name for name in PROMPTS if (name, 0, 0) not in kept]
    assert (0 < len(kept) < 4) == (way in ("cut", "garbled", "zeroed"))
    found = generations(ended)
    assert {key: found[key].row for key in kept} == kept
    _whole(command, ended)


@pytest.mark.parametrize("way", ["cut", "garbled", "deleted"])
@pytest.mark.parametrize("name", OTHERS)
def test_a_damaged_small_file_is_named_and_no_row_is_lost(
    command: Command, ended: Path, name: str, way: str
) -> None:
    before = generations(ended)
    WAYS[way](ended / name)
    assert f"{name} " in left_out(command)[f"adhoc/{ended.name}"]
    command.run()
    assert command.measured == []
    assert generations(ended) == before
    _whole(command, ended)


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_summary_is_written_again_without_measuring(
    command: Command, ended: Path, way: str
) -> None:
    before = generations(ended)
    WAYS[way](ended / "result.json")
    assert "the same command resumes" in left_out(command)[f"adhoc/{ended.name}"]
    command.run()
    assert command.measured == []
    assert generations(ended) == before
    _whole(command, ended)


@pytest.mark.parametrize("text", ["[]", "3", '{"status": "ok"}', '{"status": 5}', "null"])
def test_a_summary_that_is_json_and_no_summary_is_none(
    command: Command, ended: Path, text: str
) -> None:
    """Careless: what stands under status is believed."""
    (ended / "result.json").write_text(text)
    assert left_out(command)
    command.run()
    _whole(command, ended)


def test_rows_of_a_process_that_is_not_known_are_of_no_known_machine(bench: Bench) -> None:
    """Careless: the machine of the process that took the run up stands for all rows."""
    command = Command.of(bench, "method=vanilla")
    (path,) = command.run().runs
    damaged = (path / "provenance.json").read_bytes()[:100]
    (path / "provenance.json").write_bytes(damaged)
    (result,) = command.run().results.values()
    assert (result.status, result.machine_hash) == ("ok", None)
    assert (path / "provenance.json.damaged").read_bytes() == damaged
    assert "mixed_session" in collect(bench.results).runs["verdict_codes"][0]


def test_taking_up_a_run_that_is_all_there_is_no_second_session(
    command: Command, ended: Path
) -> None:
    """Careless: any process that opens the run counts as one that measured."""
    (ended / "result.json").unlink()
    (result,) = command.run(TreesEngine(device="elsewhere")).results.values()
    assert command.measured == []
    assert result.machine_hash is not None


@pytest.mark.parametrize("way", ["cut", "garbled"])
@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_table_of_a_partial_run_is_measured_again(
    command: Command, table: str, way: str
) -> None:
    (path,) = command.run(TreesEngine(fail=_refuse)).runs
    WAYS[way](path / table)
    assert f"{table} " in left_out(command)[f"adhoc/{path.name}"]
    command.run()
    assert command.measured == PROMPTS
    _whole(command, path)


def test_a_partial_run_keeps_what_succeeded(command: Command) -> None:
    (path,) = command.run(TreesEngine(fail=_refuse)).runs
    before = generations(path)
    assert len(before) == 3
    command.run()
    assert command.measured == ["gsm8k-2"]
    found = generations(path)
    assert {key: found[key] for key in before} == before
    _whole(command, path)


def test_facts_of_a_damaged_run_are_empty_and_no_error(command: Command, ended: Path) -> None:
    garble(ended / "config.yaml")
    cut_in_half(ended / "provenance.json")
    name = f"adhoc/{ended.name}"
    assert collect_facts(command.bench.results, [name]) == {name: Facts()}


def _refuse(request: Request, method: Method) -> None:
    if request.prompt_id == "gsm8k-2":
        raise RuntimeError("boom")


def _whole(command: Command, path: Path) -> None:
    """The run is finished, counted, and every generation stands in it once."""
    assert command.run().skipped == [path]
    data = collect(command.bench.results)
    assert list(data.runs["run"]) == [f"adhoc/{path.name}"]
    assert data.left_out == {}
    assert json.loads((path / "result.json").read_text())["requests_ok"] == 4
    assert set(keys(path).values()) == {1}
    found = generations(path)
    assert sorted(found) == [(name, 0, 0) for name in PROMPTS]
    for one in found.values():
        assert sum(step["committed"] for step in one.rows("steps")) == one.values["decode_tokens"]
        assert len(one.rows("trees")) == len(one.rows("steps")) == 4
    assert {file.name for file in path.iterdir()} - {"provenance.json.damaged"} == {
        "config.yaml",
        "provenance.json",
        "cost_table.json",
        "requests.jsonl",
        "warmup.jsonl",
        "result.json",
        *TABLES,
    }

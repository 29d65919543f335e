"""Places where no result can be written: said in words, and nothing is harmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from evict.errors import InputError
from harness.atomic import replace_bytes
from harness.collect import collect
from harness.store import KNOWN, RunDirectory, check_writable
from tests.faults.disk import largest_file, mounted, remounted
from tests.faults.state import generations
from tests.support.again import Command
from tests.support.bench import Bench


@pytest.fixture
def path(command: Command) -> Path:
    """A run that was cut after two generations."""
    return command.stopped(after=2)


@pytest.mark.parametrize("place", ["results", "results/adhoc"])
def test_a_file_where_a_folder_belongs(bench: Bench, place: str) -> None:
    (bench.folder / place).parent.mkdir(exist_ok=True)
    (bench.folder / place).write_text("mine")
    with pytest.raises(InputError, match=rf"cannot be written.*{place}.*results_dir="):
        Command.of(bench, "method=vanilla").run()
    assert (bench.folder / place).read_text() == "mine"


def test_a_file_where_the_runs_folder_belongs(command: Command) -> None:
    path = command.stopped(after=0)
    for file in path.iterdir():
        file.unlink()
    path.rmdir()
    path.write_text("mine")
    with pytest.raises(InputError, match=rf"cannot be written.*{path.name}"):
        command.run()
    assert path.read_text() == "mine"


def test_a_results_folder_that_cannot_be_written(bench: Bench) -> None:
    """Root may write anywhere but on a file system that is mounted read-only."""
    command = Command.of(bench, "method=vanilla")
    with mounted(bench.results, "size=4m") as possible:
        if not possible:
            pytest.skip("no file system can be mounted here")
        path = command.stopped(after=2)
        before = generations(path)
        remounted(bench.results, "ro")
        with pytest.raises(InputError, match=r"cannot be written.*Read-only.*results_dir="):
            command.run()
        assert generations(path) == before
        assert collect(bench.results).left_out
        remounted(bench.results, "rw")
        command.run()
        assert command.measured == ["gsm8k-2", "gsm8k-3"]


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "cost_table.json"])
def test_a_folder_where_a_run_keeps_a_file(command: Command, path: Path, name: str) -> None:
    """Careless: it is found out when the measurement is over."""
    before = generations(path)
    (path / name).unlink(missing_ok=True)
    (path / name).mkdir()
    (path / name / "mine").write_text("mine")
    with pytest.raises(InputError, match=rf"a folder stands.*{name}.*move it away"):
        command.run()
    assert command.measured == []
    assert (path / name / "mine").read_text() == "mine"
    assert collect(command.bench.results).runs.empty
    (path / name / "mine").unlink()
    (path / name).rmdir()
    command.run()
    assert set(generations(path)) >= set(before)


def test_a_folder_that_holds_another_run(bench: Bench) -> None:
    """Careless: rows of other settings are taken for this run's."""
    other = Command.of(bench, "method=vanilla", "max_new_tokens=64").stopped(after=2)
    before = generations(other)
    (wanted,) = Command.of(bench, "method=vanilla").run().runs
    for file in wanted.iterdir():
        file.unlink()
    wanted.rmdir()
    other.rename(wanted)
    with pytest.raises(InputError, match=r"holds another run.*move it away"):
        Command.of(bench, "method=vanilla").run()
    assert generations(wanted) == before


def test_what_a_killed_process_had_begun_to_write_is_cleared_away(
    command: Command, path: Path
) -> None:
    for name in (".steps.parquet.123", ".result.json.9", ".cost_table.json.77"):
        (path / name).write_bytes(b"half")
    (path / ".notes").write_text("mine")
    command.run()
    assert [file.name for file in path.glob(".*")] == [".notes"]


def test_a_run_that_could_not_be_opened_is_not_locked(command: Command, path: Path) -> None:
    """Careless: the failed attempt holds the run's lock as long as the process lives."""
    (path / "result.json").mkdir()
    for _ in range(2):
        with pytest.raises(InputError, match="a folder stands"):
            command.run()
    (path / "result.json").rmdir()
    command.run()


def test_a_run_whose_other_files_could_not_be_written_is_not_locked(tmp_path: Path) -> None:
    def full(path: Path) -> None:
        with largest_file(100):
            replace_bytes(path / "cost_table.json", bytes(1000))

    with pytest.raises(OSError, match="too large"):
        RunDirectory.open(tmp_path / "run", {}, {"part": "a"}, prepare=full)
    seen: list[Path] = []
    RunDirectory.open(tmp_path / "run", {}, {"part": "b"}, prepare=seen.append).close()
    assert seen == [tmp_path / "run"]


def test_whether_results_can_be_written_is_known_without_leaving_anything(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"cannot be written.*file"):
        check_writable(tmp_path / "file" / "below")
    with mounted(tmp_path / "disk", "ro,size=1m") as possible:
        if not possible:
            pytest.skip("no file system can be mounted here")
        with pytest.raises(InputError, match="Read-only"):
            check_writable(tmp_path / "disk" / "below")

"""Case 27: a machine without a network is told what it lacks, and runs what it has."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from evict.errors import InputError
from harness.config import ROOT, BenchmarkConfig, HubConfig
from harness.prepare import fetch, main, sets
from tests.support.bench import rows, write_jsonl
from tests.support.command import run_py

REVISION = "e53f048856ff4f594e959d75785d2c2d37b678ee"
WATCHER = """
import atexit, os, sys

def note(name, text):
    with open(os.path.join(os.environ["SEEN"], name), "a") as file:
        file.write(text + "\\n")

def watch(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        note("processes", f"{event} {arguments}")
    host = event in ("socket.getaddrinfo", "socket.gethostbyname")
    if host or event == "socket.connect" and not isinstance(arguments[1], (str, bytes)):
        note("sockets", f"{event} {arguments}")
        raise OSError("no network here")

sys.addaudithook(watch)
atexit.register(lambda: note("modules", "\\n".join(sys.modules)))
"""


@dataclass(frozen=True)
class Offline:
    """A folder for runs of `run.py` whose processes may not open a connection."""

    folder: Path

    def run(self, *overrides: str) -> subprocess.CompletedProcess[str]:
        site, seen = self.folder / "site", self.folder / "seen"
        for place in (site, seen):
            place.mkdir()
        (site / "sitecustomize.py").write_text(WATCHER)
        settings = {
            "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]),
            "SEEN": str(seen),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.folder / "cache"),
        }
        given = ("benchmark=gsm8k", "machine=shared", f"results_dir={self.folder / 'results'}")
        return run_py(*given, *overrides, cwd=self.folder, **settings)

    def seen(self, name: str) -> list[str]:
        file = self.folder / "seen" / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def offline(tmp_path: Path) -> Offline:
    return Offline(tmp_path)


def test_case_27_a_hub_set_fails_before_an_engine_is_loaded(offline: Offline) -> None:
    """Careless: the set is looked for once the engine is up, or in words of the library."""
    ended = offline.run("benchmark.source=hub", "method=vanilla")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    for part in (
        "benchmark gsm8k: openai/gsm8k",
        f"at revision {REVISION}",
        str(offline.folder / "cache"),
        "python -m harness.prepare gsm8k",
    ):
        assert part in line
    assert offline.seen("sockets") == []
    assert [one for one in offline.seen("processes") if "harness" in one or "sglang" in one] == []
    loaded = offline.seen("modules")
    assert "harness.plan" in loaded
    assert not {f"harness.engines.{name}.engine" for name in ("torch", "sglang")} & {*loaded}
    assert not (offline.folder / "results").exists()


def test_case_27_bundled_and_local_sets_run(offline: Offline) -> None:
    """Careless: a run that needs no hub asks for one."""
    local = write_jsonl(offline.folder / "mine.jsonl", [{"turns": ["What is 3 plus 4?"]}])
    ended = offline.run(
        f"benchmark.path={local}",
        "benchmark.source=lab,file",
        "method=vanilla",
        "limit=1",
        "max_new_tokens=4",
        "warmup_prompts=0",
        "--multirun",
    )
    assert ended.returncode == 0, ended.stderr
    runs = list((offline.folder / "results").glob("adhoc/*"))
    sources = {json.loads((run / "result.json").read_text())["source"] for run in runs}
    assert sources == {"lab", "file"}
    assert [len(rows(run)) for run in runs] == [1, 1]
    assert offline.seen("sockets") == []


def hub_set(folder: Path) -> BenchmarkConfig:
    """A set that lies in a local folder, read as the hub's are."""
    write_jsonl(folder / "test.jsonl", [{"q": "one?", "a": "1"}, {"q": "two?", "a": "2"}])
    hub = HubConfig(str(folder), None, "test", "r1", "{q}", None, "a")
    return BenchmarkConfig(name="mine", label="Mine", hub=hub)


def test_case_27_the_prepare_command_says_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    said = fetch(hub_set(tmp_path))
    assert said == f"mine: 2 prompts, 2 turns, {tmp_path} at r1"


def test_case_27_the_prepare_command_knows_the_public_sets(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [one.name for one in sets(["mt_bench", "qa"])] == ["mt_bench", "qa"]
    assert len(sets([])) == 6
    with pytest.raises(InputError, match=r"seen: all; allowed: alpaca, cnn_dm"):
        sets(["all"])
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err.startswith("error: no public question set; seen: nothing")

"""Runs the real experiment on a fake engine, with prompts and results in a temporary folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from hydra import compose, initialize_config_dir

from harness.compose import arms, run_config
from harness.config import CONF, MethodConfig, RunConfig, register
from harness.experiment import Outcome, run
from tests.support.fake_engine import FakeEngine, FakeProfiler


def composed(*overrides: str) -> tuple[RunConfig, list[MethodConfig]]:
    """What `python run.py <overrides>` would run."""
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = run_config(compose("config", overrides=list(overrides)))
        return config, arms(config)


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@dataclass
class Bench:
    """A folder with four questions (`questions` replaces them) and a calibration file."""

    folder: Path
    questions: list[list[str]] = field(
        default_factory=lambda: [[f"what is {i}?"] for i in range(4)]
    )
    engine: FakeEngine = field(default_factory=FakeEngine)
    profiler: FakeProfiler = field(default_factory=FakeProfiler)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def overrides(self) -> list[str]:
        rows: list[dict[str, object]] = [{"turns": turns} for turns in self.questions]
        questions = write_jsonl(self.folder / "questions.jsonl", rows)
        warm = write_jsonl(self.folder / "calibration.jsonl", [{"turns": ["warm up"]}] * 1)
        return [
            "benchmark=gsm8k",
            f"benchmark.path={questions}",
            f"calibration={warm}",
            f"results_dir={self.results}",
            "limit=null",
            "machine=shared",
        ]

    def run(self, *overrides: str) -> Outcome:
        config, methods = composed(*self.overrides(), *overrides)
        return run(config, methods, lambda: self.engine, self.profiler)

    @property
    def measured(self) -> list[tuple[str, str]]:
        """(prompt, method) of the generations that were no warm-up."""
        return [call for call in self.engine.calls if not call[0].startswith("calibration")]


def rows(path: Path, name: str = "requests.jsonl") -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / name).read_text().splitlines()]


def only(bench: Bench, *overrides: str) -> Path:
    """The directory of a command line's single run."""
    (path,) = bench.run(*overrides).runs
    return path

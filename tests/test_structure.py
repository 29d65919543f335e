"""Rules of the house that no linter knows."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_no_file_above_400_lines() -> None:
    long = [f for f in tracked("*.py") if f.exists() and len(f.read_text().splitlines()) > 400]
    assert not long


def test_datasets_stays_a_plain_folder() -> None:
    assert not (ROOT / "datasets" / "__init__.py").exists()


def test_no_path_edits_and_no_pickle_loading() -> None:
    for file in tracked("evict/*.py") + tracked("harness/*.py"):
        text = file.read_text()
        assert "sys.path" not in text, file
        assert "torch.load(" not in text or "weights_only=True" in text, file


def test_every_yaml_names_itself() -> None:
    """`method=evict` and the name in conf/method/evict.yaml must agree."""
    for group in ("method", "model", "benchmark", "engine"):
        for file in (ROOT / "conf" / group).glob("*.yaml"):
            assert f"name: {file.stem}" in file.read_text(), file

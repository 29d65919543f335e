from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.hardware.git import git_facts

FILE = "harness/own.py"


def git(folder: Path, *words: str) -> str:
    named = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return subprocess.run(
        ["git", *named, *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        env=environ,
    ).stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository that tracks the program and a README."""
    root = tmp_path / "source"
    (root / "harness").mkdir(parents=True)
    (root / FILE).write_text("x = 1\n")
    (root / "README.md").write_text("words\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def facts(root: Path) -> dict[str, Any]:
    return git_facts(root, FILE, ("harness",))


def test_a_clean_checkout_has_a_commit_and_no_difference(source: Path) -> None:
    commit = git(source, "rev-parse", "HEAD")
    clean = {"commit": commit, "dirty": False, "diff_hash": None, "reason": None}
    assert facts(source) == clean


def test_the_hash_is_of_the_content_staged_or_not(source: Path) -> None:
    (source / FILE).write_text("x = 2\n")
    changed = facts(source)
    assert changed["dirty"]
    git(source, "add", ".")
    assert facts(source) == changed
    (source / FILE).write_text("x = 3\n")
    assert facts(source)["diff_hash"] not in (None, changed["diff_hash"])
    (source / FILE).write_text("x = 2\n")
    assert facts(source) == changed


def test_a_deleted_and_an_untracked_file_of_the_program_count(source: Path) -> None:
    (source / "harness/new.py").write_text("y = 1\n")
    added = facts(source)
    assert added["dirty"]
    (source / "harness/new.py").write_text("y = 2\n")
    assert facts(source)["diff_hash"] not in (None, added["diff_hash"])
    (source / "harness/new.py").unlink()
    (source / FILE).unlink()
    assert facts(source)["diff_hash"] not in (None, added["diff_hash"])


def test_words_beside_the_program_make_it_dirty_without_another_hash(source: Path) -> None:
    (source / "notes.txt").write_text("mine")
    assert not facts(source)["dirty"]
    (source / "README.md").write_text("other words\n")
    assert (facts(source)["dirty"], facts(source)["diff_hash"]) == (True, None)


def test_an_outer_repository_that_does_not_track_the_program_is_not_reported(source: Path) -> None:
    (source / ".gitignore").write_text("site-packages\n")
    inner = source / "site-packages"
    (inner / "harness").mkdir(parents=True)
    (inner / FILE).write_text("x = 1\n")
    told = facts(inner)
    assert (told["commit"], told["dirty"], told["diff_hash"]) == (None, None, None)
    assert "does not track" in told["reason"]


def test_a_repository_that_the_environment_names_is_not_reported(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain/harness").mkdir(parents=True)
    (tmp_path / "plain" / FILE).write_text("x = 1\n")
    monkeypatch.setenv("GIT_DIR", str(source / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(source))
    told = facts(tmp_path / "plain")
    assert told["commit"] is None
    assert "not a git repository" in told["reason"]


def test_without_git_the_reason_says_so(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(source))
    assert facts(source)["reason"] == "git is not installed"


def test_a_repository_without_a_commit_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "harness").mkdir()
    (tmp_path / FILE).write_text("x = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    told = facts(tmp_path)
    assert told["commit"] is None
    assert told["reason"]
    assert str(tmp_path) not in told["reason"]

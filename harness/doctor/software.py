"""Packages and the state of the source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.config import ROOT
from harness.doctor.check import BAD, OK, WARN, Check, Here
from harness.hardware.git import git_facts
from harness.hardware.software import packages as required
from harness.provenance import OWN_FILE

PYPROJECT = ROOT / "pyproject.toml"


def packages(here: Here) -> list[Check]:
    """What pyproject.toml asks for against what is installed."""
    return package_lines(PYPROJECT)


def package_lines(pyproject: Path) -> list[Check]:
    """A line per package that is missing or outside its range, else one line in all."""
    found = required(pyproject)
    lines = [
        Check("packages", BAD, f"{one.requirement} is not installed", _install(one.requirement))
        if one.installed is None
        else Check(
            "packages",
            WARN,
            f"{one.requirement} is asked for, {one.installed} installed",
            _install(one.requirement),
        )
        for one in found
        if not one.fits
    ]
    there = sum(one.installed is not None for one in found)
    return lines or [Check("packages", OK, f"all {there} installed ones lie in their ranges")]


def _install(requirement: str) -> str:
    return f"pip install '{requirement}'"


def source(here: Here) -> list[Check]:
    """Whether a number can be traced to a commit."""
    return [source_line(git_facts(ROOT, OWN_FILE))]


def source_line(facts: Mapping[str, Any]) -> Check:
    """facts: as `git_facts` gives them."""
    if facts["commit"] is None:
        return Check("source", WARN, f"no commit is known: {facts['reason']}")
    commit = f"commit {facts['commit'][:12]}"
    if not facts["dirty"]:
        return Check("source", OK, commit)
    what = "changes to the program" if facts["diff_hash"] else "changes outside the program"
    return Check("source", WARN, f"{commit} with {what}: nobody else has them", "git commit")

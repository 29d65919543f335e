"""The tests of a case: functions named after it, wherever in the suite they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.mutations.mutation import ROOT

NOT_BY_DEFAULT = ("sglang", "gpu", "network", "slow", "skip")


def files(root: Path = ROOT) -> list[Path]:
    """Test files that run by default."""
    found = sorted((root / "tests").rglob("test_*.py"))
    return [file for file in found if "sglang" not in file.relative_to(root / "tests").parts[:1]]


def named(prefix: str, root: Path = ROOT) -> dict[str, list[str]]:
    """Tests whose name begins so, by file below tests/; those of markers left out by default."""
    found: dict[str, list[str]] = {}
    for file in files(root):
        for name in _tests(file):
            if name.startswith(prefix):
                found.setdefault(str(file.relative_to(root / "tests")), []).append(name)
    return found


def _tests(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = " ".join(ast.unparse(one) for one in node.decorator_list)
            if not any(f"mark.{name}" in marks for name in NOT_BY_DEFAULT):
                yield node.name

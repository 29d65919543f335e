from __future__ import annotations

from pathlib import Path

from harness.config import ROOT
from harness.hardware.software import package_versions, packages, thread_settings

PYPROJECT = """
[project]
name = "mine"
dependencies = [
    "numpy>=1",
    "pandas>=999",
    "no-such-package-at-all>=1",
    "only-there>=1; sys_platform == 'none'",
]
[project.optional-dependencies]
more = ["another-absent-package", "rich>=999", "evict-bench[more]"]
"""


def test_each_requirement_that_holds_here_is_judged(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    found = {one.requirement: one for one in packages(tmp_path / "pyproject.toml")}
    assert {text: one.fits for text, one in found.items()} == {
        "numpy>=1": True,
        "pandas>=999": False,
        "no-such-package-at-all>=1": False,
        "another-absent-package": True,  # nobody has to install an extra
        "rich>=999": False,
    }
    assert found["pandas>=999"].installed == package_versions()["pandas"]
    assert found["rich>=999"].extra == "more"


def test_without_a_pyproject_the_installed_package_says_what_it_needs(tmp_path: Path) -> None:
    found = packages(tmp_path / "pyproject.toml")
    assert {"torch", "numpy"} <= {one.requirement.split(">")[0].split("<")[0] for one in found}
    assert all(not one.extra for one in found)


def test_every_package_of_the_project_is_known_to_be_there() -> None:
    assert all(one.fits for one in packages(ROOT / "pyproject.toml") if not one.extra)


def test_settings_of_threads_are_told_set_or_not() -> None:
    told = thread_settings({"OMP_NUM_THREADS": "3", "HOME": "/root"})
    assert told["OMP_NUM_THREADS"] == "3"
    assert told["MKL_NUM_THREADS"] is None
    assert "HOME" not in told

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.hardware.disk import existing, free_bytes, why_not_writable


def test_a_folder_that_is_not_there_yet_is_asked_about_above_and_not_made(tmp_path: Path) -> None:
    wanted = tmp_path / "results" / "runs"
    assert existing(wanted) == tmp_path
    assert why_not_writable(wanted) is None
    assert free_bytes(wanted) == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_be_written_says_why() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("no folder that even root cannot write to")
    assert why_not_writable(Path("/proc/self"))


def test_a_file_in_place_of_the_folder_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    assert why_not_writable(tmp_path / "results")

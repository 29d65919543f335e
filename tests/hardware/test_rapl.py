from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.hardware.cpu import RaplCounter, open_rapl

RANGE_UJ = 1000


def zone(powercap: Path, folder: str, name: str, energy_uj: int) -> Path:
    place = powercap / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / "name").write_text(name + "\n")
    (place / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (place / "energy_uj").write_text(f"{energy_uj}\n")
    return place / "energy_uj"


@pytest.fixture
def powercap() -> Iterator[Path]:
    """Readable by everybody, as the real folder is."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def opened(powercap: Path) -> RaplCounter:
    counter = open_rapl(powercap)
    assert isinstance(counter, RaplCounter)
    return counter


@given(start=st.integers(0, RANGE_UJ - 1), used=st.lists(st.integers(0, RANGE_UJ - 1)))
def test_a_counter_that_wraps_still_adds_up(start: int, used: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = zone(Path(folder), "intel-rapl:0", "package-0", start)
        counter, sum_uj = opened(Path(folder)), 0
        for uj in used:
            sum_uj += uj
            file.write_text(str((start + sum_uj) % RANGE_UJ))
            assert counter.read_j() == pytest.approx(sum_uj / 1e6)


def test_packages_add_up_and_their_parts_are_not_counted_again(powercap: Path) -> None:
    files = [zone(powercap, f"intel-rapl:{i}", f"package-{i}", 0) for i in (0, 1)]
    files.append(zone(powercap, "intel-rapl:0:0", "core", 0))
    files.append(zone(powercap, "intel-rapl:2", "psys", 0))
    counter = opened(powercap)
    for file in files:
        file.write_text("100")
    assert counter.read_j() == pytest.approx(200e-6)


def test_a_machine_without_counters_says_so(powercap: Path) -> None:
    assert "no RAPL counter" in str(open_rapl(powercap / "absent"))


def test_counters_that_only_root_may_read_come_with_the_command(powercap: Path) -> None:
    zone(powercap, "intel-rapl:0", "package-0", 5).chmod(0o400)
    if os.geteuid():
        (powercap / "intel-rapl:0/energy_uj").chmod(0)
        reason = open_rapl(powercap)
    else:
        os.seteuid(65534)
        try:
            reason = open_rapl(powercap)
        finally:
            os.seteuid(0)
    assert "may not be read" in str(reason)
    assert "chmod a+r" in str(reason)


def test_a_counter_that_is_no_number_is_no_counter(powercap: Path) -> None:
    zone(powercap, "intel-rapl:0", "package-0", 5).write_text("")
    assert "cannot be read" in str(open_rapl(powercap))

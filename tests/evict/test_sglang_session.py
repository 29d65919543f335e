"""Orders and step records pass whole between two processes, whenever either looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evict.errors import InputError
from evict.sglang.session import ORDERS, STATE, STEPS, Orders, Session

RECORDS: list[dict[str, Any]] = [
    {"step": 1, "k": 3, "rids": ["a", "b"]},
    {"step": 2, "k": 1, "gap_ms": None},
]


def both(folder: Path) -> tuple[Session, Session]:
    """The harness's end and the worker's end."""
    return Session(folder), Session(folder)


def test_orders_arrive_as_given(tmp_path: Path) -> None:
    harness, worker = both(tmp_path)
    assert worker.orders() is None
    for orders in (
        Orders(1, {"name": "coverage", "rho": 0.7}),
        Orders(2, {"name": "evict"}, costs={"1": {"step_ms": [1.0]}}, record_trees=True),
        Orders(3, {"name": "full"}, record_steps=False),
    ):
        harness.give(orders)
        assert worker.orders() == worker.orders() == orders


def test_state_arrives_as_reported(tmp_path: Path) -> None:
    harness, worker = both(tmp_path)
    assert harness.state() is None
    for epoch in (0, 1):
        worker.report({"epoch": epoch, "error": None, "tiers": [1, 32]})
        assert harness.state() == {"epoch": epoch, "error": None, "tiers": [1, 32]}


def test_records_are_taken_once_and_in_order(tmp_path: Path) -> None:
    harness, worker = both(tmp_path)
    assert harness.take() == []
    worker.append([])
    assert harness.take() == []
    worker.append(iter(RECORDS))
    assert harness.take() == RECORDS
    assert harness.take() == []
    worker.append(RECORDS[1:])
    assert harness.take() == RECORDS[1:]


def test_a_line_half_written_is_taken_when_it_is_whole(tmp_path: Path) -> None:
    harness, worker = both(tmp_path)
    worker.append(RECORDS)
    line = json.dumps({"step": 3, "rids": ["é"]}, ensure_ascii=False).encode() + b"\n"
    for cut in range(1, len(line)):
        with (tmp_path / STEPS).open("ab") as file:
            file.write(line[:cut])
        assert harness.take() == (RECORDS if cut == 1 else [])
        with (tmp_path / STEPS).open("ab") as file:
            file.write(line[cut:])
        assert harness.take() == [{"step": 3, "rids": ["é"]}]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A reader that opened the old file keeps it, and no other file is left behind."""
    harness, worker = both(tmp_path)
    harness.give(Orders(1, {"name": "full"}))
    worker.report({"epoch": 0})
    with (tmp_path / ORDERS).open() as old:
        harness.give(Orders(2, {"name": "evict"}))
        assert json.load(old)["epoch"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([ORDERS, STATE])


@pytest.mark.parametrize("content", ["{", "", "[1]"])
def test_a_spoilt_file_is_an_input_error(tmp_path: Path, content: str) -> None:
    harness, worker = both(tmp_path)
    (tmp_path / ORDERS).write_text(content)
    (tmp_path / STATE).write_text(content)
    with pytest.raises(InputError, match=ORDERS):
        worker.orders()
    with pytest.raises(InputError, match=STATE):
        harness.state()

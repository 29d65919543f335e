"""Step costs of batches: several requests at once, timed by the worker and in the streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evict.errors import InputError
from evict.growth import FixedDepth
from evict.selection import FixedPrefix
from harness.engines.base import Method, Request
from tests.sglang.engines import lab_engine

SIZE = 3


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = lab_engine(tmp_path_factory.mktemp("servers"), batch=SIZE, max_running_requests=SIZE)
    yield found
    found.close()


@pytest.fixture(scope="module")
def prompt(engine: Any) -> list[int]:
    found: list[int] = engine.encode_chat([{"role": "user", "content": "What is 12 plus 7?"}])
    return found


def test_steps_of_a_batch_are_those_in_which_all_requests_ran(
    engine: Any, prompt: list[int]
) -> None:
    method = Method("k", "eagle3", FixedDepth(4, 8), FixedPrefix(4), 32)
    records = engine.forced_step_times(method, [prompt], 6)
    assert len(records) >= 6
    assert {record.verified for record in records} == {4}
    assert all(record.total_ms > 0 for record in records)
    lines = Path(engine.fleet.all()[0].session.folder / "steps.jsonl").read_text().splitlines()
    assert sum(f'"batch": {SIZE}' in line for line in lines) >= len(records)


def test_plain_steps_of_a_batch_come_from_the_middle_of_the_streams(
    engine: Any, prompt: list[int]
) -> None:
    records = engine.forced_step_times(Method("vanilla"), [prompt], 8)
    assert len(records) >= 4
    assert all(record.total_ms > 0 for record in records)


def test_a_batch_has_tables_of_its_own_and_no_measured_request(
    engine: Any, prompt: list[int]
) -> None:
    assert engine.describe().fingerprint()["setting.batch"] == str(SIZE)
    with pytest.raises(InputError, match=r"engine\.batch=3.*profile=only"):
        engine.generate(Request("q", tuple(prompt), 8), Method("vanilla"), 0)

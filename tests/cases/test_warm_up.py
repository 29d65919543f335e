"""Case 22: warming up with other prompts, before anything is measured, and kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evict.errors import InputError
from harness.collect import collect
from harness.store import read_result, read_warmup
from tests.cases.served import ServedEngine
from tests.support.bench import Bench, rows, write_jsonl
from tests.support.fake_replies import plain
from tests.support.fake_server import FakeServer

WARM = ["warm up", "warm up again", "not reached"]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer(default=plain(4)) as fake:
        yield fake


@pytest.fixture
def warmed(bench: Bench, server: FakeServer) -> tuple[Bench, list[Path]]:
    """Five prompts measured by two methods on one server, after two warm-ups of each."""
    bench.questions = [[f"what is {i}?"] for i in range(5)]
    bench.engine = ServedEngine(server=server)
    calibration = write_jsonl(bench.folder / "warm.jsonl", [{"turns": [text]} for text in WARM])
    given = (f"calibration={calibration}", "warmup_prompts=2", "warmup_tokens=4")
    plain_twice = ("method=vanilla", "compare=[vanilla_aa]", "max_new_tokens=4")
    return bench, bench.run(*plain_twice, *given).runs


def texts(server: FakeServer) -> list[str]:
    """The prompts in the order in which the server got them."""
    bodies = server.bodies("/generate")
    return ["".join(map(chr, body["input_ids"])).removeprefix("<user>") for body in bodies]


def test_case_22_the_server_gets_all_warm_ups_first(
    warmed: tuple[Bench, list[Path]], server: FakeServer
) -> None:
    """Careless: a method is warmed up between measured requests, or by a measured prompt."""
    bench, _ = warmed
    asked = texts(server)
    assert asked[:4] == ["warm up", "warm up", "warm up again", "warm up again"]
    assert sorted(asked[4:]) == sorted(2 * [text for (text,) in bench.questions])


def test_case_22_the_last_warm_up_ends_before_the_first_measured_request(
    warmed: tuple[Bench, list[Path]],
) -> None:
    """Careless: times of warm-ups are lost, or reach into the measured section."""
    _, runs = warmed
    every = [rows(run) for run in runs]
    first = min(float(str(row["started_ms"])) for own in every for row in own)
    for run, own in zip(runs, every, strict=True):
        kept = read_warmup(run)
        assert [row["phase"] for row in kept] == ["warmup", "warmup"]
        assert all(row["ended_ms"] < first for row in kept)
        assert not {row["input_hash"] for row in kept} & {row["input_hash"] for row in own}
        result: Any = read_result(run)
        assert [entry["prompts"] for entry in result.warmup] == [
            [row["input_hash"] for row in kept]
        ]
        assert {row["part"] for row in kept} == {row["part"] for row in own}


def test_case_22_warm_ups_are_in_no_statistic(warmed: tuple[Bench, list[Path]]) -> None:
    """Careless: a warm-up is averaged with what was measured."""
    bench, runs = warmed
    data = collect(bench.results)
    assert len(data.requests) == 10
    assert set(data.requests["prompt_id"]) == {f"gsm8k-{i}" for i in range(5)}
    assert [len(pd.read_parquet(run / "steps.parquet")) for run in runs] == [15, 15]


def test_case_22_a_warm_up_prompt_that_is_also_measured_is_refused(bench: Bench) -> None:
    """Careless: question 1 warms up the machine, the cache and its own answer."""
    bench.questions = [["what is 0?"], ["warm up"]]
    with pytest.raises(InputError, match="also measured; seen: calibration-0 = gsm8k-1"):
        bench.run("method=vanilla")
    assert not bench.results.exists()

"""What the GPU check does around its servers: geometry, plans, budget, document, command."""

from __future__ import annotations

import json
import time
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from evict.errors import InputError
from harness.engines.sglang.arguments import Settings, Weights, server_arguments
from harness.engines.sglang.checkpoint import check_checkpoint
from harness.engines.sglang.gpu_check import __main__ as command
from harness.engines.sglang.gpu_check import discovery
from harness.engines.sglang.gpu_check.arms import PLAIN, POLICY, STOCK
from harness.engines.sglang.gpu_check.budget import Budget, OutOfBudget, alarm
from harness.engines.sglang.gpu_check.document import POINTS, Document
from harness.engines.sglang.gpu_check.dummy import QWEN3_30B, TINY, Geometry, write_pair
from harness.engines.sglang.gpu_check.plan import dry_plan, gpu_plan

CHECKED = Weights("target", "draft")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def document(tmp_path: Path, clock: Clock) -> Document:
    return Document(tmp_path / "out" / "check.json", {"dry_run": True}, Budget(100.0, clock))


def stored(tmp_path: Path) -> dict[str, Any]:
    return json.loads((tmp_path / "out" / "check.json").read_text())


@pytest.mark.parametrize("geometry", [QWEN3_30B, TINY])
def test_geometry_is_a_pair_that_fits_together(geometry: Geometry, tmp_path: Path) -> None:
    pair = write_pair(tmp_path, geometry, "bfloat16")
    fused = torch.empty(geometry.hidden, 3 * geometry.hidden, dtype=torch.bfloat16)
    save_file({"fc.weight": fused}, pair.draft / "model.safetensors")
    sizes = check_checkpoint(pair.target, pair.draft)
    assert (sizes.aux, sizes.draft_vocab_size) == (3, geometry.vocabulary)
    config = json.loads((pair.draft / "config.json").read_text())
    assert len(set(config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])) == 3


def test_large_geometry_has_the_published_size() -> None:
    """30.5 billion weights, and a head of one layer with an output row for every token."""
    assert QWEN3_30B.parameters() == pytest.approx(30.5e9 + 0.4e9, rel=0.005)


@pytest.mark.parametrize("kind", [PLAIN, STOCK, POLICY])
def test_every_server_of_both_plans_is_legal(kind: Any) -> None:
    plans = [gpu_plan(140.0, "triton", "bfloat16"), dry_plan()]
    every: list[Settings] = [
        one for p in plans for one in (p.lab, *(r.settings for r in p.regimes))
    ]
    for settings in every:
        arguments = server_arguments(kind, settings, CHECKED)
        assert arguments["skip_tokenizer_init"]
    timed = [r.settings.server_args["load_format"] for p in plans for r in p.regimes]
    assert set(timed) == {"dummy"}
    assert all("load_format" not in p.lab.server_args for p in plans)


def test_two_servers_share_a_gpu_only_where_both_fit() -> None:
    assert gpu_plan(139.8, "triton", "bfloat16").live == 2
    assert gpu_plan(79.6, "triton", "bfloat16").live == 1


def test_widths_end_with_the_whole_tree() -> None:
    for plan in (gpu_plan(140.0, "triton", "bfloat16"), dry_plan()):
        assert plan.sizes.match_widths[-1] == plan.sizes.cost_widths[-1] == POLICY.draft_tokens


def test_budget_refuses_what_does_not_fit(clock: Clock) -> None:
    budget = Budget(10.0, clock)
    clock.now = 7.0
    budget.need(3.0, "a step")
    with pytest.raises(OutOfBudget, match=r"a step takes about 4 s; 3 s of 10 s are left"):
        budget.need(4.0, "a step")
    clock.now = 30.0
    assert budget.left() == 0.0


def test_budget_learns_how_long_a_step_takes(clock: Clock) -> None:
    budget = Budget(100.0, clock)
    with budget.timed("start", guess_s=10.0):
        clock.now += 60.0
    with pytest.raises(OutOfBudget), budget.timed("start", guess_s=10.0):
        pytest.fail("60 s do not fit into 40 s")
    with budget.timed("another", guess_s=10.0):
        clock.now += 1.0


def test_alarm_interrupts_a_wait_and_is_off_afterwards() -> None:
    began = time.monotonic()
    with pytest.raises(OutOfBudget), alarm(Budget(0.1)):
        time.sleep(30.0)
    with alarm(Budget(0.2)):
        pass
    time.sleep(0.3)
    assert time.monotonic() - began < 20.0


def test_document_holds_every_point_from_the_start(tmp_path: Path, document: Document) -> None:
    points = stored(tmp_path)["points"]
    assert set(points) == {point.name for point in POINTS}
    assert {one["reason"] for one in points.values()} == {"not reached"}
    assert {one["weights"] for one in points.values()} == {"lab", "dummy"}


def test_error_becomes_the_reason_and_the_rest_goes_on(
    tmp_path: Path, document: Document, clock: Clock
) -> None:
    def fails() -> None:
        clock.now += 3.0
        raise InputError("no such backend", seen="flashinfer")

    document.attempt("captures", fails)
    document.attempt("step_cost", lambda: {"median_ms": 1.5})
    points = stored(tmp_path)["points"]
    assert points["captures"]["value"] is None
    assert points["captures"]["seconds"] == 3.0
    assert "InputError" in points["captures"]["reason"]
    assert "flashinfer" in points["captures"]["reason"]
    assert (points["step_cost"]["value"], points["step_cost"]["reason"]) == (
        {"median_ms": 1.5},
        None,
    )
    assert not stored(tmp_path)["complete"]


def test_nothing_is_tried_without_time(document: Document, clock: Clock) -> None:
    clock.now = 99.5
    document.attempt("captures", lambda: pytest.fail("half a second is left"))
    assert document.points["captures"]["reason"].startswith("OutOfBudget")


def test_answer_that_is_no_json_is_an_error(tmp_path: Path, document: Document) -> None:
    document.attempt("captures", lambda: {"seconds": float("nan")})
    assert stored(tmp_path)["points"]["captures"]["value"] is None
    document.attempt("step_cost", lambda: {"seconds": 1})
    assert stored(tmp_path)["points"]["step_cost"]["value"] == {"seconds": 1}


def test_document_is_replaced_never_rewritten(tmp_path: Path, document: Document) -> None:
    """Who has opened it reads a whole document, whatever happens meanwhile."""
    with (tmp_path / "out" / "check.json").open() as earlier:
        document.settle("captures", {"gib": 1}, None)
        assert json.load(earlier)["points"]["captures"]["value"] is None
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["check.json"]


def test_giving_up_keeps_what_was_settled(document: Document) -> None:
    document.settle("captures", None, "eager")
    document.settle("step_cost", {"k": 1}, None)
    document.give_up(OutOfBudget("all 700 s are spent"))
    reasons = {name: point["reason"] for name, point in document.points.items()}
    assert (reasons.pop("captures"), reasons.pop("step_cost")) == ("eager", None)
    assert set(reasons.values()) == {"OutOfBudget: all 700 s are spent"}


def test_servers_find_the_plugin_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "plugin_installed", lambda: False)
    given = discovery.search_path(tmp_path)["PYTHONPATH"].split(":")
    found = [
        point.value
        for package in distributions(path=given)
        for point in package.entry_points.select(group=discovery.GROUP, name=discovery.NAME)
    ]
    assert discovery.VALUE in found
    assert (Path(given[1]) / "evict/sglang/plugin.py").is_file()


@pytest.mark.parametrize("budget", ["5", "0"])
def test_budget_too_small_to_stop_servers_is_refused(budget: str, tmp_path: Path) -> None:
    given = ["--out", str(tmp_path / "a.json"), "--dry-run", "--budget", budget]
    with pytest.raises(InputError, match="budget"):
        command.plan_of(command.parser().parse_args(given))


def test_folder_with_earlier_logs_is_refused(tmp_path: Path) -> None:
    given = ["--out", str(tmp_path / "a.json"), "--dry-run", "--logs", str(tmp_path)]
    with pytest.raises(InputError, match="folder for logs exists"):
        command.plan_of(command.parser().parse_args(given))

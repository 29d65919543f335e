"""Cases 1, 12: what one step drafts, verifies, accepts and commits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from evict.acceptance import greedy
from evict.growth import FixedDepth
from evict.selection import Full
from evict.tree import Candidates, DraftTree
from harness.consistency import InconsistentTrace, check_trace
from harness.counting import Shares, tau
from harness.engines.base import Method, Request
from harness.engines.torch.decode import Output
from harness.engines.torch.engine import TorchEngine
from tests.support.bench import Bench, only, rows
from tests.support.steps import ScriptedEngine, counters, steps, trace

EOS, BONUS = 2, 55
MATCHED = [50, 51, EOS, 53, 54]
WEIGHTS = Path(__file__).resolve().parents[2] / "harness/lab/weights"
FULL = Method("full", "eagle3", FixedDepth(steps=4, topk=8), Full(), draft_tokens=32)


def output(max_new_tokens: int) -> Output:
    request = Request("r", (1,), max_new_tokens)
    return Output(request, 100, frozenset({EOS}), lambda ids: "", ids=[49])


def test_case_01_the_end_token_is_the_last_to_be_committed() -> None:
    """Careless: the step counts 5 + 1 = 6, and tokens after the end reach the user."""
    ended = output(100)
    assert ended.commit([*MATCHED, BONUS]) == 3
    assert (ended.ids, ended.finish) == ([49, 50, 51, EOS], "eos")


def test_case_01_max_tokens_cuts_by_the_same_rule() -> None:
    """Careless: a whole step is kept although only three tokens were asked for."""
    ended = output(3)
    assert ended.commit([*MATCHED, BONUS]) == 2
    assert (ended.ids, ended.finish) == ([49, 50, 51], "length")


def test_case_01_the_experiment_counts_what_was_committed(
    bench: Bench, compared: Callable[[], dict[str, Any]]
) -> None:
    """Careless: Mat from accepted + 1, so that a cut step counts 6 tokens."""
    script = steps((5, 6, 5, 3))
    bench.engine = ScriptedEngine(script=lambda request, method: trace(script, "eos"))
    path = only(bench, "method=eagle3")
    assert compared()["eagle3"]["mat"] == 3.0 == tau(counters(script))
    written = pd.read_parquet(path / "steps.parquet")
    assert set(written["accepted"]) == {5}
    assert [len(row["output_ids"]) - 1 for row in rows(path)] == [3] * 4  # type: ignore[arg-type]
    assert written["committed"].sum() == 3 * 4


def test_case_01_a_step_that_counts_uncommitted_tokens_is_refused() -> None:
    """Careless: the sum of committed is never held against the returned ids."""
    lying = trace(steps((5, 6, 5, 3)))
    lying.steps[0].committed = 6
    with pytest.raises(InconsistentTrace, match="commit 6 tokens, decode returned 3"):
        check_trace(lying)


def test_case_01_the_torch_engine_ends_inside_an_accepted_path(tmp_path: Path) -> None:
    """Careless: the end is looked for in the step's last token only."""
    prompt = [{"role": "user", "content": "What is 3 plus 4?"}]
    whole = engine_with(WEIGHTS / "target")
    request = Request("r", tuple(whole.encode_chat(prompt)), 64)
    long = whole.generate(request, FULL, 0)
    at, end = _inner_token(long.output_ids, [step.accepted for step in long.steps])
    ended = engine_with(_also_ending_at(end, tmp_path)).generate(request, FULL, 0)
    assert ended.output_ids == long.output_ids[: at + 1]
    assert ended.finish_reason == "eos"
    assert ended.steps[-1].committed <= ended.steps[-1].accepted
    check_trace(ended)


def engine_with(target: Path) -> TorchEngine:
    model = {"name": "lab", "target": str(target), "draft": str(WEIGHTS / "eagle3")}
    return TorchEngine(model, device="cpu")


def _inner_token(ids: list[int], accepted_S: list[int]) -> tuple[int, int]:
    """(index, token) of an accepted draft that is followed by another and new in the text."""
    start = 1
    for accepted in accepted_S:
        for at in range(start, start + accepted - 1):
            if ids[at] not in ids[:at]:
                return at, ids[at]
        start += accepted + 1
    raise AssertionError("no step accepts two drafts, the first of them new")


def _also_ending_at(token: int, folder: Path) -> Path:
    """The lab target with a second end token."""
    for file in (WEIGHTS / "target").iterdir():
        if file.name != "config.json":
            (folder / file.name).symlink_to(file)
    config = json.loads((WEIGHTS / "target" / "config.json").read_text())
    config["eos_token_id"] = [config["eos_token_id"], token]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_case_12_four_ratios_have_four_names() -> None:
    """Careless: one "acceptance rate", 5 % or 25 %, or a root counted as a draft."""
    shares = Shares.of(steps(*[(60, 13, 3)] * 10))
    assert shares == Shares(drafted=600, verified=120, accepted=30, steps=10, committed=40)
    assert shares.accepted_per_drafted == 0.05
    assert shares.accepted_per_verified == 0.25
    assert shares.kept_share == 0.20
    assert shares.tau == 4.0
    assert Shares(600, 120, 30, 10).tau == 4.0
    plain = Shares.of(steps((0, 1, 0)))
    assert (plain.accepted_per_drafted, plain.accepted_per_verified, plain.tau) == (None, None, 1.0)


@pytest.mark.parametrize("script", [(5, 7, 3), (5, 3, 3), (5, 6, -1)])
def test_case_12_a_step_that_accepts_more_than_it_verifies_is_refused(
    script: tuple[int, int, int],
) -> None:
    """Careless: accepted <= verified <= drafted is taken on trust."""
    with pytest.raises(InconsistentTrace, match=f"accepted {script[2]}, verified {script[1]}"):
        check_trace(trace(steps((5, 6, 2), script)))
    check_trace(trace(steps((5, 6, 5), (5, 1, 0))))


def test_case_12_every_cut_keeps_parents_and_the_accepted_path() -> None:
    """Careless: ties that put a child before its parent; a path that leaves the verified part.

    Token 3 follows both 1 and 2, so that a walk which forgets parents takes the wrong one.
    """
    candidates = Candidates(
        tokens_M=torch.tensor([1, 2, 3, 3, 5]),
        parents_M=torch.tensor([-1, -1, 1, 0, 3]),
        depths_M=torch.tensor([1, 1, 2, 2, 3]),
        log_scores_M=torch.tensor([0.5, 0.5, 0.45, 0.4, 0.4]).log(),
    )
    tree = DraftTree.build(0, candidates, 6)
    follows = {0: 1, 1: 3, 2: 9, 3: 5, 5: 9}
    for k in range(1, 7):
        verified = tree.prefix(k)
        parents, tokens = verified.parents_N.tolist(), verified.tokens_N.tolist()
        assert all(-1 <= parent < node for node, parent in enumerate(parents))
        path = greedy(tree, torch.tensor([follows[token] for token in tokens])).path
        assert [parents[node] for node in path] == [-1, *path[:-1]]
        spoken = [0, 1, 3, 5] if k == 6 else [0, 1, 3] if k == 5 else [0, 1] if k > 1 else [0]
        assert [tokens[node] for node in path] == spoken

"""The training code: gradients, layouts, and that the shipped weights belong to this corpus."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import torch

from harness.lab.corpus import Dialogue, fingerprint, mixture
from harness.lab.experts import SortedExperts
from harness.lab.prompts import FOLDER
from harness.lab.recipe import Recipe
from harness.lab.rows import Row, batches, mix
from harness.lab.train import WEIGHTS, corpus_sample


def test_expert_gradients_equal_autograd() -> None:
    torch.manual_seed(0)
    counts = [3, 0, 5, 1]
    x = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    gate_up = torch.randn(4, 8, 6, dtype=torch.float64, requires_grad=True)
    down = torch.randn(4, 6, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *inputs: SortedExperts.apply(*inputs, counts), (x, gate_up, down)
    )


def test_batches_hold_a_pool_once_and_respect_the_budget() -> None:
    lengths = [5 + i % 40 for i in range(64)]
    rows = [Row([i + 1] * n, [False] * n, "qa") for i, n in enumerate(lengths)]
    drawn = list(batches(rows, tokens_per_batch=120, seed=1, pool=64))
    ids = [int(row[0]) for batch in drawn for row in batch.ids_BT]
    assert sorted(ids) == list(range(1, 65))
    assert sum(int(batch.real_BT.sum()) for batch in drawn) == sum(lengths)
    assert all(batch.ids_BT.numel() <= 120 for batch in drawn)


def test_mix_keeps_the_share() -> None:
    own = [Row([i], [True], "own") for i in range(50)]
    corpus = (Row([0], [True], "corpus") for _ in iter(int, 1))
    drawn = [row.family for row in islice(mix(own, corpus, 0.7, 0), 4000)]
    assert drawn.count("own") / 4000 == pytest.approx(0.7, abs=0.03)


def test_shipped_weights_were_trained_on_this_corpus() -> None:
    made_from = json.loads((WEIGHTS / "training.json").read_text())
    assert made_from["corpus_sha256"] == fingerprint(corpus_sample(Recipe()))


def bundled() -> set[str]:
    lines = [line for path in FOLDER.glob("*.jsonl") for line in path.read_text().splitlines()]
    return {json.loads(line)["turns"][0] for line in lines}


def test_no_bundled_prompt_is_in_the_training_text() -> None:
    """By text, on as many dialogues as a third of the training run; by key in test_corpus."""
    recipe = Recipe()
    source = mixture("train", recipe.target.seed, recipe.target_mixture)
    seen: set[str] = {dialogue.turns[0][0] for dialogue in islice(source, 12_000)}
    assert len(bundled()) == 6 * 64 + 48
    assert not bundled() & seen


def test_measured_and_calibration_prompts_are_disjoint() -> None:
    def first(path: Path) -> set[str]:
        return {json.loads(line)["turns"][0] for line in path.read_text().splitlines()}

    calibration = first(FOLDER / "calibration.jsonl")
    for path in FOLDER.glob("*.jsonl"):
        if path.stem != "calibration":
            assert len(first(path)) == 64
            assert not first(path) & calibration


def test_weights_fit_the_repository() -> None:
    size = sum(path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file())
    assert size <= 32 * 2**20


def test_dialogue_rows_mark_the_assistants_tokens() -> None:
    from harness.lab.rows import to_row
    from harness.lab.train import load_tokenizer

    tokenizer = load_tokenizer(WEIGHTS)
    row = to_row(Dialogue("qa", (("Who?", "Me."), ("When?", "Now."))), tokenizer)
    answer = [i for i, mine in zip(row.ids, row.answer, strict=True) if mine]
    assert tokenizer.decode(answer, skip_special_tokens=True) == "Me.Now."
    assert answer.count(tokenizer.token_to_id("<|im_end|>")) == 2

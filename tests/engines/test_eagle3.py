"""The draft head against a plain reference without cache, and its vocabulary maps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from evict.errors import InputError
from harness.engines.torch.eagle3 import Eagle3Head, draft_vocabulary
from harness.engines.torch.engine import TorchEngine
from harness.engines.torch.proposer import Eagle3Proposer
from harness.engines.torch.weights import Checkpoint
from tests.support.checkpoints import TinyPair

STEPS = 3


def test_chain_drafting_equals_the_training_module(
    tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int]
) -> None:
    """Unroll step j of the training code, which keeps no cache, is draft level j + 1."""
    tokens = torch.tensor([ids])
    with torch.inference_mode():
        states = tiny_pair.target_module(tokens).states_BTF
        expected = tiny_pair.head_module.unroll(tokens, states, STEPS)
    assert tiny.head is not None
    for last in (9, 15, len(ids) - STEPS):
        proposer = Eagle3Proposer(tiny.head, slots=64, beta=1.0)
        with torch.inference_mode():
            proposer.extend(states[0, : last - 5], ids[1 : last - 4])
            proposer.extend(states[0, last - 5 : last], ids[last - 4 : last + 1])
            proposer.first(topk=1)
            for level in range(1, STEPS):
                forced = torch.tensor([ids[last + level]])
                proposer.expand(forced, torch.zeros(1, dtype=torch.long), topk=1)
        for level in range(STEPS):
            got, want = proposer._logits[level][0], expected[level][0, last - 1]
            assert (got - want).abs().max() < 1e-4, f"position {last}, level {level + 1}"


def test_wide_frontier_equals_single_chains(
    tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int]
) -> None:
    """Nodes of one level do not see each other: a wide level equals its nodes drafted alone."""
    assert tiny.head is not None
    with torch.inference_mode():
        states = tiny_pair.target_module(torch.tensor([ids])).states_BTF[0]

        def drafted(paths: list[list[int]]) -> torch.Tensor:
            proposer = Eagle3Proposer(tiny.head, slots=96, beta=1.0)  # type: ignore[arg-type]
            proposer.extend(states[:-1], ids[1:])
            proposer.first(topk=2)
            rows = torch.zeros(len(paths), dtype=torch.long)
            for level in range(len(paths[0])):
                proposer.expand(torch.tensor([p[level] for p in paths]), rows, topk=2)
                rows = torch.arange(len(paths))
            return proposer._logits[-1]

        paths = [[7, 8, 9], [7, 20, 21], [30, 8, 9], [31, 32, 33]]
        together = drafted(paths)
        for row, path in enumerate(paths):
            assert (together[row] - drafted([path])[0]).abs().max() < 1e-5


def test_beta_scales_logits_before_scores(
    tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int]
) -> None:
    assert tiny.head is not None
    with torch.inference_mode():
        states = tiny_pair.target_module(torch.tensor([ids])).states_BTF[0]
        proposer = Eagle3Proposer(tiny.head, slots=64, beta=1.7)
        proposer.extend(states[:-1], ids[1:])
        tokens, log_probs = proposer.first(topk=5)
    expected = (1.7 * proposer._logits[0]).log_softmax(-1).topk(5)
    torch.testing.assert_close(log_probs, expected.values)
    assert torch.equal(tokens, tiny.head.target_ids_D[expected.indices])


def _maps(folder: Path, d2t: torch.Tensor | None, t2d: torch.Tensor | None) -> Checkpoint:
    maps = {"d2t": d2t, "t2d": t2d, "other": torch.zeros(1)}
    save_file({k: v for k, v in maps.items() if v is not None}, folder / "model.safetensors")
    return Checkpoint(folder)


GOOD_IDS = torch.tensor([0, 3, 4, 9, 12, 20, 30, 31])
OFFSETS = GOOD_IDS - torch.arange(8)
COVER = torch.zeros(32, dtype=torch.bool).index_fill(0, GOOD_IDS, True)


def _changed(values: torch.Tensor, index: int, value: int) -> torch.Tensor:
    out = values.clone()
    out[index] = value
    return out


@pytest.mark.parametrize(
    ("d2t", "t2d", "message"),
    [
        (None, None, "no d2t map"),
        (OFFSETS, _changed(COVER, 3, 0), "t2d does not mark as many"),
        (_changed(OFFSETS, 2, 3 - 2), COVER, "same target id"),
        (_changed(OFFSETS, 7, 40 - 7), COVER, "outside the target vocabulary"),
        (_changed(OFFSETS, 1, 1 - 1 + 1), COVER, "d2t and t2d disagree"),
    ],
    ids=["absent", "sum", "repeat", "outside", "disagree"],
)
def test_case_37_inconsistent_draft_vocabulary(
    tiny: TorchEngine,
    tmp_path: Path,
    d2t: torch.Tensor | None,
    t2d: torch.Tensor | None,
    message: str,
) -> None:
    config = _small_config(tiny)
    with pytest.raises(InputError, match=message):
        draft_vocabulary(_maps(tmp_path, d2t, t2d), config)


def test_case_37_good_maps_pass(tiny: TorchEngine, tmp_path: Path) -> None:
    ids = draft_vocabulary(_maps(tmp_path, OFFSETS, COVER), _small_config(tiny))
    assert torch.equal(ids, GOOD_IDS)


def _small_config(engine: TorchEngine):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    assert engine.head is not None
    return replace(engine.head.config, vocab_size=32, draft_vocab_size=8)


def test_head_of_another_target_is_refused(
    tiny_pair: TinyPair, tiny: TorchEngine, tmp_path: Path
) -> None:
    import json

    config = json.loads((tiny_pair.draft / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "vocab_size": 999}))
    save_file(load_file(tiny_pair.draft / "model.safetensors"), tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="another target"):
        Eagle3Head(tmp_path, tiny.target.config, tiny.target.embedding, torch.float32, "cpu")

"""The target network against transformers, and a tree against its own chains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3MoeForCausalLM

from evict.errors import InputError
from evict.tree import DraftTree
from harness.engines.torch.engine import TorchEngine
from harness.engines.torch.layers import additive
from harness.engines.torch.qwen3_moe import Qwen3Moe
from tests.engines.conftest import LAB
from tests.support.checkpoints import TinyPair


def causal(size: int, prefix: int = 0) -> torch.Tensor:
    return additive(torch.ones(size, size, dtype=torch.bool).tril(), prefix, torch.float32)


def run(model: Qwen3Moe, ids: list[int], split: int) -> torch.Tensor:
    """Logits of all positions, the first `split` without cache and the rest one by one with it."""
    cache = model.new_cache(len(ids))
    with torch.inference_mode():
        rows = [model.forward(torch.tensor(ids[:split]), torch.arange(split), cache, causal(split))]
        cache.length = split
        for position in range(split, len(ids)):
            token, place = torch.tensor(ids[position : position + 1]), torch.tensor([position])
            rows.append(model.forward(token, place, cache, None))
            cache.length += 1
    return torch.cat([row.logits_TV for row in rows])


@pytest.mark.parametrize("split", [1, 13, 40])
def test_lab_logits_equal_transformers(lab: TorchEngine, split: int) -> None:
    reference = Qwen3MoeForCausalLM.from_pretrained(LAB["target"], dtype=torch.float32).eval()
    prompt = lab.encode_chat(
        [{"role": "user", "content": "Who founded Morstad, and when? Explain."}]
    )
    ids = (prompt * 4)[:40]
    with torch.inference_mode():
        expected = reference(torch.tensor([ids])).logits[0]
    assert (run(lab.target, ids, split) - expected).abs().max() < 1e-4


def test_tree_forward_equals_its_chains(lab: TorchEngine) -> None:
    prefix = lab.encode_chat([{"role": "user", "content": "Write a plan for a quiet garden."}])
    tree = DraftTree(
        tokens_N=torch.tensor([40, 41, 42, 41, 43, 44, 45]),
        parents_N=torch.tensor([-1, 0, 0, 1, 1, 2, 5]),
        depths_N=torch.tensor([0, 1, 1, 2, 2, 2, 3]),
        scores_N=torch.ones(7),
    )
    cache = lab.target.new_cache(len(prefix) + 7)
    with torch.inference_mode():
        lab.target.forward(
            torch.tensor(prefix), torch.arange(len(prefix)), cache, causal(len(prefix))
        )
        cache.length = len(prefix)
        mask = additive(tree.mask(), len(prefix), torch.float32)
        together = lab.target.forward(tree.tokens_N, tree.depths_N + len(prefix), cache, mask)
    for node in range(7):
        path = [node]
        while tree.parents_N[path[0]] >= 0:
            path.insert(0, int(tree.parents_N[path[0]]))
        chain = prefix + tree.tokens_N[path].tolist()
        alone = run(lab.target, chain, len(chain))[-1]
        assert (together.logits_TV[node] - alone).abs().max() < 1e-4, f"node {node}"


def test_union_is_between_top_k_and_everything(tiny: TorchEngine, ids: list[int]) -> None:
    c = tiny.target.config
    with torch.inference_mode():
        out = tiny.target.forward(
            torch.tensor(ids), torch.arange(len(ids)), tiny.target.new_cache(), causal(len(ids))
        )
    for union, experts in zip(out.union_L, out.experts_L, strict=True):
        assert union == len(experts.unique())
        assert c.experts_per_token <= union <= min(c.experts, len(ids) * c.experts_per_token)


def test_sharded_checkpoint_gives_the_same_logits(
    tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int], tmp_path: Path
) -> None:
    tensors = load_file(tiny_pair.target / "model.safetensors")
    names = sorted(tensors)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, tmp_path / file)
    weight_map = {name: file for file, part in shards.items() for name in part}
    index = {"weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text((tiny_pair.target / "config.json").read_text())
    sharded = Qwen3Moe(tmp_path, torch.float32, "cpu")
    assert torch.equal(run(sharded, ids, len(ids)), run(tiny.target, ids, len(ids)))


def _copy_with(pair: TinyPair, folder: Path, change: dict[str, torch.Tensor | None]) -> Path:
    tensors: dict[str, torch.Tensor | None] = dict(load_file(pair.target / "model.safetensors"))
    tensors.update(change)
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / "model.safetensors")
    (folder / "config.json").write_text((pair.target / "config.json").read_text())
    return folder


@pytest.mark.parametrize("value", [None, torch.zeros(3, 3)], ids=["missing", "misshaped"])
def test_bad_tensor_is_named(
    tiny_pair: TinyPair, tmp_path: Path, value: torch.Tensor | None
) -> None:
    name = "model.layers.2.mlp.experts.5.up_proj.weight"
    folder = _copy_with(tiny_pair, tmp_path, {name: value})
    with pytest.raises(InputError, match=r"layers\.2\.mlp\.experts\.5\.up_proj") as error:
        Qwen3Moe(folder, torch.float32, "cpu")
    assert "(16, 32)" in str(error.value)


def test_pickled_weights_are_not_loaded(tiny_pair: TinyPair, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny_pair.target / "config.json").read_text())
    torch.save({"x": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="no safetensors"):
        Qwen3Moe(tmp_path, torch.float32, "cpu")


def test_shard_index_cannot_leave_the_folder(tiny_pair: TinyPair, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((tiny_pair.target / "config.json").read_text())
    outside = {"weight_map": {"lm_head.weight": "../model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(outside))
    with pytest.raises(InputError, match="not in the checkpoint folder"):
        Qwen3Moe(tmp_path, torch.float32, "cpu")


def test_foreign_architecture_is_refused(tiny_pair: TinyPair, tmp_path: Path) -> None:
    config = json.loads((tiny_pair.target / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "bailing_moe"}))
    with pytest.raises(InputError, match="bailing_moe"):
        Qwen3Moe(tmp_path, torch.float32, "cpu")


def test_bf16_stays_close_to_fp32(tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int]) -> None:
    half = Qwen3Moe(tiny_pair.target, torch.bfloat16, "cpu")
    cache = half.new_cache(len(ids))
    mask = additive(torch.ones(len(ids), len(ids), dtype=torch.bool).tril(), 0, torch.bfloat16)
    with torch.inference_mode():
        rough = half.forward(torch.tensor(ids), torch.arange(len(ids)), cache, mask).logits_TV
    exact = run(tiny.target, ids, len(ids))
    cosine = torch.nn.functional.cosine_similarity(rough, exact, dim=-1)
    assert cosine.mean() > 0.98

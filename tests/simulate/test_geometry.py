"""Architecture numbers: the published parameter counts come out; impossible splits are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors import safe_open

from evict.errors import InputError
from harness.report.published import published
from harness.simulate.architecture import from_config, load_geometry

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "harness" / "lab" / "weights"
DENSE = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
MOE = {**DENSE, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


@pytest.mark.parametrize("name", ["qwen3_30b", "ling_flash", "qwen3_235b"])
def test_facts_add_up_to_the_published_parameter_counts(name: str) -> None:
    row = published("models").set_index("model").loc[name]
    model = load_geometry(name)
    embedding = model.attention.hidden * model.vocab_size
    assert model.total_parameters() / 1e9 == pytest.approx(row["total_params_b"], rel=0.03)
    active = model.active_parameters() + embedding
    assert active / 1e9 == pytest.approx(row["active_params_b"], rel=0.12)
    assert (model.experts, model.experts_per_token) == (row["experts"], row["experts_per_token"])
    model.parts(int(row["tensor_parallel"]))


def test_a_local_config_adds_up_to_the_weights_beside_it() -> None:
    with safe_open(LAB / "target" / "model.safetensors", framework="pt") as file:
        sizes = {name: file.get_tensor(name).numel() for name in file.keys()}  # noqa: SIM118
    matrices = sum(size for name, size in sizes.items() if "norm" not in name)
    assert load_geometry(LAB / "target").total_parameters() == matrices


def test_a_draft_head_adds_up_to_the_weights_of_a_real_one() -> None:
    config = json.loads((LAB / "target" / "config.json").read_text())
    head = json.loads((LAB / "eagle3" / "config.json").read_text())
    draft = from_config("lab", config, head).draft
    assert draft is not None
    with safe_open(LAB / "eagle3" / "model.safetensors", framework="pt") as file:
        sizes = {name: file.get_tensor(name).numel() for name in file.keys()}  # noqa: SIM118
    skipped = ("norm", "embed", "d2t", "t2d")
    matrices = sum(size for name, size in sizes.items() if not any(s in name for s in skipped))
    assert sum(part.weights for part in draft.parts(1)) == matrices


@pytest.mark.parametrize("tp", [2, 4])
def test_devices_share_everything_but_the_router(tp: int) -> None:
    model = load_geometry("ling_flash")
    alone = {part.name: part.weights for part in model.parts(1)}
    shared = {part.name: part.weights for part in model.parts(tp)}
    assert shared.pop("router") == alone.pop("router")
    assert shared == {name: weights / tp for name, weights in alone.items()}


def test_few_key_value_heads_are_copied_to_every_device() -> None:
    attention = load_geometry("qwen3_235b").attention
    assert attention.kv_heads == 4
    assert attention.cache_bytes(8) == attention.cache_bytes(4)
    assert attention.weights(8) > attention.weights(4) / 2


def test_a_dense_model_has_no_expert_part() -> None:
    model = load_geometry("hunyuan_7b")
    assert not any(part.routed for part in model.parts())
    assert model.total_parameters() / 1e9 == pytest.approx(7.5, rel=0.01)


def test_families_spell_the_same_layer_differently() -> None:
    expected = from_config("a", MOE)
    renamed = {
        **DENSE,
        "n_routed_experts": 8,
        "moe_topk": [2, 2],
        "moe_intermediate_size": [32, 32],
    }
    assert from_config("a", renamed) == expected
    shared = from_config("a", {**MOE, "n_shared_experts": 2, "first_k_dense_replace": 1})
    assert (shared.shared_size, shared.dense_layers, shared.moe_layers) == (64, 1, 1)
    assert from_config("a", {"text_config": MOE}) == expected


@pytest.mark.parametrize(
    ("tp", "named"),
    [(3, "attention heads"), (0, "attention heads"), (16, "experts"), (64, "expert width")],
)
def test_an_impossible_split_names_what_it_does_not_divide(tp: int, named: str) -> None:
    config = {**MOE, "num_attention_heads": 64, "num_key_value_heads": 64}
    with pytest.raises(InputError, match=named) as raised:
        from_config("a", config).parts(tp)
    assert raised.value.seen == f"tensor_parallel={tp}"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_experts_per_tok": None}, "num_experts_per_tok"),
        ({"num_experts_per_tok": 9}, "experts per token"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"moe_intermediate_size": [32, 64]}, "moe_intermediate_size"),
    ],
)
def test_a_config_that_contradicts_itself_is_refused(change: dict, named: str) -> None:
    with pytest.raises(InputError) as raised:
        from_config("a", {**MOE, **change})
    assert named in str(raised.value)


def test_an_unknown_model_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="qwen3_235b"):
        load_geometry("qwen9")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match="no JSON"):
        load_geometry(tmp_path)

"""Case 37: a draft checkpoint that does not belong to its target, or whose maps are broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from evict.errors import InputError
from harness.config import ROOT
from harness.engines.sglang.checkpoint import check_checkpoint

LAB = ROOT / "harness" / "lab" / "weights"
GOOD = [0, 3, 4, 9, 17, 20, 30, 31]  # target ids of the 8 draft ids


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """The lab head with a dictionary of 8 of 32 ids, and its target's config."""
    write_json(tmp_path / "target" / "config.json", read_config("target") | {"vocab_size": 32})
    sizes = {"vocab_size": 32, "draft_vocab_size": 8}
    write_json(tmp_path / "draft" / "config.json", read_config("eagle3") | sizes)
    tensors = load_file(LAB / "eagle3" / "model.safetensors")
    tensors["lm_head.weight"] = tensors["lm_head.weight"][:8].clone()
    write_tensors(tmp_path / "draft", tensors | maps(GOOD))
    return tmp_path


def maps(ids: list[int], marked: list[int] | None = None) -> dict[str, torch.Tensor]:
    mask = torch.zeros(32, dtype=torch.bool)
    mask[[i for i in (ids if marked is None else marked) if i < 32]] = True
    return {"d2t": torch.tensor(ids) - torch.arange(8), "t2d": mask}


def read_config(name: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((LAB / name / "config.json").read_text())
    return config


def write_json(path: Path, document: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document))


def write_tensors(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, folder / "model.safetensors")


def change_tensors(folder: Path, change: dict[str, torch.Tensor | None]) -> None:
    tensors = {**load_file(folder / "model.safetensors"), **change}
    write_tensors(folder, {name: tensor for name, tensor in tensors.items() if tensor is not None})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"d2t": None, "t2d": None}, "reduced vocabulary but no d2t map"),
        (maps(GOOD, GOOD[:7]), "t2d does not mark as many ids.*seen: 7; allowed: 8"),
        (maps([*GOOD[:7], 30]), "two draft ids to the same target id"),
        (maps([*GOOD[:7], 40]), "outside the target vocabulary; seen: 40"),
    ],
    ids=["absent", "t2d short", "repeat", "id 40"],
)
def test_case_37_a_broken_map_is_refused(head: Path, change: Any, reason: str) -> None:
    change_tensors(head / "draft", change)
    with pytest.raises(InputError, match=reason):
        check_checkpoint(head / "target", head / "draft")


def test_case_37_a_good_map_passes(head: Path) -> None:
    sizes = check_checkpoint(head / "target", head / "draft")
    assert (sizes.vocab_size, sizes.draft_vocab_size) == (32, 8)


def test_case_37_the_lab_pair_passes() -> None:
    sizes = check_checkpoint(LAB / "target", LAB / "eagle3")
    assert (sizes.hidden_size, sizes.aux, sizes.draft_vocab_size) == (128, 3, 1280)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"target_hidden_size": 64}, "hidden size of the target.*seen: 64; allowed: 128"),
        ({"vocab_size": 100}, "vocabulary of the target.*seen: 100; allowed: 32"),
        ({"num_aux_hidden_states": 2, "eagle_config": {}}, r"fuse 2 states.*\(128, 256\)"),
        (
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 5, 11]}},
            r"layers that the target does not have.*0\.\.10",
        ),
        ({"draft_vocab_size": None}, "rows of the draft's lm_head.weight; seen: 8; allowed: 32"),
    ],
)
def test_case_37_a_head_of_another_target(head: Path, config: Any, reason: str) -> None:
    path = head / "draft" / "config.json"
    write_json(path, json.loads(path.read_text()) | config)
    with pytest.raises(InputError, match=reason):
        check_checkpoint(head / "target", head / "draft")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fc.weight": None}, "no EAGLE-3 head"),
        ({"fc.weight": torch.zeros(128, 256)}, r"seen: \(128, 256\); allowed: \(128, 384\)"),
        ({"lm_head.weight": None}, "rows of the draft's lm_head.weight; seen: 32; allowed: 8"),
    ],
)
def test_case_37_tensors_that_do_not_fit(head: Path, change: Any, reason: str) -> None:
    change_tensors(head / "draft", change)
    with pytest.raises(InputError, match=reason):
        check_checkpoint(head / "target", head / "draft")


def test_case_37_a_tokenizer_of_another_target(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    shutil.copytree(LAB / "eagle3", draft)
    document = json.loads((LAB / "target" / "tokenizer.json").read_text())
    write_json(draft / "tokenizer.json", document)
    check_checkpoint(LAB / "target", draft)
    vocab = document["model"]["vocab"]
    first, second, *_ = (token for token, i in vocab.items() if i > 1000)
    vocab[first], vocab[second] = vocab[second], vocab[first]
    write_json(draft / "tokenizer.json", document)
    with pytest.raises(InputError, match="not the target's; seen: 2 tokens with another id"):
        check_checkpoint(LAB / "target", draft)

"""What a prediction is asked about: local checkpoints, facts, assumed heads, unknown models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from evict.errors import InputError
from harness.simulate.paper import TREE
from harness.simulate.target import Drafter, find_geometry, find_hardware, find_setting, fits

LAB = Path("harness/lab/weights")
A100 = {
    "name": "mine", "label": "mine", "memory_gib": 80, "bandwidth_gb_s": 2000, "matrix_tflops": 300,
    "link_gb_s": 300, "bandwidth_efficiency": 0.8, "matrix_efficiency": 0.6, "kernel_us": 4.0,
    "collective_us": 12.0, "host_us": 300.0,
}  # fmt: skip


def model(**values: object) -> dict[str, object]:
    return {"name": "qwen3_30b", "target": "Qwen/Qwen3-30B", "draft": "some/head", **values}


def test_a_hub_model_is_known_by_its_facts_with_its_head() -> None:
    found = find_geometry(model())
    assert (found.experts, found.layers) == (128, 48)
    assert found.draft is not None
    assert found.draft.mlp_size == 6144


def test_a_local_folder_wins_over_facts_and_brings_its_own_head() -> None:
    found = find_geometry(model(target=str(LAB / "target"), draft=str(LAB / "eagle3")))
    assert (found.experts, found.experts_per_token) == (48, 4)
    assert found.draft is not None
    assert (found.draft.mlp_size, found.draft.vocab_size) == (256, 1280)


def test_a_folder_without_weights_is_enough_and_an_unknown_head_is_assumed(tmp_path: Path) -> None:
    shutil.copy(LAB / "target" / "config.json", tmp_path)
    found = find_geometry(model(name="own", target=str(tmp_path), draft=None))
    head = found.draft
    assert head is not None
    assert (head.mlp_size, head.vocab_size) == (3 * 128, 2048)
    assert head.attention.inputs == 2 * 128


@pytest.mark.parametrize(
    ("content", "message"), [("{", "no JSON"), (json.dumps({"a": 1}), "num_hidden_layers")]
)
def test_a_damaged_config_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        find_geometry(model(target=str(tmp_path)))


def test_an_unknown_model_says_what_is_known() -> None:
    with pytest.raises(InputError, match="qwen3_235b") as caught:
        find_geometry(model(name="nobody", target="no/body"))
    assert caught.value.hint == "model.target=path/to/folder"


def test_a_device_must_be_chosen_and_whole() -> None:
    assert find_hardware(A100).bandwidth_gb_s == 2000
    with pytest.raises(InputError, match="h100"):
        find_hardware(None)
    with pytest.raises(InputError, match="host_us"):
        find_hardware({key: value for key, value in A100.items() if key != "host_us"})


def test_this_machine_is_measured() -> None:
    assert find_hardware({"name": "this"}).bandwidth_gb_s > 0


def test_a_degree_that_does_not_divide_is_refused_and_memory_is_per_device() -> None:
    whole = find_setting(model(), find_hardware(A100), 1, 32, TREE)
    split = find_setting(model(tensor_parallel=2), find_hardware(A100), 1, 32, TREE)
    assert fits(split)[0] == pytest.approx(fits(whole)[0] / 2)
    assert fits(whole)[0] == pytest.approx(30.5e9 * 2 / 2**30, rel=0.02)
    with pytest.raises(InputError, match="tensor_parallel=7"):
        find_setting(model(tensor_parallel=7), find_hardware(A100), 1, 32, TREE)


def test_a_model_without_published_numbers_borrows_the_mean_of_those_that_have_some() -> None:
    every = [Drafter.of(name) for name in ("qwen3_30b", "ling_flash", "qwen3_235b")]
    unknown = Drafter.of("nobody")
    assert len(unknown.donors) == 3
    assert unknown.mat(0.0, "gsm8k") == pytest.approx(sum(d.mat(0.0, "gsm8k") for d in every) / 3)
    assert every[0].mat(1.0, "gsm8k") != every[0].mat(0.0, "gsm8k")
    rows = [
        every[0].mat(0.0, b) for b in ("alpaca", "gsm8k", "humaneval", "mt_bench", "qa", "cnn_dm")
    ]
    assert every[0].mat(0.0, "mine") == pytest.approx(sum(rows) / 6)
    assert Drafter.of("nobody", 3.5).mat(0.7, "qa") == 3.5

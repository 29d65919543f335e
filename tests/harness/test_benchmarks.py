from __future__ import annotations

from pathlib import Path

import pytest

from evict.errors import InputError
from harness import benchmarks, hub
from harness.benchmarks import Prompt, check_disjoint, content_hash, load, members
from harness.config import BenchmarkConfig, HubConfig
from tests.support.bench import composed


def local(path: Path) -> BenchmarkConfig:
    return BenchmarkConfig(name="mine", label="Mine", path=str(path))


def written(folder: Path, text: str) -> BenchmarkConfig:
    path = folder / "prompts.jsonl"
    path.write_text(text)
    return local(path)


def test_a_local_file_becomes_prompts(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        '{"question_id": 81, "turns": ["a", "b"], "reference": ["x"]}\n{"turns": ["c"]}\n',
    )
    first, second = load(config, lab=True, limit=None)
    assert first == Prompt("mine-81", ("a", "b"), ("x",), "file")
    assert second == Prompt("mine-1", ("c",), (), "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"turns": ["a"]}\n{"turns": ["b"\n', r"prompts.jsonl:2: not JSON"),
        ('{"turns": ["a"]}\n{"prompt": "b"}\n', r"prompts.jsonl:2: `turns` must be"),
        ('{"turns": [""]}\n', r"prompts.jsonl:1: empty prompt"),
        ('{"turns": []}\n', r"prompts.jsonl:1: empty prompt"),
        ("", r"no prompts"),
        ('{"question_id": 1, "turns": ["a"]}\n' * 2, r"prompts.jsonl:2: id used twice"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(written(tmp_path, text), lab=True, limit=None)


def test_more_prompts_than_there_are_is_an_error(tmp_path: Path) -> None:
    config = written(tmp_path, '{"turns": ["a"]}\n')
    with pytest.raises(InputError, match=r"smaller than limit; seen: 2; allowed: 1..1"):
        load(config, lab=True, limit=2)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not found"):
        load(local(tmp_path / "none.jsonl"), lab=True, limit=None)


def test_the_content_hash_follows_the_words() -> None:
    first = [Prompt("a-0", ("x",), None, "lab")]
    assert content_hash(first) == content_hash([Prompt("a-0", ("x",), "ref", "file")])
    assert content_hash(first) != content_hash([Prompt("a-0", ("y",), None, "lab")])


def test_case_22_overlap_is_found_by_content() -> None:
    measured = [Prompt("a-0", ("x",), None, "lab")]
    check_disjoint(measured, [Prompt("c-0", ("y",), None, "lab")])
    with pytest.raises(InputError, match="c-9 = a-0"):
        check_disjoint(measured, [Prompt("c-9", ("x",), None, "lab")])


def test_all_lists_six_members_each_with_its_hub_entry() -> None:
    config, _ = composed()
    names = [member.name for member in members(config.benchmark)]
    assert names == ["alpaca", "gsm8k", "humaneval", "qa", "mt_bench", "cnn_dm"]
    assert all(member.hub and member.bundled for member in members(config.benchmark))


def test_a_hub_row_fills_the_template_or_lists_its_turns() -> None:
    hub_config = HubConfig(dataset="d", split="s", revision="r", template="{a}\n\n{b}")
    assert hub.turns({"a": "x", "b": ""}, hub_config) == ["x"]
    listed = HubConfig(dataset="d", split="s", revision="r", turns_field="prompt")
    assert hub.turns({"prompt": ["x", "y"]}, listed) == ["x", "y"]


def test_hub_rows_become_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"question": "q", "answer": "a"}]
    monkeypatch.setattr(hub, "_load", lambda name, config: rows)
    entry = HubConfig("d", None, "s", "r", "{question}", None, "answer")
    config = BenchmarkConfig(name="gsm8k", label="GSM8K", hub=entry)
    assert load(config, lab=False, limit=1) == [Prompt("gsm8k-0", ("q",), ("a",), "hub")]


def test_case_27_offline_names_set_revision_cache_and_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import datasets

    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    config, _ = composed("benchmark=gsm8k")
    with pytest.raises(InputError) as caught:
        load(config.benchmark, lab=False, limit=1)
    for part in ("openai/gsm8k", "e53f048856ff", "cache ", "benchmark.path="):
        assert part in str(caught.value)


def test_an_unknown_source_lists_the_known_ones() -> None:
    config = BenchmarkConfig(name="x", label="X", source="web")
    with pytest.raises(InputError, match="auto, lab, hub, file"):
        load(config, lab=True, limit=None)
    assert benchmarks.SOURCES[0] == "auto"

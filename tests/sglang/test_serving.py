"""The plugin as a serving engineer meets it: a command line, and clear words when it cannot run."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from harness.engines.sglang.failures import ServerFailed
from tests.sglang import servers
from tests.sglang.checkpoints import LAB, Pair
from tests.sglang.prices import price_list
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import refused

FULL = {"policy": {"name": "full"}}


@pytest.fixture(scope="module")
def answers(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("refused")
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": folder}
    return run_scenario(refused.answers, arguments)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("topk 1", "topk 1 drafts a chain"),
        ("draft tokens above the tree", "2..201"),
        ("no draft tokens", "speculative_num_draft_tokens"),
        ("DP attention", "DP attention"),
        ("pipeline", "pipeline parallelism"),
        ("adaptive", "adaptive speculation"),
        ("rejection sampling", "rejection sampling"),
        ("no cost table", "needs a cost table"),
        ("unknown policy", "evict, coverage, fixed_k, full, expected"),
        ("unknown setting", "polcy"),
        ("missing table", "nowhere.json"),
        ("wrong tier", "1..32"),
        ("fixed k above N", "1..32"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_loaded(
    answers: dict[str, str], case: str, words: str
) -> None:
    assert answers[case].startswith("InputError: ")
    assert words in answers[case]


def test_legal_arguments_pass(answers: dict[str, str]) -> None:
    assert answers["legal"] == ""


def test_the_command_line_serves_an_openai_request(tmp_path: Path) -> None:
    with servers.start(tmp_path, LAB.target, LAB.draft, _priced(LAB.target), **_lab()) as server:
        body = {
            "model": "lab",
            "messages": [{"role": "user", "content": "What is 12 plus 7?"}],
            "temperature": 0,
            "max_tokens": 24,
        }
        reply = _post(server, "/v1/chat/completions", body)
    (choice,) = reply["choices"]
    assert choice["message"]["content"].strip()
    assert reply["usage"]["completion_tokens"] <= 24
    assert "verify" not in choice["message"]["content"]


def test_a_plugin_that_was_not_loaded_is_named(tiny: Pair, tmp_path: Path) -> None:
    with pytest.raises(ServerFailed) as failed:
        servers.start(
            tmp_path, tiny.target, tiny.draft, FULL, variables={"SGLANG_PLUGINS": "another"}
        )
    assert failed.value.kind == "unknown_algorithm"
    assert "SGLANG_PLUGINS" in str(failed.value)


def test_a_cost_table_of_another_machine_stops_the_server(tiny: Pair, tmp_path: Path) -> None:
    config = _priced(tiny.target)
    config["costs"]["1"]["fingerprint"]["setting.device"] = "NVIDIA B200"
    with pytest.raises(ServerFailed, match="NVIDIA B200"):
        servers.start(tmp_path, tiny.target, tiny.draft, config)


def _priced(target: Path) -> dict[str, Any]:
    return {"costs": {"1": price_list(target, slope=0.05)}}


def _lab() -> dict[str, Any]:
    return {"skip_tokenizer_init": False, "served_model_name": "lab", "context_length": 1024}


def _post(server: Any, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{server.url}{path}",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {server.api_key}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        found: dict[str, Any] = json.load(answer)
    return found

"""What the plugin relies on in SGLang is what the installed package has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sglang.process import run_scenario
from tests.sglang.scenarios import contract


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return run_scenario(contract.signatures, {})


def test_every_symbol_is_there_with_the_signature_the_plugin_was_written_for(
    found: dict[str, Any],
) -> None:
    assert found["differing"] == {}
    assert found["checked"] > 25


def test_every_sglang_name_in_the_plugin_is_listed(found: dict[str, Any]) -> None:
    assert found["unlisted"] == []


def test_globals_swapped_in_the_worker_module_are_looked_up_where_we_think(
    found: dict[str, Any],
) -> None:
    assert found["swapped"] == {
        "EagleDraftWorker": ["EAGLEWorkerV2.__init__"],
        "build_eagle_verify_input": ["EagleDraftWorker.draft"],
        "organize_draft_results": ["EagleDraftWorker.draft_forward"],
        "select_top_k_tokens": ["EagleDraftWorker.draft_forward"],
    }


def test_another_version_is_refused_by_name(found: dict[str, Any]) -> None:
    assert "0.5.22" in found["refusal"]
    assert "0.5.23" in found["refusal"]

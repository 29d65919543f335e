"""The arguments of the arms, as the installed SGLang resolves them."""

from __future__ import annotations

from pathlib import Path

from tests.sglang.process import run_scenario
from tests.sglang.scenarios import arms


def test_every_arm_is_resolved_as_asked_and_alike_but_for_drafting(tmp_path: Path) -> None:
    found = run_scenario(arms.resolved, {"folder": tmp_path})
    assert found["arms"] == ["EAGLE3", "EVICT", "NGRAM", "plain"]
    assert found["differences"] == []
    assert found["unknown"] == []
    assert "SGLang does not know; seen: page_sice" in found["misspelt"]

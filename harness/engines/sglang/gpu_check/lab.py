"""The trained pair that ships with the repository, and prompts for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.engines.sglang.gpu_check.dummy import Pair
from harness.engines.tokenizer import ChatTokenizer
from harness.identity import folder_hash

ROOT = Path(__file__).resolve().parents[4]
LAB = Pair(ROOT / "harness/lab/weights/target", ROOT / "harness/lab/weights/eagle3")
FAMILIES = ("gsm8k", "humaneval", "mt_bench", "alpaca", "qa")


def lab_prompts(count: int) -> list[list[int]]:
    """Token ids of the first questions of the bundled prompt sets, family by family."""
    tokenizer = ChatTokenizer(LAB.target)
    files = [ROOT / "datasets/lab" / f"{family}.jsonl" for family in FAMILIES]
    asked = [file.read_text(encoding="utf-8").splitlines() for file in files]
    chosen = [asked[i % len(asked)][i // len(asked)] for i in range(count)]
    questions = [str(json.loads(line)["turns"][0]) for line in chosen]
    return [tokenizer.encode_chat([{"role": "user", "content": one}]) for one in questions]


def lab_facts() -> dict[str, Any]:
    """For the document."""
    return {
        "kind": "trained",
        "target": str(LAB.target.relative_to(ROOT)),
        "draft": str(LAB.draft.relative_to(ROOT)),
        "hash": folder_hash(LAB.target, LAB.draft)[:16],
    }

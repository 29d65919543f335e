"""Cost tables that a worker on this CPU accepts as measured on itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.sglang.facts import settings_facts

DRAFT_TOKENS = 32


def price_list(target: Path, slope: float, tensor_parallel: int = 1) -> dict[str, Any]:
    """C(k) = 1 + slope * k ms with the fingerprint of this target, as plain data."""
    facts = settings_facts(
        json.loads((target / "config.json").read_text()),
        device="cpu",
        dtype="float32",
        attention_backend="intel_amx",
        moe_runner_backend="auto",
        graphs=False,
        tensor_parallel=tensor_parallel,
    )
    fingerprint = {f"setting.{name}": value for name, value in facts.items()}
    fingerprint["growth"] = "FixedDepth(steps=4, topk=8)"
    step_ms = tuple(1 + slope * k for k in range(1, DRAFT_TOKENS + 1))
    return CostTable(step_ms, 1.0, (0.0,) * DRAFT_TOKENS, fingerprint=fingerprint).to_dict()

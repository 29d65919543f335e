"""The arms of a comparison on SGLang: methods, settings, and what real servers said of themselves.

`server_info.json` holds replies of SGLang 0.5.23 to /server_info, from CPU servers of the lab model
that were started with the arguments of `arm_arguments`: the plain one whole (but for what its only
scheduler repeats), of the others what differs.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from evict.growth import DynamicDepth, FixedDepth
from evict.lookahead import Recency
from evict.selection import CostAware, Full
from harness.engines.base import Method
from harness.engines.sglang.arguments import Settings, Weights, server_arguments, server_kind

PLAIN = Method("vanilla")
NGRAM = Method("ngram", "trie", Recency(max_match=17), Full(), 12)
STOCK = Method("stock", "eagle3", FixedDepth(4, 8), Full(), 32)
POLICY = Method("policy", "eagle3", FixedDepth(4, 8), CostAware(), 32)
DEPTH = Method("depth", "eagle3", DynamicDepth(4, 8, -1.0, (2, 3)), Full(), 32)
ARMS = {"plain": PLAIN, "NGRAM": NGRAM, "EAGLE3": STOCK, "EVICT": POLICY}

WEIGHTS = Weights("harness/lab/weights/target", "harness/lab/weights/eagle3")
GPU = Settings(attention_backend="flashinfer", moe_runner_backend="triton", dtype="bfloat16")
CPU = Settings(
    attention_backend="torch_native",
    prefill_attention_backend="intel_amx",
    decode_attention_backend="intel_amx",
    moe_runner_backend="triton",
    dtype="float32",
    device="cpu",
    disable_cuda_graph=True,
    disable_overlap_schedule=True,
    mem_fraction_static=0.5,
    context_length=1024,
    server_args={"max_total_tokens": 8192, "skip_server_warmup": True, "log_level": "error"},
)


def shaped(method: Method, draft_tokens: int, **growth: Any) -> Method:
    """The method with another tree."""
    return replace(method, draft_tokens=draft_tokens, growth=replace(method.growth, **growth))


def arm_arguments(method: Method, settings: Settings = GPU, **change: Any) -> dict[str, Any]:
    """Server arguments of a method, with some settings changed."""
    return server_arguments(server_kind(method), replace(settings, **change), WEIGHTS)


def server_info(arm: str, **change: Any) -> dict[str, Any]:
    """A server's reply; changes are made where the scheduler does not say otherwise."""
    documents = _documents()
    return {**deepcopy(documents["plain"]), **deepcopy(documents[arm]), **change}


@cache
def _documents() -> dict[str, dict[str, Any]]:
    path = Path(__file__).with_name("server_info.json")
    documents: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return documents

"""What each supported version of SGLang can do: the one table that legality is judged by."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evict.errors import InputError
from evict.sglang.version import SUPPORTED


@dataclass(frozen=True)
class Support:
    """What one version can do with draft trees (more than one child per node).

    tree_backends: attention backends with tree masks in verify and draft. paged_tree_backends:
    those that keep trees with pages of several tokens, for every algorithm. tree_overlap: whether
    trees go with the overlap scheduler. capabilities: compute capabilities (major, minor), first
    and last, of backends that do not run everywhere.
    """

    tree_backends: frozenset[str]
    paged_tree_backends: frozenset[str]
    tree_overlap: bool
    capabilities: Mapping[str, tuple[tuple[int, int], tuple[int, int]]]


TABLE: Mapping[str, Support] = MappingProxyType(
    {
        SUPPORTED: Support(
            tree_backends=frozenset({"flashinfer", "triton", "fa3", "intel_amx"}),
            paged_tree_backends=frozenset({"flashinfer"}),
            tree_overlap=True,
            capabilities=MappingProxyType({"fa3": ((8, 0), (9, 0))}),
        ),
    }
)

# Left unset, SGLang chooses them by algorithm: the arms of a comparison would differ.
PINNED: Mapping[str, str] = MappingProxyType(
    {
        "attention_backend": "flashinfer",
        "moe_runner_backend": "triton",
        "page_size": "1",
        "max_running_requests": "1",
        "mem_fraction_static": "0.8",
    }
)
_DISTRIBUTION = "it changes which tokens are accepted"
SPECULATIVE_ONLY: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        "enable_mixed_chunk": (False, "SGLang switches it off for some algorithms only"),
        "speculative_accept_threshold_single": (1.0, _DISTRIBUTION),
        "speculative_accept_threshold_acc": (1.0, _DISTRIBUTION),
    }
)
_ONE_QUEUE = "one worker serves one queue of requests"
_CHAIN = "it is made for chains, not for trees"
QUEUE_ONLY: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        **SPECULATIVE_ONLY,
        "enable_dp_attention": (False, _ONE_QUEUE),
        "attn_dp_size": (1, _ONE_QUEUE),
    }
)
PLUGIN_ONLY: Mapping[str, tuple[Any, str]] = MappingProxyType(
    {
        **QUEUE_ONLY,
        "dp_size": (1, _ONE_QUEUE),
        "pp_size": (1, "draft, verify and extend share one pipeline stage"),
        "speculative_adaptive": (False, "the policy already chooses the verify length"),
        "speculative_use_rejection_sampling": (False, _CHAIN),
        "speculative_use_block_verification": (False, _CHAIN),
        "enable_multi_layer_eagle": (False, "the drafter has one layer"),
        "enable_two_batch_overlap": (False, "both halves would need the same verify length"),
    }
)


def check_version(found: str | None) -> Support:
    """What the installed version can do; InputError names the version found and those supported."""
    support = TABLE.get(found or "")
    if support is None:
        raise InputError(
            "this version of SGLang is not supported",
            seen=found or "not installed",
            allowed=", ".join(TABLE),
            hint=f"pip install sglang=={SUPPORTED}",
        )
    return support


def known_arguments() -> frozenset[str] | None:
    """Names that ServerArgs takes; None where SGLang cannot be asked: its server will tell."""
    if importlib.util.find_spec("sglang") is None:
        return None
    try:
        record = importlib.import_module("sglang.srt.server_args").ServerArgs
    except (ImportError, OSError, RuntimeError):
        return None
    return frozenset(record.__struct_fields__)

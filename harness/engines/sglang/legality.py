"""What SGLang would refuse, or change on its own, only after the weights are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from evict.errors import InputError
from evict.growth import level_capacity
from evict.sglang.version import SUPPORTED
from harness.engines.sglang.support import (
    PINNED,
    PLUGIN_ONLY,
    QUEUE_ONLY,
    SPECULATIVE_ONLY,
    TABLE,
    Support,
)

Arguments = Mapping[str, Any]
Rule = Callable[["Check"], None]


@dataclass(frozen=True)
class Check:
    """Arguments on their way to a server of a known version."""

    arguments: Arguments
    support: Support
    capability: tuple[int, int] | None = None

    @property
    def topk(self) -> int:
        names = ("speculative_eagle_topk", "speculative_ngram_max_bfs_breadth")
        return max((int(self.arguments.get(name) or 1) for name in names), default=1)

    @property
    def backends(self) -> dict[str, str | None]:
        """Backend of the prefill side (verify runs there), the decode side and the drafter."""
        base = self.arguments.get("attention_backend")
        names = ("prefill_attention_backend", "decode_attention_backend")
        draft = "speculative_draft_attention_backend"
        sides = {name: self.arguments.get(name) or base for name in names}
        return sides | ({draft: self.arguments[draft]} if self.arguments.get(draft) else {})


def check_arguments(
    arguments: Arguments,
    capability: tuple[int, int] | None = None,
    support: Support = TABLE[SUPPORTED],
) -> None:
    """Raise InputError, with the nearest legal setting, for what this version cannot run."""
    check = Check(arguments, support, capability)
    for rule in RULES[arguments.get("speculative_algorithm")]:
        rule(check)


def _pinned(check: Check) -> None:
    for name, legal in PINNED.items():
        if check.arguments.get(name) is None:
            raise InputError(
                f"{name} is not set: SGLang would choose it by algorithm",
                seen=None if name in check.arguments else "unset",
                hint=f"engine.{name}={legal}",
            )


def _cpu_overlap(check: Check) -> None:
    overlap = not check.arguments.get("disable_overlap_schedule")
    if check.arguments.get("device") == "cpu" and overlap:
        raise InputError(
            "on a CPU SGLang would switch the overlap scheduler off for speculative servers only",
            seen="disable_overlap_schedule=false",
            hint="engine.disable_overlap_schedule=true",
        )


def _capability(check: Check) -> None:
    for name, backend in check.backends.items():
        first, last = check.support.capabilities.get(str(backend), ((0, 0), (99, 9)))
        if check.capability is not None and not first <= check.capability <= last:
            raise InputError(
                f"{name}: {backend} does not run on this GPU",
                seen=f"compute capability {check.capability[0]}.{check.capability[1]}",
                allowed=f"{first[0]}.{first[1]} to {last[0]}.{last[1]}",
                hint="engine.attention_backend=flashinfer",
            )


def _tree(check: Check) -> None:
    if check.topk == 1:
        return
    for name, backend in check.backends.items():
        if backend not in check.support.tree_backends:
            raise InputError(
                f"{name}: {backend} cannot verify trees (topk {check.topk})",
                seen=backend,
                allowed=", ".join(sorted(check.support.tree_backends)),
                hint="engine.attention_backend=flashinfer",
            )
    _paged_tree(check)
    if not check.support.tree_overlap and not check.arguments.get("disable_overlap_schedule"):
        raise InputError(
            "the overlap scheduler of this version takes chains only",
            seen=f"topk {check.topk}",
            hint="engine.disable_overlap_schedule=true",
        )


def _paged_tree(check: Check) -> None:
    page = int(check.arguments["page_size"])
    allowed = check.support.paged_tree_backends
    if page > 1 and not set(check.backends.values()) <= allowed:
        raise InputError(
            f"trees (topk {check.topk}) with pages of more than one token",
            seen=f"page_size {page}, {check.arguments['attention_backend']}",
            allowed=f"page_size 1, or {', '.join(sorted(allowed))}",
            hint="engine.page_size=1",
        )


def _shape(check: Check) -> None:
    steps, topk = (check.arguments[f"speculative_{name}"] for name in ("num_steps", "eagle_topk"))
    tokens = check.arguments["speculative_num_draft_tokens"]
    most = level_capacity(steps, topk) + 1
    least = most if topk == 1 else 2
    if not least <= tokens <= most:
        raise InputError(
            f"draft_tokens of a tree with {steps} steps and topk {topk}, root counted",
            seen=tokens,
            allowed=most if least == most else f"{least}..{most}",
            hint=f"method.draft_tokens={min(max(tokens, least), most)}",
        )


def _branching(check: Check) -> None:
    if check.topk == 1:
        raise InputError(
            "a draft of topk 1 is a chain: there is no tree to cut",
            seen=1,
            allowed="topk >= 2",
            hint="method.growth.topk=2",
        )


def _only(legal: Mapping[str, tuple[Any, str]]) -> Rule:
    def rule(check: Check) -> None:
        for name, (value, reason) in legal.items():
            seen = check.arguments.get(name, value)
            if seen is not None and seen != value:
                raise InputError(
                    f"{name} cannot be combined with {check.arguments['speculative_algorithm']}: "
                    + reason,
                    seen=seen,
                    allowed=value,
                    hint=f"~engine.server_args.{name}",
                )

    return rule


_ALL: tuple[Rule, ...] = (_pinned, _cpu_overlap, _capability)
RULES: Mapping[str | None, tuple[Rule, ...]] = MappingProxyType(
    {
        None: _ALL,
        "NGRAM": (*_ALL, _only(QUEUE_ONLY), _tree),
        "EAGLE3": (*_ALL, _only(SPECULATIVE_ONLY), _shape, _tree),
        "EVICT": (*_ALL, _only(PLUGIN_ONLY), _branching, _shape, _tree),
    }
)

"""Which SGLang server serves a method, and the arguments that it is started with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth
from evict.lookahead import Recency
from evict.selection import Full
from harness.engines.base import Method
from harness.engines.sglang.legality import check_arguments
from harness.engines.sglang.spec import OURS
from harness.engines.sglang.support import known_arguments

Plain = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Kind:
    """A server: methods with equal kinds share one, without a restart. Hashable.

    algorithm: SGLang's name, None without speculation. steps, topk, draft_tokens: shape of the
    draft tree, root counted; None where the algorithm has no such setting. growth: what else the
    drafter is configured with, as sorted (name, value) pairs.
    """

    algorithm: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    growth: Plain = ()


@dataclass(frozen=True)
class Weights:
    """What is loaded: local folders or hub ids, with revisions. tensor_parallel counts GPUs."""

    target: str
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    trust_remote_code: bool = False
    context_length: int | None = None
    tensor_parallel: int = 1


@dataclass(frozen=True)
class Settings:
    """How every server is run, whatever it serves: only then are methods comparable.

    Names are SGLang's. prefill_attention_backend and decode_attention_backend override
    attention_backend where set. cuda_graph_bs_decode: batch sizes with a captured decode graph,
    unused where disable_cuda_graph is set (the eager regime). context_length: the model's wins
    where it names one. sleep_on_idle: a server that waits would otherwise keep a core busy beside
    the one that is measured. server_args: further arguments, given to every server (speculative_*
    to speculative ones only).
    """

    attention_backend: str | None
    moe_runner_backend: str
    dtype: str
    device: str = "cuda"
    prefill_attention_backend: str | None = None
    decode_attention_backend: str | None = None
    page_size: int = 1
    disable_radix_cache: bool = True
    max_running_requests: int = 1
    disable_cuda_graph: bool = False
    cuda_graph_bs_decode: Sequence[int] = (1,)
    context_length: int = 8192
    mem_fraction_static: float = 0.8
    random_seed: int = 0
    disable_overlap_schedule: bool = False
    sleep_on_idle: bool = True
    server_args: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def server_kind(method: Method) -> Kind:
    """The server that can serve `method`; InputError where SGLang has none."""
    if method.scores != "draft":
        raise InputError(
            f"method {method.name}: SGLang's worker selects by draft scores",
            seen=f"scores={method.scores}",
            allowed="scores=draft",
            hint="method=evict, or engine=torch",
        )
    return _KINDS[method.drafter](method)


def server_arguments(
    kind: Kind,
    settings: Settings,
    weights: Weights,
    capability: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Arguments of `sglang.srt.server_args.ServerArgs` 0.5.23 by name; address and key excepted.

    capability: compute capability of the GPU, where known. Raises InputError for what SGLang would
    refuse, or silently change, after the weights are loaded.
    """
    arguments = {**_shared(settings, weights), **_speculation(kind, weights)}
    extra = _extra(settings.server_args, arguments, kind)
    check_arguments({**arguments, **extra}, capability)
    return {**arguments, **extra}


def _plain_kind(method: Method) -> Kind:
    return Kind()


def _trie_kind(method: Method) -> Kind:
    rule = method.growth
    if not isinstance(rule, Recency):
        raise InputError(
            "SGLang has no such trie drafter",
            seen=type(rule).__name__,
            allowed=Recency.__name__,
            hint="method=lookahead_ngram",
        )
    anchors = (1, rule.max_trie_depth - 1)
    if (rule.min_match, rule.max_match) != anchors:
        raise InputError(
            "SGLang's n-gram drafter matches suffixes of every length its trie holds",
            seen=f"min_match {rule.min_match}, max_match {rule.max_match}",
            allowed=f"{anchors[0]}, {anchors[1]}",
            hint=f"method.growth.min_match={anchors[0]} method.growth.max_match={anchors[1]}",
        )
    if rule.draft_tokens != method.draft_tokens:
        raise InputError(
            "two sizes for one draft",
            seen=f"growth {rule.draft_tokens}, method {method.draft_tokens}",
            hint=f"method.draft_tokens={rule.draft_tokens}",
        )
    names = ("max_trie_depth", "min_breadth", "max_breadth", "capacity_nodes")
    return Kind(ALGORITHMS["trie"], None, None, rule.draft_tokens, _data(rule, names))


def _tree_kind(method: Method) -> Kind:
    rule = method.growth
    shapes: dict[type, tuple[str, ...]] = {
        FixedDepth: (),
        DynamicDepth: ("check_depths",),
    }
    if type(rule) not in shapes:
        raise InputError(
            "the EVICT worker cannot grow such trees",
            seen=type(rule).__name__,
            allowed=", ".join(shape.__name__ for shape in shapes),
        )
    stock = (type(rule), type(method.selection)) == (FixedDepth, Full)
    algorithm = ALGORITHMS["stock" if stock else "policy"]
    more = _data(rule, shapes[type(rule)])
    return Kind(algorithm, rule.steps, rule.topk, method.draft_tokens, more)


def _data(rule: object, names: Sequence[str]) -> Plain:
    return tuple((name, getattr(rule, name)) for name in sorted(names))


def _shared(settings: Settings, weights: Weights) -> dict[str, Any]:
    values = {f.name: getattr(settings, f.name) for f in fields(settings)}
    batches = values.pop("cuda_graph_bs_decode")
    del values["server_args"]
    values |= {
        "model_path": weights.target,
        "revision": weights.revision,
        "trust_remote_code": weights.trust_remote_code,
        "context_length": weights.context_length or settings.context_length,
        "tp_size": weights.tensor_parallel,
        "cuda_graph_bs_decode": None if settings.disable_cuda_graph else list(batches),
    }
    return {name: value for name, value in values.items() if value is not None}


def _speculation(kind: Kind, weights: Weights) -> dict[str, Any]:
    if kind.algorithm is None:
        return {}
    named = {
        "speculative_num_steps": kind.steps,
        "speculative_eagle_topk": kind.topk,
        "speculative_num_draft_tokens": kind.draft_tokens,
        **{_NGRAM[name]: value for name, value in kind.growth if name in _NGRAM},
    }
    given = {name: value for name, value in named.items() if value is not None}
    drafter = {} if kind.steps is None else _drafter(weights)
    return {"speculative_algorithm": kind.algorithm, **given, **drafter}


def _drafter(weights: Weights) -> dict[str, str]:
    if weights.draft is None:
        raise InputError("this model has no draft checkpoint", seen="null", hint="model.draft=PATH")
    named = {"speculative_draft_model_path": weights.draft}
    if weights.draft_revision is not None:
        named["speculative_draft_model_revision"] = weights.draft_revision
    return named


def _extra(given: Mapping[str, Any], decided: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    ours = sorted(set(given) & (DECIDED | set(decided)))
    if ours:
        raise InputError(
            "engine.server_args names what other settings decide",
            seen=", ".join(ours),
            hint="set the model, the method or engine.<name> instead",
        )
    known = known_arguments() if given else None
    unknown = sorted(set(given) - known) if known is not None else []
    if unknown:
        raise InputError(
            "engine.server_args names what SGLang does not know",
            seen=", ".join(unknown),
            allowed="fields of sglang.srt.server_args.ServerArgs",
        )
    speculative = kind.algorithm is not None
    return {k: v for k, v in given.items() if speculative or not k.startswith("speculative_")}


ALGORITHMS = MappingProxyType({"trie": "NGRAM", "stock": "EAGLE3", "policy": "EVICT"})
_KINDS: dict[str, Callable[[Method], Kind]] = {
    "none": _plain_kind,
    "trie": _trie_kind,
    "eagle3": _tree_kind,
}
_NGRAM = {
    "max_trie_depth": "speculative_ngram_max_trie_depth",
    "min_breadth": "speculative_ngram_min_bfs_breadth",
    "max_breadth": "speculative_ngram_max_bfs_breadth",
    "capacity_nodes": "speculative_ngram_capacity",
}
# Whatever the kind, and every other way in which SGLang lets the same things be said.
DECIDED = frozenset(
    {f.name for f in fields(Settings) if f.name != "server_args"}
    | set(_NGRAM.values())
    | {"model_path", "revision", "tp_size", "trust_remote_code", "admin_api_key", *OURS}
    | {"speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk"}
    | {"speculative_num_draft_tokens", "speculative_draft_model_path"}
    | {"speculative_draft_model_revision"}
    | {"cuda_graph_config", "cuda_graph_backend_decode", "cuda_graph_max_bs_decode"}
    | {"disable_decode_cuda_graph", "disable_cuda_graph_padding"}
)

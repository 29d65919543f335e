"""C(k) from first principles: every term of a step in milliseconds, for every verify length.

A pass is a roofline: each group of matrices takes the longer of reading its weights once and of
multiplying all tokens by them; experts are read as often as the tokens' union names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from evict.cost import STAGES, CostTable
from evict.errors import InputError
from harness.simulate.geometry import DraftGeometry, ModelGeometry, Part
from harness.simulate.hardware import Hardware
from harness.simulate.overlap import Floats, unions

ATTENTION_KERNELS = 9  # norm, projections, rotary, cache write, attention and its merge, output
MLP_KERNELS = {True: 7, False: 4}  # with a router: scores, choice, sorting, products, sum
REDUCTIONS_PER_LAYER = 2
PICK_KERNELS = 12  # from draft logits to the next frontier: softmax, top-k, gather, scores
ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Setting:
    """What is priced. context: tokens in the cache of each request; batch: requests at once."""

    model: ModelGeometry
    hardware: Hardware
    tensor_parallel: int = 1
    draft_tokens: int = 32
    steps: int = 4
    topk: int = 8
    context: int = 512
    batch: int = 1

    def __post_init__(self) -> None:
        for name in ("draft_tokens", "steps", "topk", "context", "batch"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"{name} of a simulation", seen=repr(value), allowed=">= 1")


@dataclass(frozen=True)
class Calibration:
    """What data sheets do not say, fitted or left at its defaults.

    rho: routing overlap (harness.simulate.overlap). target_ms: added to every pass of the target.
    tree_ms: added to its passes over a tree alone (masks, captured states). draft_ms: added to the
    drafting of every step. scale: factor on a speculative step as a whole.
    """

    rho: float = 0.2
    target_ms: float = 0.0
    tree_ms: float = 0.0
    draft_ms: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Term:
    """One summand of C(k): ms float64 [N] for k = 1..N, its stage, and what limits it."""

    name: str
    stage: str
    ms: Floats
    bound: str


@dataclass(frozen=True, eq=False)
class StepCost:
    """A step's price: the terms of C(k), C_AR in ms, and the expert union U(k) behind it.

    level_ms: one level of drafting after the first, for growth that stops early; 0 if not known.
    """

    terms: Sequence[Term]
    ar_ms: float
    union: Floats
    fingerprint: dict[str, str] = field(default_factory=dict)
    level_ms: float = 0.0

    def stage_ms(self, stage: str) -> Floats:
        """Sum of one stage's terms, float64 [N]."""
        return np.asarray(sum((t.ms for t in self.terms if t.stage == stage), 0.0 * self.union))

    def step_ms(self) -> Floats:
        """C(1)..C(N), float64 [N]."""
        return np.asarray(sum(self.stage_ms(stage) for stage in STAGES))

    def cost_table(self) -> CostTable:
        """The same as the table that a profiled run would save, marked as predicted."""
        step = self.step_ms()
        return CostTable(
            step_ms=tuple(step.tolist()),
            ar_ms=self.ar_ms,
            spread_ms=(0.0,) * len(step),
            fingerprint={"predicted": "yes", **self.fingerprint},
            stage_ms={stage: tuple(self.stage_ms(stage).tolist()) for stage in STAGES},
            expert_union=tuple(self.union.tolist()),
        )

    def table(self) -> pd.DataFrame:
        """Every term at every k: columns term, stage, bound, k, predicted_ms."""
        frames = [
            pd.DataFrame({"k": np.arange(1, len(t.ms) + 1), "predicted_ms": t.ms}).assign(
                term=t.name, stage=t.stage, bound=t.bound
            )
            for t in self.terms
        ]
        columns = ["term", "stage", "bound", "k", "predicted_ms"]
        return pd.concat(frames, ignore_index=True)[columns]


def step_cost(setting: Setting, calibration: Calibration | None = None) -> StepCost:
    """C(k) = host + draft(steps, topk) + verify(k) + draft-extend, term by term."""
    fitted = calibration or Calibration()
    union = expert_unions(setting, fitted.rho)
    verify = _target_pass(setting, union, fitted.target_ms)
    tree = _flat("tree remainder", "verify", fitted.tree_ms, union, "fitted")
    terms = [*verify, tree, *_drafting(setting, fitted.draft_ms)]
    scaled = [Term(t.name, t.stage, t.ms * fitted.scale, t.bound) for t in terms]
    alone = sum(float(term.ms[0]) for term in verify)
    facts = {
        "model": setting.model.name,
        "hardware": setting.hardware.name,
        "tensor_parallel": str(setting.tensor_parallel),
        "batch_size": str(setting.batch),
    }
    return StepCost(scaled, alone, union, facts, _level_ms(setting) * fitted.scale)


def priced(table: CostTable, scale: float = 1.0) -> StepCost:
    """A profiled table as a step's price, all of it times `scale`; its stages are its terms."""
    stages = table.stage_ms or {"verify": table.step_ms}
    terms = [Term(name, name, scale * np.array(ms), "measured") for name, ms in stages.items()]
    union = np.array(table.expert_union or (0.0,) * table.draft_tokens)
    return StepCost(terms, table.ar_ms, union, dict(table.fingerprint))


def expert_unions(setting: Setting, rho: float) -> Floats:
    """U(1)..U(N): distinct experts per layer when each of `batch` requests verifies k tokens."""
    model = setting.model
    return unions(model.experts, model.experts_per_token, rho, setting.draft_tokens, setting.batch)


def _target_pass(setting: Setting, union: Floats, extra_ms: float) -> list[Term]:
    tokens_N = setting.batch * np.arange(1.0, setting.draft_tokens + 1)
    parts = setting.model.parts(setting.tensor_parallel)
    terms = [_part(setting, part, tokens_N, union) for part in parts]
    cache = setting.model.attention.cache_bytes(setting.tensor_parallel) * setting.model.layers
    read = setting.hardware.move_ms(cache * setting.context * setting.batch)
    return [
        *terms,
        _flat("KV cache", "verify", read, tokens_N, "memory"),
        _flat("kernel launches", "verify", _launch_ms(setting), tokens_N, "latency"),
        _reductions(setting, tokens_N),
        _flat("target remainder", "verify", extra_ms, tokens_N, "fitted"),
    ]


def _part(setting: Setting, part: Part, tokens_N: Floats, union: Floats) -> Term:
    device = setting.hardware
    times_read = union if part.routed else np.ones_like(tokens_N)
    uses = setting.model.experts_per_token if part.routed else 1
    move = np.array([device.move_ms(part.bytes * part.count * u) for u in times_read])
    multiply = device.multiply_ms(part.flops * part.count * uses) * tokens_N
    bound = "memory" if move[-1] >= multiply[-1] else "compute"
    return Term(part.name, "verify", np.maximum(move, multiply), bound)


def _reductions(setting: Setting, tokens_N: Floats) -> Term:
    size = setting.model.attention.hidden * ACTIVATION_BYTES
    count = REDUCTIONS_PER_LAYER * setting.model.layers
    each = [setting.hardware.reduce_ms(size * t, setting.tensor_parallel) for t in tokens_N]
    return Term("all-reduce", "verify", count * np.array(each), "latency")


def _launch_ms(setting: Setting) -> float:
    model = setting.model
    routed = model.moe_layers * (ATTENTION_KERNELS + MLP_KERNELS[True])
    dense = model.dense_layers * (ATTENTION_KERNELS + MLP_KERNELS[False])
    return (routed + dense) * setting.hardware.kernel_us / 1e3


def _drafting(setting: Setting, extra_ms: float) -> list[Term]:
    k_N = np.arange(1.0, setting.draft_tokens + 1)
    host = setting.hardware.host_us / 1e3
    terms = [_flat("host", "other", host, k_N, "latency")]
    head = setting.model.draft
    if head is not None:
        levels = (setting.steps - 1) * _level_ms(setting)
        extend = _head_ms(setting, head, (setting.steps + 1) * setting.batch, extend=True)
        terms.append(_flat("draft levels", "draft", levels, k_N, "latency"))
        terms.append(_flat("draft-extend", "extend", extend, k_N, "latency"))
    return [*terms, _flat("draft remainder", "draft", extra_ms, k_N, "fitted")]


def _level_ms(setting: Setting) -> float:
    head = setting.model.draft
    tokens = setting.topk * setting.batch
    return _head_ms(setting, head, tokens, extend=False) if head else 0.0


def _head_ms(setting: Setting, head: DraftGeometry, tokens: int, *, extend: bool) -> float:
    device, tp = setting.hardware, setting.tensor_parallel
    parts = [part for part in head.parts(tp) if extend or part.name != "draft fuse"]
    work = sum(max(device.move_ms(p.bytes), device.multiply_ms(p.flops * tokens)) for p in parts)
    kernels = ATTENTION_KERNELS + MLP_KERNELS[False] + PICK_KERNELS
    reduced = REDUCTIONS_PER_LAYER * device.reduce_ms(
        head.attention.hidden * ACTIVATION_BYTES * tokens, tp
    )
    return work + kernels * device.kernel_us / 1e3 + reduced


def _flat(name: str, stage: str, ms: float, like_N: Floats, bound: str) -> Term:
    return Term(name, stage, np.full_like(like_N, ms), bound)

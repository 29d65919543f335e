"""What a model weighs: parameters per part and layer, on one of the GPUs that share it."""

from __future__ import annotations

from dataclasses import dataclass

from evict.errors import InputError

WEIGHT_BYTES = 2.0
GATED = 3
AUXILIARY_STATES = 3


@dataclass(frozen=True)
class Part:
    """A group of equal weight matrices: `count` of them with `weights` parameters each per GPU.

    Every token multiplies by all of them once, except where a router chooses (`routed`).
    """

    name: str
    count: int
    weights: float
    routed: bool = False

    @property
    def bytes(self) -> float:
        """Bytes of one of them on one GPU."""
        return self.weights * WEIGHT_BYTES

    @property
    def flops(self) -> float:
        """Floating-point operations of one of them per token on one GPU."""
        return 2.0 * self.weights


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention of one layer. `inputs`: width of what it projects from."""

    hidden: int
    inputs: int
    heads: int
    kv_heads: int
    head_dim: int

    def weights(self, tp: int) -> float:
        """Parameters of the four projections on one of `tp` GPUs; few KV heads are replicated."""
        queries = self.heads * self.head_dim / tp
        keys_values = 2 * self.kv_heads_per_gpu(tp) * self.head_dim
        return self.inputs * (queries + keys_values) + self.hidden * queries

    def kv_heads_per_gpu(self, tp: int) -> int:
        """KV heads that one of `tp` GPUs holds."""
        return max(self.kv_heads // tp, 1)

    def cache_bytes(self, tp: int) -> float:
        """Bytes of keys and values per context token and layer on one GPU."""
        return 2 * self.kv_heads_per_gpu(tp) * self.head_dim * WEIGHT_BYTES


@dataclass(frozen=True)
class DraftGeometry:
    """An EAGLE-3 head: one decoder layer over (embedding, state) and its own vocabulary."""

    attention: Attention
    mlp_size: int
    vocab_size: int
    target_hidden: int

    def parts(self, tp: int) -> list[Part]:
        """What one pass touches; `fuse` (three target states to one) runs in draft-extend only."""
        hidden = self.attention.hidden
        return [
            Part("draft fuse", 1, AUXILIARY_STATES * self.target_hidden * hidden),
            Part(
                "draft layer", 1, self.attention.weights(tp) + GATED * hidden * self.mlp_size / tp
            ),
            Part("draft lm_head", 1, hidden * self.vocab_size / tp),
        ]


@dataclass(frozen=True)
class ModelGeometry:
    """A decoder-only target. experts = 0 is a dense model: every layer is a dense one.

    expert_size, shared_size, dense_size: inner width of one expert, of all shared experts
    together and of a dense layer's MLP.
    """

    name: str
    layers: int
    attention: Attention
    experts: int
    experts_per_token: int
    expert_size: int
    shared_size: int
    dense_layers: int
    dense_size: int
    vocab_size: int
    tied: bool = False
    draft: DraftGeometry | None = None

    @property
    def moe_layers(self) -> int:
        """Layers with a router."""
        return self.layers - self.dense_layers

    def parts(self, tp: int = 1) -> list[Part]:
        """Every matrix of one forward pass on one of `tp` GPUs; InputError for an impossible tp."""
        check_split(self, tp)
        hidden = self.attention.hidden
        mlp = GATED * hidden / tp
        parts = [
            Part("attention", self.layers, self.attention.weights(tp)),
            Part("router", self.moe_layers, hidden * self.experts),
            Part("experts", self.moe_layers, mlp * self.expert_size, routed=True),
            Part("shared experts", self.moe_layers, mlp * self.shared_size),
            Part("dense layers", self.dense_layers, mlp * self.dense_size),
            Part("lm_head", 1, hidden * self.vocab_size / tp),
        ]
        return [part for part in parts if part.count and part.weights]

    def total_parameters(self) -> float:
        """All parameters, embeddings included, norms left out."""
        embeddings = 0 if self.tied else self.attention.hidden * self.vocab_size
        copies = {True: max(self.experts, 1), False: 1}
        return embeddings + sum(p.count * p.weights * copies[p.routed] for p in self.parts())

    def active_parameters(self) -> float:
        """Parameters that one token multiplies by, lm_head included, the embedding look-up not."""
        chosen = {True: self.experts_per_token, False: 1}
        return sum(p.count * p.weights * chosen[p.routed] for p in self.parts())


def check_split(model: ModelGeometry, tp: int) -> None:
    """InputError unless `tp` GPUs can share the heads, the experts and the MLPs evenly."""
    attention = model.attention
    shared = {
        "attention heads": attention.heads,
        "experts": model.experts,
        "expert width": model.expert_size if model.experts else 0,
        "dense MLP width": model.dense_size if model.dense_layers else 0,
    }
    wrong = [f"{size} {name}" for name, size in shared.items() if tp < 1 or size % tp]
    few, many = sorted((attention.kv_heads, max(tp, 1)))
    if many % few:
        wrong.append(f"{attention.kv_heads} KV heads")
    if wrong:
        raise InputError(
            f"tensor parallelism that does not divide {model.name}'s " + ", ".join(wrong),
            seen=f"tensor_parallel={tp}",
            allowed="a degree that divides heads, experts and MLP widths",
            hint="tensor_parallel=1",
        )

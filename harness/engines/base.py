"""What an engine is: the protocol every backend implements, and the plain data it exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from evict.cost import CostTable
from harness.equality import NextTokens
from harness.records import StepRecord
from harness.trees import TreeRecord

Drafter = Literal["none", "eagle3", "trie"]
FinishReason = Literal["eos", "stop", "length", "context", "replayed", "simulated"]
Scores = Literal["draft", "beta", "isotonic", "verdict"]
Message = dict[str, str]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """One generation: prompt token ids and when to stop (EOS, a stop string, a length).

    With `record_trees` every step's whole tree is verified and kept in the trace, whatever the
    method's selection is; the selection still decides what is accepted.
    """

    prompt_id: str
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    temperature: float = 0.0
    turn: int = 0
    repeat: int = 0
    record_trees: bool = False
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass
class RequestTrace:
    """What came out. `output_ids` holds the committed tokens, the prefill's token first.

    `steps[i].committed` sum to `len(output_ids) - 1`: the token produced by prefill is not a
    decode token. `expert_union_layers[i]` is the union per MoE layer of step i. A replayed
    or simulated trace has steps and no output: they were evaluated one by one on recorded or drawn
    trees. cached_tokens: prompt tokens that were not computed for this request (None: the engine
    does not say). first_answer_ms: as prefill_ms, but to the first token after any reasoning.
    """

    output_ids: list[int]
    text: str
    finish_reason: FinishReason
    prefill_ms: float
    decode_ms: float
    steps: list[StepRecord] = field(default_factory=list)
    expert_union_layers: list[list[int]] = field(default_factory=list)
    trees: list[TreeRecord] = field(default_factory=list)
    cached_tokens: int | None = None
    first_answer_ms: float | None = None

    @property
    def decode_tokens(self) -> int:
        """Committed decode tokens: the sum over the steps."""
        return sum(step.committed for step in self.steps)


@dataclass(frozen=True)
class Method:
    """Plain data composed from `conf/method/*.yaml`; engines interpret it, none knows its name.

    `growth` and `selection` are objects of `evict.growth` (`evict.lookahead` for the trie drafter)
    and `evict.selection`. Vanilla has no drafter, no growth, no selection and `draft_tokens` 1.

    scores: what the selection sums. "draft": the drafter's probabilities; "beta": draft logits
    scaled by the cost table's beta before scores are formed; "isotonic": scores mapped to
    acceptance rates by the cost table's score map, tree order untouched; "verdict": what the
    target said, known in hindsight only (engine=replay).
    """

    name: str
    drafter: Drafter = "none"
    growth: Any = None
    selection: Any = None
    draft_tokens: int = 1
    lossless: bool = True
    scores: Scores = "draft"

    @property
    def speculative(self) -> bool:
        """Whether a step drafts anything."""
        return self.drafter != "none"

    @property
    def needs_cost(self) -> bool:
        """Whether a profiled cost table must be set before `generate`."""
        fitted = self.scores in ("beta", "isotonic")
        return fitted or bool(getattr(self.selection, "needs_cost", False))


@dataclass(frozen=True)
class EngineFacts:
    """The resolved configuration, read back from the engine and not from the request.

    settings: what else its times depend on (attention backend, graphs, ...), by name.
    """

    engine: str
    model: str
    dtype: str
    device: str
    threads: int
    layers: int
    experts: int
    experts_per_token: int
    context_length: int
    draft_vocab: int
    weights_hash: str
    versions: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)

    def fingerprint(self) -> dict[str, str]:
        """The facts a cost table depends on, as strings."""
        return {
            "engine": self.engine,
            "model": self.model,
            "dtype": self.dtype,
            "device": self.device,
            "threads": str(self.threads),
            "experts": str(self.experts),
            "experts_per_token": str(self.experts_per_token),
            "weights": self.weights_hash,
            **{f"version.{name}": value for name, value in sorted(self.versions.items())},
            **{f"setting.{name}": value for name, value in sorted(self.settings.items())},
        }


@dataclass(frozen=True)
class StepView:
    """One speculative step as an observer sees it (never built unless someone observes).

    `tree` is the full draft tree of N nodes in score order, `verify_length` k the verified prefix,
    `path` the accepted node indices with the root first, `next_token` the token committed after
    them. `draft_rows` pairs a drafter's logits over its vocabulary with the target's token there.
    """

    tree: Any
    verify_length: int
    path: Sequence[int]
    next_token: int
    draft_rows: Sequence[tuple[Any, int]]


Observer = Callable[[StepView], None]


class EngineLost(Exception):
    """The engine's process crashed, ran out of memory or hung; the next call starts a new one.

    It ends the cell that was being measured, no other.
    """


class Engine(Protocol):
    """A backend that decodes with any `Method` and reports what each step did and cost.

    timed: whether its times are measured; if not, they come from a cost table, which every method
    then needs. observable: whether `generate` takes an observer. own_costs: tables that came with
    what it reads.
    """

    timed: bool
    observable: bool
    own_costs: Sequence[CostTable]

    def describe(self) -> EngineFacts: ...

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the chat template with the generation prompt appended."""
        ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace: ...

    def set_cost(self, cost: CostTable | None) -> None: ...

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        """Positions of the methods that can take turns request by request, in parts.

        One part where nothing has to be restarted between methods.
        """
        ...

    def forget(self) -> None:
        """Drop what earlier requests left behind: tries kept across requests, prefix caches."""
        ...

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """Records of at least `steps` steps of `method`, warm-up steps dropped, EOS ignored."""
        ...

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        """The target's two likeliest next tokens after `ids`; None where the engine cannot tell."""
        ...

    def read_back(self, method: Method) -> dict[str, str]:
        """What this method really runs with beyond `describe`, by dotted name; {} for nothing."""
        ...

    def carry_out(
        self,
        procedure: Callable[..., Result],
        *arguments: Any,
        progress: Callable[[str, float], None] | None = None,
    ) -> Result:
        """`procedure(engine, *arguments, progress)`, run where the engine is.

        An engine in another process needs a procedure and arguments that can be pickled.
        """
        ...

    def close(self) -> None: ...

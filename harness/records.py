"""What is written down: one step, one request, one run. The schema, and nothing else.

Units are in the names. A measurement that was not taken is None, never 0 or 1; among the times of a
step, whose columns are numbers, it is NaN in memory and null in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

SCHEMA_VERSION = 2

Status = Literal["ok", "partial", "failed"]

# Finish reasons of generations whose steps were evaluated without producing a token.
TOKENLESS = frozenset({"replayed", "simulated"})


class Plain:
    """Conversion to and from plain dicts, shared by the records below."""

    def to_dict(self) -> dict[str, Any]:
        """Field names and values, nested records included."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Keys that a later schema added are ignored; a missing key keeps its default."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{key: value for key, value in values.items() if key in known})


@dataclass(slots=True)
class StepRecord(Plain):
    """One target forward in decode, with the drafting before it.

    drafted: nodes proposed (root not counted); verified: k, root included; accepted: draft nodes
    kept; committed: tokens that reach the user. expected: S_k; expert_union: distinct experts per
    MoE layer, mean over layers. A plain decode step has drafted 0, verified 1, accepted 0.
    """

    step: int
    drafted: int
    verified: int
    accepted: int
    committed: int
    depth_drawn: int
    expected: float | None = None
    utility: float | None = None
    draft_ms: float = 0.0
    verify_ms: float = 0.0
    extend_ms: float = 0.0
    other_ms: float = 0.0
    total_ms: float = 0.0
    context_len: int = 0
    expert_union: float | None = None


@dataclass(slots=True)
class RequestRecord(Plain):
    """One generation. A failed one carries its class and message, and no timings.

    order: position of the method among those interleaved on this prompt. part: the process start
    that produced the row. engine_ms lies inside the engine, wall_ms covers the harness as well;
    started_ms, ended_ms: when the engine was asked and had answered, on the part's own clock.
    first_answer_ms: from the sending to the first token after any reasoning, where it is told.
    truncated_tokens: prompt tokens dropped by the truncation rule. cached_tokens: prompt tokens
    that the engine had computed before (None: it does not say). decode_tokens: committed decode
    tokens, the sum over the steps; prefill's token is not one of them.
    """

    prompt_id: str
    turn: int
    repeat: int
    order: int
    seed: int
    temperature: float
    input_hash: str
    input_tokens: int
    truncated_tokens: int = 0
    output_ids: list[int] = field(default_factory=list)
    text: str = ""
    decode_tokens: int | None = None
    finish_reason: str | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    engine_ms: float | None = None
    wall_ms: float | None = None
    started_ms: float | None = None
    ended_ms: float | None = None
    first_answer_ms: float | None = None
    cached_tokens: int | None = None
    part: str = ""
    error_class: str | None = None
    error_message: str | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What identifies the row inside a run: prompt, turn, repeat."""
        return (self.prompt_id, self.turn, self.repeat)


@dataclass(slots=True)
class RunResult(Plain):
    """The small summary whose presence says that a run ended; written last.

    pair_hash: the run's hash without its method, equal for runs that may be paired. settings_hash:
    equal for runs that may stand in one table. machine_hash: engine as read back and processor;
    None when the rows come from processes in which these differed.
    baseline: "plain" (no drafting), "full" (whole tree verified) or None. rank: place in a table.
    parameters: the method's settings by dotted name, after tuning; tuned: those that were tuned.
    remark: what a reader must know of the method (a trie's lifetime). scores: what the selection
    sums (see Method). recorded: trees were recorded, so no time of this run is a speed.
    source: "lab", "hub" or "file". history: whose answers later turns saw. engine_facts: the
    engine's configuration as read back.
    drafter: none, eagle3 or trie. replica: above 0 for a baseline that is measured again, to show
    what a comparison of equal arms says. fingerprint: everything that a pair must agree on, by
    dotted name, those of the method and of the drafting apart (harness.validity.fingerprint).
    warmup: one entry per part: `part`, `prompts` (input hashes), `ended_ms`, on the rows' clock.
    absent: telemetry that could not be read, and why. outputs: this run's greedy outputs against
    the plain baseline's (harness.outputs). requests_missing: generations that were never made,
    because the run ended early.
    """

    status: Status
    reasons: list[str]
    run_hash: str
    pair_hash: str
    settings_hash: str
    method_hash: str
    machine_hash: str | None
    experiment: str
    model: str
    model_label: str
    lab: bool
    method: str
    method_label: str
    rank: int
    baseline: str | None
    parameters: dict[str, Any]
    tuned: list[str]
    remark: str
    scores: str
    lossless: bool
    recorded: bool
    benchmark: str
    source: str
    temperature: float
    history: str
    repeats: int
    engine: str
    engine_facts: dict[str, Any]
    requests_ok: int
    requests_error: int
    truncated_requests: int
    engine_ms: float
    wall_ms: float
    finished_at: str
    schema_version: int = SCHEMA_VERSION
    drafter: str | None = None
    replica: int = 0
    fingerprint: dict[str, str] = field(default_factory=dict)
    warmup: list[dict[str, Any]] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    requests_missing: int = 0

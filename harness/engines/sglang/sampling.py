"""The sampling fields of a request, every one written out.

SGLang 0.5.23 reads `sampling_seed` only when started with `--enable-deterministic-inference`: each
draw then follows from (seed, position), also in tree verification. Without it the field is ignored
and draws come from one generator per process, seeded by `--random-seed`: the same requests in the
same order on a fresh server. Temperature 0 needs neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from evict.errors import InputError
from harness.engines.base import Request

OFF = {"top_p": 1.0, "top_k": -1, "min_p": 0.0}
PENALTIES_OFF = {"frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True)
class Sampling:
    """What a generation may be told; nucleus, top-k and penalties are always sent as off."""

    max_new_tokens: int
    temperature: float = 0.0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise InputError(
                "no room for a new token",
                seen=self.max_new_tokens,
                allowed=">= 1",
                hint="shorten the prompt or raise the context length",
            )
        if not 0.0 <= self.temperature < float("inf"):
            raise InputError("temperature", seen=self.temperature, allowed=">= 0, finite")

    @classmethod
    def of(cls, request: Request, seed: int | None, room: int) -> Self:
        """A request's fields; `room`: tokens that fit after the prompt (the server cuts nothing).

        A speculative server keeps `draft_tokens` of its context for itself, so for arms that can be
        compared room = context length - draft tokens - prompt length, the same for all.
        """
        return cls(
            max_new_tokens=min(request.max_new_tokens, room),
            temperature=request.temperature,
            ignore_eos=request.ignore_eos,
            stop=request.stop,
            seed=seed,
        )

    def body(self) -> dict[str, Any]:
        """`sampling_params` of a /generate body; stream_interval 1 asks for a chunk per step."""
        fields: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "ignore_eos": self.ignore_eos,
            "stream_interval": 1,
            **OFF,
            **PENALTIES_OFF,
        }
        if self.stop:
            fields["stop"] = list(self.stop)
        if self.seed is not None:
            fields["sampling_seed"] = self.seed
        return fields

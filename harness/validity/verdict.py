"""valid, invalid or unknown, with reasons that have codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

State = Literal["valid", "invalid", "unknown"]
Spoils = Literal["time", "all"]


@dataclass(frozen=True)
class Reason:
    """Why a number is in doubt. code: one of harness.validity.codes. text: with values and hint.

    state: "invalid" where the number is wrong, "unknown" where nothing shows that it is right.
    spoils: "time" leaves counts (Mat, k, experts) standing; "all" does not.
    """

    code: str
    text: str
    state: State = "invalid"
    spoils: Spoils = "all"

    def __post_init__(self) -> None:
        if self.state == "valid":
            raise ValueError(f"{self.code}: a reason is against a number, never for it")


@dataclass(frozen=True)
class Verdict:
    """All reasons against a run or a comparison; valid when there are none."""

    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, *groups: Iterable[Reason]) -> Verdict:
        """All reasons, each once, in the order found."""
        return cls(tuple(dict.fromkeys(reason for group in groups for reason in group)))

    @property
    def state(self) -> State:
        """The worst of the reasons."""
        return _worst(self.reasons)

    @property
    def counts_state(self) -> State:
        """The same for counts, which a spoiled time leaves standing."""
        return _worst([reason for reason in self.reasons if reason.spoils == "all"])

    @property
    def codes(self) -> list[str]:
        """Codes of the reasons that make the state what it is."""
        return list(dict.fromkeys(r.code for r in self.reasons if r.state == self.state))

    def text(self) -> str:
        """State and reasons in one line: "invalid: cpu_load (others used 0.6 of 2 cores)"."""
        said = [f"{reason.code} ({reason.text})" for reason in self.reasons]
        return f"{self.state}: {'; '.join(said)}" if said else self.state


def _worst(reasons: Iterable[Reason]) -> State:
    states = {reason.state for reason in reasons}
    return "invalid" if "invalid" in states else "unknown" if "unknown" in states else "valid"

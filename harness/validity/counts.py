"""Whether the counters of a run are there, and can all be true."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from harness.expert_union import check_union
from harness.validity.limits import LIMITS
from harness.validity.step_totals import OddStep
from harness.validity.verdict import Reason
from harness.validity.view import STEP_TOKENS, RunView

CONTRADICTION = "InconsistentTrace"
# How an engine's message begins when a counter is not there, or says how many experts there were.
MISSING = "missing counters"
UNION = "expert union"
NO_DRAFTER = "none"
WITH_A_VOCABULARY = frozenset({"eagle3"})


def counters_inconsistent(view: RunView) -> Iterable[Reason]:
    """Counters that contradict each other: refused ones, and any that stand in the files.

    An engine that miscounts one request is not believed in the others.
    """
    found = [one for one in _refused(view) if MISSING not in one and UNION not in one]
    found += _unequal(view)
    if view.steps.impossible is not None:
        odd = view.steps.impossible
        found.append(
            f"step {odd.step}: accepted {odd.accepted}, verified {odd.verified}, "
            f"drafted {odd.drafted} ({odd.count} such steps)"
        )
    if view.result.drafter == NO_DRAFTER and view.steps.longest > 1:
        found.append(f"the baseline is speculating: it verified {view.steps.longest} nodes a step")
    if found:
        yield Reason("counters_inconsistent", _few(found))


def counters_missing(view: RunView) -> Iterable[Reason]:
    """Requests whose steps nobody counted: absent counters are neither 0 nor 1."""
    decoded = np.nan_to_num(view.of_good("decode_tokens"), nan=1.0) > 0
    silent = int((decoded & np.isnan(view.of_good(STEP_TOKENS))).sum())
    silent += sum(MISSING in one for one in _refused(view))
    if silent:
        yield Reason("counters_missing", f"missing counters ({silent} of {len(view.good)})")


def experts_out_of_bounds(view: RunView) -> Iterable[Reason]:
    """More distinct experts than the step's tokens can choose, or fewer than one token does."""
    found = [one for one in _refused(view) if UNION in one]
    if view.steps.outside is not None:
        found.append(_union(view, view.steps.outside))
    if found:
        yield Reason("experts_out_of_bounds", _few(found))


def mat_near_one(view: RunView) -> Iterable[Reason]:
    """A trained drafter of which the target keeps next to nothing."""
    steps = view.steps
    if view.result.drafter not in WITH_A_VOCABULARY or steps.steps <= LIMITS.mat_steps:
        return
    width = steps.verified / steps.steps
    if steps.mat is None or width < LIMITS.mat_verified_nodes:
        return
    if steps.mat < LIMITS.mat_near_one_tokens_per_step:
        text = (
            f"Mat {steps.mat:.3f} over {steps.steps} steps of {width:.1f} nodes: "
            "check d2t, template, hidden-state layers"
        )
        yield Reason("mat_near_one", text, "unknown")


def partial(view: RunView) -> Iterable[Reason]:
    """Not every request that belongs to the run has an answer."""
    missing = view.result.requests_missing
    if view.result.status == "ok" and not missing:
        return
    whole = len(view.good) + missing
    said = _few(view.result.reasons) if view.result.reasons else "some requests failed"
    text = f"{int(view.good.sum())} of {whole} requests: {said}; the same command retries them"
    yield Reason("partial", text, "unknown")


def _refused(view: RunView) -> list[str]:
    """What requests were refused for because their counters contradict each other."""
    own = view.requests["error_class"] == CONTRADICTION
    return [str(message) for message in view.requests["error_message"][own]]


def _unequal(view: RunView) -> list[str]:
    """Requests whose steps do not add up to their tokens."""
    steps, told = view.of_good(STEP_TOKENS), view.of_good("decode_tokens")
    wrong = ~np.isnan(steps) & ~np.isnan(told) & (steps != told)
    return [
        f"{prompt}: steps commit {int(one)} tokens, decode returned {int(other)}"
        for prompt, one, other in zip(
            view.of_good("prompt_id")[wrong], steps[wrong], told[wrong], strict=True
        )
    ]


def _union(view: RunView, odd: OddStep) -> str:
    facts = view.result.engine_facts
    why = check_union(odd.union, facts["experts"], facts["experts_per_token"], odd.verified)
    return f"step {odd.step}: {why} ({odd.count} such steps)"


def _few(found: list[str]) -> str:
    named, rest = found[: LIMITS.named_texts], len(found) - LIMITS.named_texts
    return "; ".join(named) + (f"; and {rest} more" if rest > 0 else "")

"""Temperature 1 through SGLang's tree-sampling branch, judged by the checkpoint's probabilities.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out. Every judgement is a p-value against the exact probabilities that transformers computes:
"single" and "pairs" of all tokens, and "drafted" of the decisions between tree and bonus token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evict.sglang.session import Session
from tests.sglang.scenarios.evict import give, open_evict, table
from tests.sglang.scenarios.sampling import exact_places
from tests.sglang.scheduler import InProcess, open_scheduler
from tests.sglang.workload import stress

REQUESTS, LENGTH = 12, 50
SINGLE, PAIRED = 20, 6
POLICIES: dict[str, dict[str, Any]] = {
    "evict": {"name": "evict"},
    "k=4": {"name": "fixed_k", "k": 4},
    "full": {"name": "full"},
}
Sampled = list[tuple[list[int], list[int]]]


def evict(target: str, draft: str, folder: str) -> dict[str, Any]:
    """EVICT under several policies, then with rules that are known to be wrong."""
    from sglang.srt.speculative import eagle_utils

    from tests.sglang import acceptance, sampling

    engine, session = open_evict(target, draft, folder)
    sampling.install()
    costs = {str(batch): table(session, slope=0.08, batch=batch) for batch in (1, 4)}
    found = {}
    for name, policy in POLICIES.items():
        give(engine, session, policy, costs=costs, record_trees=True)
        found[name] = _judged_with_trees(engine, session, target)
    for rule in (acceptance.keeps_refused, acceptance.lenient):
        eagle_utils.tree_speculative_sampling_target_only = rule
        found[rule.__name__] = _judged_with_trees(engine, session, target)
    return found


def stock(target: str, draft: str) -> dict[str, Any]:
    """SGLang's own EAGLE-3, judged by its tokens alone."""
    from tests.sglang import sampling

    engine = open_scheduler("EAGLE3", Path(target), Path(draft))
    sampling.install()
    return _judged(target, _sampled(engine))


def _sampled(engine: InProcess) -> Sampled:
    prompts = stress().prompts[:REQUESTS]
    return list(zip(prompts, engine.generate(prompts, LENGTH, temperature=1.0), strict=True))


def _judged(target: str, sampled: Sampled) -> dict[str, Any]:
    """Chi-square of each token's place in its exact distribution, and of two places in a row."""
    places = exact_places(target, *zip(*sampled, strict=True))
    singles = [_bin(place, SINGLE) for place in places]
    pairs = [
        _bin(one, PAIRED) * PAIRED + _bin(two, PAIRED)
        for one, two in zip(places[0::2], places[1::2], strict=True)
    ]
    return {"single": _uniform(singles, SINGLE), "pairs": _uniform(pairs, PAIRED**2)}


def _judged_with_trees(engine: InProcess, session: Session, target: str) -> dict[str, Any]:
    sampled = _sampled(engine)
    names = [request.rid for request in engine.requests]
    engine.flush()
    records = session.take()
    return {
        **_judged(target, sampled),
        "drafted": _drafted(target, dict(zip(names, sampled, strict=True)), records),
        "k": [record["k"] for record in records],
        "accepted": [kept for record in records for kept in record["accepted"]],
    }


def _drafted(
    target: str, sampled: dict[str, tuple[list[int], list[int]]], records: list[dict[str, Any]]
) -> float:
    """p-value of how often a step's first token is a verified child of the root (normal limit).

    Each is such a child with the target's exact probability of these children.
    """
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    texts = {name: [*prompt, *output] for name, (prompt, output) in sampled.items()}
    with torch.inference_mode():
        probs = {name: model(torch.tensor([text])).logits[0] for name, text in texts.items()}
    surplus, variance = 0.0, 0.0
    for name, root, children in _decisions(records):
        if root + 1 < len(texts[name]):
            chance = float(probs[name][root].double().softmax(-1)[children].sum())
            surplus += (texts[name][root + 1] in children) - chance
            variance += chance * (1 - chance)
    return math.erfc(abs(surplus) / math.sqrt(2 * variance))


def _decisions(records: list[dict[str, Any]]) -> list[tuple[str, int, list[int]]]:
    """Request, position of the root and verified children of the root, of every step."""
    return [
        (name, root, [tokens[at] for at in range(1, record["k"]) if parents[at] == 0])
        for record in records
        for name, root, tokens, parents in zip(
            record["rids"],
            record["context"],
            record["tree"]["tokens"],
            record["tree"]["parents"],
            strict=True,
        )
    ]


def _bin(place: float, bins: int) -> int:
    return min(int(place * bins), bins - 1)


def _uniform(found: Sequence[int], bins: int) -> float:
    """p-value of a chi-square test for equal chances of all bins."""
    from scipy.stats import chisquare

    return float(chisquare([found.count(place) for place in range(bins)]).pvalue)

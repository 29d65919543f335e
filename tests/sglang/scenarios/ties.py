"""Draft trees in which every score ties, through SGLang's tree builder and through the engine.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out. `builder` needs TRITON_INTERPRET=1 in the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tests.sglang.scenarios.evict import DRAFT_TOKENS, give, open_evict
from tests.sglang.scheduler import InProcess
from tests.sglang.workload import stress

STEPS, TOPK = 4, 8
LENGTH = 8
Chances = Callable[[Tensor], Tensor]


def equal(topk_p: Tensor) -> Tensor:
    """Every child certain, were that possible: all 200 cumulative scores are 1."""
    return torch.ones_like(topk_p)


def one_hot(topk_p: Tensor) -> Tensor:
    """The best child certain, the others impossible: scores of 1 and of 0 only."""
    return torch.zeros_like(topk_p).index_fill_(-1, torch.tensor([0]), 1.0)


WIDTHS: dict[Chances, Iterable[int]] = {
    equal: range(1, DRAFT_TOKENS + 1),
    one_hot: (1, 2, 5, 6, 13, 20, 31, 32),
}


def engine(target: str, draft: str, folder: str) -> dict[str, Any]:
    """Greedy decoding at fixed k with tied scores; outputs and what the builder linked."""
    session_engine, session = open_evict(target, draft, folder)
    found: dict[str, Any] = {"prompts": chosen()}
    for chances, widths in WIDTHS.items():
        with tied(chances), watched(session_engine) as linked:
            for k in widths:
                give(session_engine, session, {"name": "fixed_k", "k": k}, record_trees=True)
                linked.clear()
                prompts = [stress().prompts[at] for at in chosen()]
                outputs = session_engine.generate(prompts, LENGTH)
                session_engine.flush()
                trees = [record["tree"] for record in session.take()]
                found[f"{chances.__name__}, k={k}"] = {
                    "outputs": outputs,
                    "linked": sorted(set(linked)),
                    "scores": sorted(
                        {one for tree in trees for row in tree["scores"] for one in row}
                    ),
                    "closed": all(closed(row) for tree in trees for row in tree["parents"]),
                }
    return found


def builder() -> dict[str, Any]:
    """All-equal trees by SGLang's Triton kernel and by the stand-in: slots linked, by k.

    stable: the first k - 1 candidates in EVICT's order. any: k - 1 of the same scores in an order
    that `torch.topk` may give as well.
    """
    import sgl_kernel
    from sglang.kernels.ops.speculative import spec_tree

    from tests.sglang.scenarios.kernels import Case, built, grown, linked

    case = Case(seed=3, requests=1, topk=TOPK, levels=STEPS, slots=DRAFT_TOKENS, certain=True)
    tree = grown(case)
    anything = torch.randperm(
        TOPK + (STEPS - 1) * TOPK**2, generator=torch.Generator().manual_seed(3)
    )
    found: dict[str, Any] = {"scores": tree.scores_Bn.unique().tolist(), "stable": [], "any": []}
    found["kernels differ"] = []
    for k in range(1, DRAFT_TOKENS + 1):
        for name, indices in (("stable", tree.indices_Bn), ("any", anything.expand(1, -1))):
            kept = indices[:, : k - 1].contiguous()
            ours = built(sgl_kernel.build_tree_kernel_efficient_cpu, tree, kept, case, 1)
            theirs = built(spec_tree.sgl_build_tree_kernel_triton, tree, kept, case, 1)
            found[name].append(linked(theirs))
            if ours != theirs:
                found["kernels differ"].append((name, k))
    return found


def chosen() -> list[int]:
    """Requests of the stress workload that are long enough, by index."""
    return [at for at, length in enumerate(stress().lengths) if length >= LENGTH][:2]


@contextmanager
def tied(chances: Chances) -> Iterator[None]:
    """SGLang's drafter keeps its tokens and gets other probabilities for them."""
    from sglang.srt.speculative import eagle_worker_v2

    stock = eagle_worker_v2.fast_topk

    def fast_topk(values: Tensor, topk: int, dim: int) -> tuple[Tensor, Tensor]:
        topk_p, topk_index = stock(values, topk, dim=dim)
        return chances(topk_p), topk_index

    eagle_worker_v2.fast_topk = fast_topk
    try:
        yield
    finally:
        eagle_worker_v2.fast_topk = stock


@contextmanager
def watched(session_engine: InProcess) -> Iterator[list[int]]:
    """Slots below the root that the builder linked, for every tree that is verified."""
    counts: list[int] = []
    worker = session_engine.worker
    verify = worker.verify

    def watching(batch: Any, *args: Any, **keywords: Any) -> Any:
        tree = batch.spec_info
        links = zip(tree.retrieve_next_token, tree.retrieve_next_sibling, strict=True)
        counts.extend(reached(first.tolist(), following.tolist()) for first, following in links)
        return verify(batch, *args, **keywords)

    worker.verify = watching
    try:
        yield counts
    finally:
        del worker.verify


def reached(first: list[int], following: list[int]) -> int:
    """Slots below the root that its links lead to."""
    count, waiting = 0, [first[0]]
    while waiting:
        slot = waiting.pop()
        if slot != -1:
            count += 1
            waiting += [first[slot], following[slot]]
    return count


def closed(parents: list[int]) -> bool:
    """Whether every parent stands before its child, hence every prefix is a tree."""
    return parents[0] == -1 and all(
        0 <= parent < place for place, parent in enumerate(parents[1:], start=1)
    )

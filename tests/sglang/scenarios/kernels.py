"""The stand-ins for tree kernels against SGLang's own Triton kernels, run by the interpreter.

Trees are grown by SGLang's own `select_top_k_tokens` from random draft distributions, or from
distributions whose probabilities are all exactly 1, where every cumulative score ties.
Needs TRITON_INTERPRET=1 in the environment.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sgl_kernel
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sglang.kernels.ops.speculative import cache_locs, reconstruct_tree, spec_tree
from sglang.srt.speculative.spec_utils import select_top_k_tokens
from sglang.srt.utils import next_power_of_2

from evict.sglang.candidates import OrderedCandidates, order_candidates

LENGTHS = torch.tensor([7, 11, 2])
PROPERTY = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Case:
    """B draft trees of `levels` levels with `topk` children a node, and the kept number of slots.

    probabilities: drawn from `seed`, or all 1 where `certain`.
    """

    seed: int
    requests: int
    topk: int
    levels: int
    slots: int
    certain: bool


def cases(certain: st.SearchStrategy[bool]) -> st.SearchStrategy[Case]:
    """Small trees of every shape: chains, single levels, whole trees."""
    return st.builds(
        Case,
        seed=st.integers(0, 2**31 - 1),
        requests=st.integers(1, 3),
        topk=st.integers(1, 4),
        levels=st.integers(1, 4),
        slots=st.integers(2, 9),
        certain=certain,
    )


@dataclass(frozen=True)
class Built:
    """What a tree builder wrote: mask (flat), positions [B * n], links [3, B, n]."""

    mask: torch.Tensor
    positions: torch.Tensor
    links: torch.Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Built) and all(
            torch.equal(getattr(self, name), getattr(other, name))
            for name in ("mask", "positions", "links")
        )


def grown(case: Case) -> OrderedCandidates:
    """The candidates of a draft run, best first; all that were drawn, or `slots - 1`."""
    generator = torch.Generator().manual_seed(case.seed)
    scores, levels = None, []
    hidden, width = torch.zeros(case.requests, 1), 1
    for level in range(case.levels):
        shape = (case.requests * width, case.topk)
        drawn = torch.rand(shape, generator=generator).sort(1, descending=True).values
        chances = torch.ones(shape) if case.certain else drawn
        tokens = torch.randint(0, 5, shape, generator=generator)
        _, hidden, scores, grew = select_top_k_tokens(
            level, chances, tokens, hidden, scores, case.topk
        )
        levels.append(grew)
        width = case.topk
    return order_candidates(*(list(part) for part in zip(*levels, strict=True)), case.slots)


def built(
    builder: Callable[..., None], tree: OrderedCandidates, kept: torch.Tensor, case: Case, mode: int
) -> Built:
    """The tree of the kept candidates (indices [B, n - 1], ascending) by one of the builders."""
    requests, slots = kept.shape[0], kept.shape[1] + 1
    lengths = LENGTHS[:requests]
    columns = int(lengths.sum()) + requests * slots if mode == 0 else requests * slots
    mask = torch.ones(slots * columns, dtype=torch.bool)
    positions = torch.zeros(requests * slots, dtype=torch.long)
    links = torch.full((3, requests, slots), -1)
    shape = (case.topk, case.levels, slots, spec_tree.TreeMaskMode(mode))
    builder(tree.parents_BP, kept, lengths, mask, positions, *links, *shape)
    return Built(mask, positions, links)


def verified(verifier: Callable[..., None], tree: Built, seed: int, longest: int) -> list[Any]:
    """What a verifier accepts of random drafts for random choices of the target."""
    generator = torch.Generator().manual_seed(seed)
    shape = tree.links.shape[1:]
    drafts, wanted = (torch.randint(0, 3, shape, generator=generator) for _ in range(2))
    predicts = torch.zeros(drafts.numel(), dtype=torch.int32)
    accepted = torch.full((shape[0], longest), -1, dtype=torch.int32)
    count = torch.zeros(shape[0], dtype=torch.int32)
    verifier(predicts, accepted, count, drafts, *tree.links, wanted)
    return [predicts.tolist(), accepted.tolist(), count.tolist()]


@PROPERTY
@given(cases(st.just(False)))
def build_and_verify(case: Case) -> None:
    """Tree build in both mask modes, then greedy verification of the built tree."""
    tree = grown(case)
    kept = tree.indices_Bn.sort(1).values
    for mode in (0, 1):
        ours = built(sgl_kernel.build_tree_kernel_efficient_cpu, tree, kept, case, mode)
        assert ours == built(spec_tree.sgl_build_tree_kernel_triton, tree, kept, case, mode)
    for seed in range(3):
        longest = case.levels + 1
        ours_verified = verified(sgl_kernel.verify_tree_greedy_cpu, ours, seed, longest)
        assert ours_verified == verified(spec_tree.verify_tree_greedy_triton, ours, seed, longest)


@PROPERTY
@given(cases(st.just(True)), st.data())
def certain_trees(case: Case, data: st.DataObject) -> None:
    """All probabilities 1: any choice builds alike, a prefix in EVICT's order loses no node."""
    tree = grown(case)
    drawn = case.topk + case.topk**2 * (case.levels - 1)
    width = data.draw(st.integers(1, tree.indices_Bn.shape[1]), label="width")
    prefix = tree.indices_Bn[:, :width].sort(1).values
    anything = torch.randperm(drawn, generator=torch.Generator().manual_seed(case.seed))[:width]
    for kept in (prefix, anything.sort().values.repeat(case.requests, 1)):
        ours = built(sgl_kernel.build_tree_kernel_efficient_cpu, tree, kept, case, 1)
        assert ours == built(spec_tree.sgl_build_tree_kernel_triton, tree, kept, case, 1)
        if kept is prefix:
            assert linked(ours) == [width] * case.requests


@PROPERTY
@given(cases(st.booleans()))
def rebuilt_from_mask(case: Case) -> None:
    """NGRAM's way: positions and links recovered from a tree's mask alone, or from any mask."""
    tree = grown(case)
    kept = tree.indices_Bn.sort(1).values
    source = built(sgl_kernel.build_tree_kernel_efficient_cpu, tree, kept, case, 1)
    generator = torch.Generator().manual_seed(case.seed)
    anything = torch.rand(source.mask.shape, generator=generator) < 0.3
    rebuilders = (
        sgl_kernel.reconstruct_indices_from_tree_mask,
        reconstruct_tree.reconstruct_indices_from_tree_mask_triton,
    )
    for mask in (source.mask, anything):
        ours, theirs = (rebuilt(rebuilder, mask, source.links) for rebuilder in rebuilders)
        assert ours == theirs
        assert mask is anything or torch.equal(ours.positions, source.positions)


def rebuilt(rebuilder: Callable[..., None], mask: torch.Tensor, like: torch.Tensor) -> Built:
    """What a rebuilder writes for trees given by a flat mask; links shaped as `like`."""
    requests, slots = like.shape[1:]
    positions, links = torch.zeros(requests * slots, dtype=torch.long), torch.full_like(like, -1)
    rebuilder(mask, LENGTHS[:requests], positions, *links, requests, slots)
    return Built(mask, positions, links)


@PROPERTY
@given(cases(st.just(False)))
def draft_branches(case: Case) -> None:
    """The cache slots each branch of a draft run reads, at every level."""
    lengths, rows = LENGTHS[: case.requests], torch.tensor([4, 0, 2])[: case.requests]
    generator = torch.Generator().manual_seed(case.seed)
    pool = torch.randperm(5 * 40, generator=generator).view(5, 40)
    shape = (case.topk, case.levels, 40)
    ours = sgl_kernel.build_draft_decode_metadata_cpu(pool, rows, lengths, *shape)
    for level in range(1, case.levels + 1):
        seen = lengths.repeat_interleave(case.topk) + level
        read = [row[:count] for row, count in zip(ours, seen.tolist(), strict=True)]
        assert torch.equal(torch.cat(read), branches_by_triton(pool, rows, lengths, case, level))


def branches_by_triton(
    pool: torch.Tensor, rows: torch.Tensor, lengths: torch.Tensor, case: Case, level: int
) -> torch.Tensor:
    """Slots of all branches at a level (from 1), one branch after the other."""
    branches, requests = case.requests * case.topk, case.requests
    ends = torch.zeros(case.levels, branches + 1, dtype=torch.long)
    slots = torch.full((case.levels, branches * 40), -1)
    positions = lengths.repeat_interleave(case.topk)
    powers = (next_power_of_2(count) for count in (requests, case.levels, branches))
    cache_locs.generate_draft_decode_kv_indices[(case.levels, requests, case.topk)](
        rows, pool, lengths, slots, ends, positions, 40, slots.shape[1], ends.shape[1], *powers, 1
    )
    count = int(lengths.sum()) * case.topk + branches * level
    return slots[level - 1, :count]


def linked(tree: Built) -> list[int]:
    """Number of draft slots that can be reached from each root by the links."""
    counts = []
    for child, sibling in zip(tree.links[1].tolist(), tree.links[2].tolist(), strict=True):
        found, open_slots = 0, [child[0]]
        while open_slots:
            slot = open_slots.pop()
            if slot != -1:
                found += 1
                open_slots += [child[slot], sibling[slot]]
        counts.append(found)
    return counts


def compare() -> dict[str, Any]:
    """Every property, by name: what failed and on which case, "" where it holds."""
    return {
        check.__name__: _outcome(check)
        for check in (build_and_verify, certain_trees, rebuilt_from_mask, draft_branches)
    }


def _outcome(check: Callable[[], None]) -> str:
    try:
        check()
    except Exception:
        return traceback.format_exc()
    return ""

"""Verification never changes what the target would have said: proved by exact enumeration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.acceptance import Accepted, Chance, GeneratorChance, greedy, sampling
from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import FixedDepth
from evict.selection import CostAware, FixedPrefix, Selection
from evict.tree import DraftTree
from tests.support.enumeration import (
    Tokens,
    next_tokens,
    outcomes,
    plain_sampling,
    total_variation,
)

Rule = Callable[[DraftTree, Tensor, Chance], Accepted]
ROOT = 0
STEPS, TOPK, DRAFT_TOKENS, LENGTH = 3, 2, 8, 3
FLAT = CostTable((1.0,) * DRAFT_TOKENS, 1.0, (0.0,) * DRAFT_TOKENS)
RISING = CostTable((1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 2.5, 3.0), 1.0, (0.0,) * DRAFT_TOKENS)


@dataclass(frozen=True)
class Language:
    """p(. | context) as a random table with some zeros, and quarters so that scores tie."""

    seed: int
    vocabulary: int
    name: str
    quarters: bool = False

    def __call__(self, context: Tokens) -> list[float]:
        source = random.Random(f"{self.name}/{self.seed}/{context}")
        if self.quarters:
            weights = [float(source.choice([0, 0, 1, 1, 2])) for _ in range(self.vocabulary)]
        else:
            kept = source.choices([0.0, 1.0], [1, 2], k=self.vocabulary)
            weights = [keep * source.random() ** 2 for keep in kept]
        if not any(weights):
            weights[source.randrange(self.vocabulary)] = 1.0
        return [weight / sum(weights) for weight in weights]


@dataclass
class LanguageDrafter:
    """Deterministic top-k of a language; equal probabilities go to the lower token id."""

    language: Language
    context: Tokens
    frontier: list[Tokens] = field(default_factory=list)

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        self.frontier = [self.context]
        return self._best(topk)

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        pairs = zip(rows_W.tolist(), tokens_W.tolist(), strict=True)
        self.frontier = [(*self.frontier[row], token) for row, token in pairs]
        return self._best(topk)

    def _best(self, topk: int) -> tuple[Tensor, Tensor]:
        probs_WV = torch.tensor([self.language(path) for path in self.frontier])
        order_WV = probs_WV.sort(dim=-1, descending=True, stable=True)
        return order_WV.indices[:, :topk], order_WV.values[:, :topk].log()


def contexts_of(tree: DraftTree, context: Tokens) -> list[Tokens]:
    tokens, parents = tree.tokens_N.tolist(), tree.parents_N.tolist()
    paths = [context]
    for node in range(1, tree.size):
        paths.append((*paths[parents[node]], tokens[node]))
    return paths


@dataclass
class Decoder:
    """Draft, select, verify: one step after another. Trees are kept per context."""

    target: Language
    draft: Language
    policy: Selection
    cost: CostTable
    rule: Rule = sampling
    verified: dict[Tokens, tuple[DraftTree, Tensor]] = field(default_factory=dict)

    def step(self, context: Tokens, chance: Chance) -> Tokens:
        if context not in self.verified:
            self.verified[context] = self._draft(context)
        tree, probs_kV = self.verified[context]
        accepted = self.rule(tree, probs_kV, chance)
        assert_path_inside(tree, accepted.path)
        return (*(int(tree.tokens_N[i]) for i in accepted.path[1:]), accepted.next_token)

    def _draft(self, context: Tokens) -> tuple[DraftTree, Tensor]:
        candidates = FixedDepth(STEPS, TOPK).grow(LanguageDrafter(self.draft, context))
        whole = DraftTree.build(ROOT, candidates, DRAFT_TOKENS)
        k = int(self.policy.bind(self.cost, DRAFT_TOKENS)(whole.expected()))
        tree = whole.prefix(k)
        rows = [self.target(path) for path in contexts_of(tree, context)]
        return tree, torch.tensor(rows, dtype=torch.float64)


def assert_path_inside(tree: DraftTree, path: list[int]) -> None:
    parents = tree.parents_N.tolist()
    assert path[0] == 0
    assert len(path) <= tree.size
    assert [parents[node] for node in path[1:]] == path[:-1]


def distance_to_target(decoder: Decoder) -> float:
    spoken = next_tokens(decoder.step, LENGTH)
    assert sum(spoken.values()) == pytest.approx(1.0, abs=1e-9)
    return total_variation(spoken, plain_sampling(decoder.target, LENGTH))


POLICIES = [
    *(pytest.param(FixedPrefix(k), FLAT, id=f"k={k}") for k in range(1, DRAFT_TOKENS + 1)),
    pytest.param(CostAware(), FLAT, id="flat"),
    pytest.param(CostAware(), RISING, id="rising"),
    pytest.param(CostAware(count_root=False), RISING, id="rising-no-root"),
]


@pytest.mark.parametrize("vocabulary", [3, 4, 5])
@pytest.mark.parametrize("quarters", [False, True], ids=["random", "tied"])
@pytest.mark.parametrize(("policy", "cost"), POLICIES)
def test_sampling_is_distributed_as_the_target(
    policy: Selection, cost: CostTable, quarters: bool, vocabulary: int
) -> None:
    for seed in range(2):
        target = Language(seed, vocabulary, "target", quarters)
        draft = Language(seed, vocabulary, "draft", quarters)
        assert distance_to_target(Decoder(target, draft, policy, cost)) < 1e-12


def test_the_cost_aware_cases_cut_at_many_lengths_and_meet_ties() -> None:
    """Otherwise the cases above would prove no more than one fixed prefix does."""
    prices = torch.tensor(RISING.step_ms, dtype=torch.float64)
    lengths, ties = set(), 0
    for seed, token in itertools.product(range(2), range(4)):
        drafter = LanguageDrafter(Language(seed, 4, "draft", quarters=True), (token,))
        tree = DraftTree.build(ROOT, FixedDepth(STEPS, TOPK).grow(drafter), DRAFT_TOKENS)
        utility = tree.expected() / prices
        lengths.add(int(CostAware().bind(RISING, DRAFT_TOKENS)(tree.expected())))
        ties += int((utility == utility.max()).sum() > 1)
    assert len(lengths) >= 3
    assert ties >= 1


def test_a_drafter_that_is_the_target_is_not_special() -> None:
    target = Language(4, 4, "target")
    assert distance_to_target(Decoder(target, target, CostAware(), RISING)) < 1e-12


def without_renormalising(tree: DraftTree, probs_kV: Tensor, chance: Chance) -> Accepted:
    """Wrong: after a rejection the next sibling is still accepted with its original mass."""
    return _walk(tree, probs_kV, chance, renormalise=False, remove=True)


def without_removing(tree: DraftTree, probs_kV: Tensor, chance: Chance) -> Accepted:
    """Wrong: a rejected token keeps its mass."""
    return _walk(tree, probs_kV, chance, renormalise=True, remove=False)


def _walk(
    tree: DraftTree, probs_kV: Tensor, chance: Chance, *, renormalise: bool, remove: bool
) -> Accepted:
    tokens, parents = tree.tokens_N.tolist(), tree.parents_N.tolist()
    path = [0]
    while True:
        p = probs_kV[path[-1]].clone()
        for child in [i for i, parent in enumerate(parents) if parent == path[-1]]:
            if chance.accept(float(p[tokens[child]])):
                path.append(child)
                break
            if remove:
                p[tokens[child]] = 0.0
            if renormalise:
                p = p / p.sum()
        else:
            return Accepted(path, chance.draw(p / p.sum()))


@pytest.mark.parametrize("rule", [without_renormalising, without_removing])
def test_the_enumeration_notices_a_wrong_rule(rule: Rule) -> None:
    target, draft = Language(0, 4, "target"), Language(0, 4, "draft")
    decoder = Decoder(target, draft, FixedPrefix(DRAFT_TOKENS), FLAT, rule)
    assert distance_to_target(decoder) > 1e-3


def test_the_enumeration_notices_a_cut_that_looks_at_the_target() -> None:
    """Wrong: cutting the tree to its root once a draft token is known to be accepted."""

    def peeking(tree: DraftTree, probs_kV: Tensor, chance: Chance) -> Accepted:
        accepted = sampling(tree, probs_kV, chance)
        return accepted if len(accepted.path) == 1 else sampling(tree, probs_kV[:1], chance)

    target, draft = Language(0, 4, "target"), Language(0, 4, "draft")
    decoder = Decoder(target, draft, FixedPrefix(DRAFT_TOKENS), FLAT, peeking)
    assert distance_to_target(decoder) > 1e-3


def star(tokens: list[int]) -> DraftTree:
    """A root with one child for each token, in that order."""
    return DraftTree(
        tokens_N=torch.tensor([ROOT, *tokens]),
        parents_N=torch.tensor([-1] + [0] * len(tokens)),
        depths_N=torch.tensor([0] + [1] * len(tokens)),
        scores_N=torch.tensor([1.0] + [0.1] * len(tokens)),
    )


def committed(tree: DraftTree, accepted: Accepted) -> int:
    return int(tree.tokens_N[accepted.path[1]]) if len(accepted.path) > 1 else accepted.next_token


def test_a_token_drafted_twice_is_offered_once() -> None:
    p = [0.5, 0.3, 0.2]
    probs = torch.tensor([p] * 4, dtype=torch.float64)
    tree = star([1, 1, 0])
    spoken = [0.0] * 3
    for accepted, probability in outcomes(lambda chance: sampling(tree, probs, chance)):
        assert accepted.path != [0, 2]
        spoken[committed(tree, accepted)] += probability
    assert spoken == pytest.approx(p, abs=1e-15)


def test_children_are_offered_in_score_order() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.offered: list[float] = []

        def accept(self, p: float) -> bool:
            self.offered.append(p)
            return False

        def draw(self, p_V: Tensor) -> int:
            self.rest = p_V.tolist()
            return 3

    recorder = Recorder()
    probs = torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3, dtype=torch.float64)
    sampling(star([2, 0]), probs, recorder)
    assert recorder.offered == pytest.approx([0.3, 0.1 / 0.7])
    assert recorder.rest == pytest.approx([0.0, 0.2 / 0.6, 0.0, 0.4 / 0.6])


def test_sampling_leaves_its_input_alone() -> None:
    probs = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    before = probs.clone()
    list(outcomes(lambda chance: sampling(star([0, 1]), probs, chance)))
    assert torch.equal(probs, before)


def test_float32_rows_are_normalised_in_float64() -> None:
    """A single-token target must accept it always, although float32 sums miss 1."""
    row = torch.rand(1000, generator=torch.Generator().manual_seed(0)).softmax(0)
    results = list(outcomes(lambda chance: sampling(star([5]), row.expand(2, -1), chance)))
    assert sum(probability for _, probability in results) == pytest.approx(1.0, abs=1e-12)


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_greedy_walks_the_argmax(data: st.DataObject) -> None:
    seed, k = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, DRAFT_TOKENS))
    quarters = data.draw(st.booleans())
    target, draft = (Language(seed, 3, name, quarters) for name in ("target", "draft"))
    candidates = FixedDepth(STEPS, TOPK).grow(LanguageDrafter(draft, ()))
    tree = DraftTree.build(ROOT, candidates, DRAFT_TOKENS)
    contexts = contexts_of(tree, ())[:k]
    argmax = [int(torch.tensor(target(path)).argmax()) for path in contexts]
    spoken: Tokens = ()
    while spoken in contexts:
        spoken = (*spoken, argmax[contexts.index(spoken)])
    for verified in (tree, tree.prefix(k)):
        accepted = greedy(verified, torch.tensor(argmax))
        assert_path_inside(tree.prefix(k), accepted.path)
        tokens = [int(tree.tokens_N[i]) for i in accepted.path[1:]]
        assert (*tokens, accepted.next_token) == spoken


def test_greedy_is_sampling_from_a_certain_target() -> None:
    tree = star([2, 1])
    argmax = torch.tensor([1, 0, 2])
    probs = torch.nn.functional.one_hot(argmax, 3).double()
    [(sampled, probability)] = outcomes(lambda chance: sampling(tree, probs, chance))
    assert probability == 1.0
    assert sampled == greedy(tree, argmax) == Accepted([0, 2], 2)


def test_rows_beyond_the_tree_are_refused() -> None:
    with pytest.raises(InputError, match=r"seen: 3; allowed: 1\.\.2"):
        greedy(star([1]), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(InputError, match=r"seen: 0; allowed: 1\.\.2"):
        sampling(star([1]), torch.ones(0, 3), GeneratorChance(torch.Generator()))


def test_generator_chance_repeats_with_its_seed_and_respects_certainty() -> None:
    p = torch.tensor([0.0, 0.6, 0.4, 0.0], dtype=torch.float64)

    def run(seed: int) -> list[tuple[bool, int]]:
        chance = GeneratorChance(torch.Generator().manual_seed(seed))
        return [(chance.accept(0.5), chance.draw(p)) for _ in range(200)]

    assert run(1) == run(1) != run(2)
    assert {token for _, token in run(3)} == {1, 2}
    chance = GeneratorChance(torch.Generator().manual_seed(0))
    assert all(chance.accept(1.0) for _ in range(200))
    assert not any(chance.accept(0.0) for _ in range(200))


def test_generator_chance_has_the_stated_frequencies() -> None:
    chance = GeneratorChance(torch.Generator().manual_seed(0))
    n = 4000
    assert sum(chance.accept(0.3) for _ in range(n)) / n == pytest.approx(0.3, abs=0.03)
    p = torch.tensor([0.2, 0.7, 0.1])
    drawn = [chance.draw(p) for _ in range(n)]
    assert [drawn.count(v) / n for v in range(3)] == pytest.approx([0.2, 0.7, 0.1], abs=0.03)


def test_case_12_accepted_verified_drafted() -> None:
    """In every branch of a truncated step: accepted <= verified <= drafted, along a root path."""
    target, draft = Language(12, 4, "target"), Language(12, 4, "draft")
    candidates = FixedDepth(STEPS, TOPK).grow(LanguageDrafter(draft, ()))
    drafted = DraftTree.build(ROOT, candidates, DRAFT_TOKENS)
    probs = torch.tensor([target(c) for c in contexts_of(drafted, ())], dtype=torch.float64)
    for k in range(1, DRAFT_TOKENS + 1):
        verified = drafted.prefix(k)
        for accepted, _ in outcomes(lambda chance, k=k: sampling(drafted, probs[:k], chance)):  # type: ignore[misc]
            assert_path_inside(verified, accepted.path)
            assert len(accepted.path) <= verified.size <= drafted.size


TARGET_30, DRAFT_30 = (0.6, 0.3, 0.1), (0.2, 0.5, 0.3)


def one_draft(accept: list[float], residuals: list[list[float]]) -> tuple[list[float], float]:
    """Output and acceptance when token i, drafted with q_i, meets accept[i] or residuals[i]."""
    output, acceptance = [0.0] * 3, 0.0
    for i, q in enumerate(DRAFT_30):
        output[i] += q * accept[i]
        acceptance += q * accept[i]
        for j in range(3):
            output[j] += q * (1 - accept[i]) * residuals[i][j]
    return output, acceptance


def normalised(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def test_case_30_sampling_correction() -> None:
    p, q = list(TARGET_30), list(DRAFT_30)
    ratio = [min(1.0, p[i] / q[i]) for i in range(3)]
    surplus = normalised([max(0.0, p[i] - q[i]) for i in range(3)])
    without = [normalised([p[j] * (j != i) for j in range(3)]) for i in range(3)]

    output, acceptance = one_draft(ratio, [surplus] * 3)
    assert [*output, acceptance] == pytest.approx([*p, 0.60])
    output, acceptance = one_draft(p, without)
    assert [*output, acceptance] == pytest.approx([*p, 0.30])
    mixed, _ = one_draft(ratio, without)
    assert mixed == pytest.approx([0.505, 0.367, 0.129], abs=6e-4)
    kept, _ = one_draft(ratio, [p] * 3)
    assert kept == pytest.approx([0.44, 0.42, 0.14])

    # What the package does with each drafted token is the second line, and so lossless.
    ours, ours_acceptance = [0.0] * 3, 0.0
    probs = torch.tensor([p, p], dtype=torch.float64)
    for i in range(3):
        tree = star([i])
        for accepted, probability in outcomes(lambda chance, t=tree: sampling(t, probs, chance)):  # type: ignore[misc]
            ours[committed(tree, accepted)] += q[i] * probability
            ours_acceptance += q[i] * probability * (len(accepted.path) - 1)
    assert ours == pytest.approx(p, abs=1e-15)
    assert ours_acceptance == pytest.approx(0.30, abs=1e-15)

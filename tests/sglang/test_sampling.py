"""Temperature 1: what a step commits is distributed as plain sampling, and the tests would notice.

The rule is shown exact by enumeration; the engine around it (trees, masks, positions, k, caches) by
a goodness-of-fit test against the exact probabilities of transformers.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sglang.acceptance import QUARTERS, Rule, Tree, keeps_refused, law, lenient, lossless_law
from tests.sglang.checkpoints import Pair
from tests.sglang.process import run_scenario
from tests.sglang.sampling import sample_tree
from tests.sglang.scenarios import temperature

VOCABULARY = 4
LIKELY, IMPOSSIBLE = 1e-3, 1e-6


@pytest.fixture(scope="module")
def sampled(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("sampled")
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": folder}
    return run_scenario(temperature.evict, arguments)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to 3 inner slots below which siblings differ; every prefix is a tree."""
    tokens, parents = [0], [-1]
    for _ in range(draw(st.integers(0, 7))):
        inner = {parent for parent in parents if parent >= 0}
        parent = draw(st.integers(0, len(tokens) - 1))
        if parent not in inner and len(inner) == 3:
            parent = max(inner)
        taken = {tokens[at] for at, above in enumerate(parents) if above == parent}
        free = sorted(set(range(VOCABULARY)) - taken)
        if free:
            tokens.append(draw(st.sampled_from(free)))
            parents.append(parent)
    drawn = st.lists(st.integers(0, VOCABULARY - 1), min_size=QUARTERS, max_size=QUARTERS)
    rows = [draw(drawn) for _ in tokens]
    quarters = tuple(tuple(row.count(token) for token in range(VOCABULARY)) for row in rows)
    return Tree(tuple(tokens), tuple(parents), quarters)


@given(trees(), st.data())
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_the_rule_is_lossless_on_every_prefix_of_every_tree(
    tree: Tree, data: st.DataObject
) -> None:
    kept = tree.prefix(data.draw(st.integers(1, len(tree.tokens))))
    assert law(sample_tree, kept) == lossless_law(kept)


@pytest.mark.parametrize("rule", [keeps_refused, lenient])
def test_a_wrong_rule_has_another_law(rule: Rule) -> None:
    tree = Tree(
        (0, 1, 2, 3), (-1, 0, 0, 1), ((1, 1, 1, 1), (2, 1, 0, 1), (4, 0, 0, 0), (0, 0, 2, 2))
    )
    assert law(sample_tree, tree) == lossless_law(tree)
    assert law(rule, tree) != lossless_law(tree)


@pytest.mark.parametrize("judged", ["single", "pairs", "drafted"])
@pytest.mark.parametrize("policy", temperature.POLICIES)
def test_evict_samples_what_the_target_would(
    sampled: dict[str, Any], policy: str, judged: str
) -> None:
    assert sampled[policy][judged] > LIKELY


def test_stock_eagle3_samples_what_the_target_would(tiny: Pair) -> None:
    found = run_scenario(temperature.stock, {"target": tiny.target, "draft": tiny.draft})
    assert found["single"] > LIKELY
    assert found["pairs"] > LIKELY


def test_drafts_are_accepted_and_refused_while_sampling(sampled: dict[str, Any]) -> None:
    assert len(set(sampled["evict"]["k"])) > 3
    assert set(sampled["k=4"]["k"]) == {4}
    for policy in temperature.POLICIES:
        accepted = sampled[policy]["accepted"]
        assert 0.1 < sum(kept > 0 for kept in accepted) / len(accepted) < 0.9


@pytest.mark.parametrize("rule", ["keeps_refused", "lenient"])
def test_a_wrong_rule_is_noticed_in_the_engine(sampled: dict[str, Any], rule: str) -> None:
    assert sampled[rule]["drafted"] < IMPOSSIBLE

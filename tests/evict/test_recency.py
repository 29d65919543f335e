"""Recency retrieval takes what was used last, broader where less of the context matched."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.lookahead import Recency
from evict.tree import DraftTree
from evict.trie import Path
from tests.support.history import Requests, drafted, play

TOKENS = st.lists(st.integers(0, 3), max_size=14)
REQUESTS = st.lists(st.tuples(TOKENS, st.lists(TOKENS, max_size=3), st.booleans()), max_size=3)


def next_tokens(sequences: list[list[int]], run: Path, depth: int) -> dict[int, int]:
    """Tokens after `run`, the one seen last first, with how often they followed it."""
    if len(run) >= depth:
        return {}
    found: dict[int, int] = {}
    for sequence in sequences:
        for at in range(len(sequence) - len(run)):
            if tuple(sequence[at : at + len(run)]) == run:
                token = sequence[at + len(run)]
                found[token] = found.pop(token, 0) + 1
    return dict(reversed(found.items()))


def reference(rule: Recency, sequences: list[list[int]], context: list[int]) -> dict[Path, float]:
    """The retrieval, searching the sequences at every step."""
    draft: dict[Path, float] = {}
    scale = (rule.max_breadth - rule.min_breadth) / rule.max_match
    for matched in range(min(rule.max_match, len(context)), rule.min_match - 1, -1):
        anchor = tuple(context[-matched:])
        breadth = (rule.max_match - matched) * scale + rule.min_breadth
        level: list[tuple[Path, float, float]] = [((), breadth, 1.0)]
        while level:
            path, breadth, share = level.pop(0)
            after = next_tokens(sequences, anchor + path, rule.max_trie_depth)
            for token, count in list(after.items())[: max(1, int(breadth))]:
                longer = (*path, token)
                likely = share * count / sum(after.values())
                if longer not in draft:
                    if len(draft) == rule.draft_tokens - 1:
                        return draft
                    draft[longer] = min([likely, *draft.values()])
                level.append((longer, breadth - scale, likely))
    return draft


RULES = [
    Recency(),
    Recency(max_trie_depth=4, max_match=2, max_breadth=3, draft_tokens=8),
    Recency(max_trie_depth=6, min_match=2, max_match=3, min_breadth=2, draft_tokens=40),
    Recency(max_trie_depth=3, max_match=1, max_breadth=1, draft_tokens=3),
]


@pytest.mark.parametrize("rule", RULES)
@given(requests=REQUESTS)
@settings(max_examples=100, deadline=None)
def test_retrieval_equals_a_search_of_the_history(rule: Recency, requests: Requests) -> None:
    history = play(rule, requests)
    sequences = [[*prompt, *chain(*pushes)] for prompt, pushes, _ in requests]
    wanted = reference(rule, sequences, history.context)
    found = drafted(history.store)
    assert list(found) == list(wanted)
    assert list(found.values()) == pytest.approx(list(wanted.values()), rel=1e-5)
    order = DraftTree.build(7, history.store.retrieve(), 1 + len(found)).tokens_N[1:].tolist()
    assert order == [path[-1] for path in found], "sorting by score keeps the order of retrieval"


def test_the_last_used_comes_before_the_most_frequent() -> None:
    store = Recency(max_match=2, max_breadth=4).new_store()
    store.start([1, 5, 1, 5, 1, 5, 1, 6, 1])
    assert [path for path in drafted(store) if len(path) == 1] == [(6,), (5,)]


def test_a_finished_request_is_still_drafted_from() -> None:
    store = Recency().new_store()
    store.start([1, 2, 3])
    store.push([4, 5])
    store.finish()
    assert drafted(store) == {}
    store.start([2])
    assert list(drafted(store)) == [(3,), (3, 4), (3, 4, 5)]


def test_a_full_trie_forgets_the_oldest_and_no_more() -> None:
    """Of 400 nodes at least 350 stay; 30 requests use 6 new ones and 3 that are asked for."""
    store = Recency(max_trie_depth=4, max_match=3, capacity_nodes=400).new_store()
    for request in range(150):
        store.start([request, 1000 + request, 2000 + request])
        store.start([max(request - 30, 0)])
        assert len(drafted(store)) == 2
    store.start([1])
    assert drafted(store) == {}


@given(st.lists(st.integers(0, 5), max_size=80), st.integers(1, 30))
@settings(max_examples=60, deadline=None)
def test_any_capacity_gives_sound_drafts(tokens: list[int], capacity_nodes: int) -> None:
    store = Recency(5, max_match=3, capacity_nodes=capacity_nodes).new_store()
    store.start([])
    for at, token in enumerate(tokens):
        store.push([token])
        for path in drafted(store):
            seen = tokens[: at + 1]
            assert any(tuple(seen[i : i + len(path)]) == path for i in range(at + 1))


def test_a_tree_of_the_root_alone_drafts_nothing() -> None:
    rule = Recency(draft_tokens=1)
    assert rule.capacity == 0
    assert drafted(play(rule, [([1, 1, 1], [], False)]).store) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_match": 13}, r"min_match.*seen: 13; allowed: 1\.\.12"),
        ({"max_match": 18}, r"max_match.*seen: 18; allowed: 1\.\.17"),
        ({"min_breadth": 11}, r"min_breadth.*seen: 11; allowed: 1\.\.10"),
        ({"capacity_nodes": 0}, r"capacity_nodes.*seen: 0; allowed: a whole number >= 1"),
        ({"draft_tokens": 0}, r"draft_tokens.*seen: 0; .*try: method\.growth\.draft_tokens=12"),
        ({"lifetime": None}, r"lifetime.*seen: None; allowed: request or session"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recency(**changes)

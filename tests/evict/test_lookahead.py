"""Hierarchical retrieval drafts what followed the same tokens before, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.lookahead import Hierarchical, Recency, Retrieval
from evict.tree import DraftTree
from evict.trie import Path
from tests.support.history import History, Requests, drafted, occurrences, play

TOKENS = st.lists(st.integers(0, 2), max_size=12)
REQUESTS = st.lists(
    st.tuples(TOKENS, st.lists(TOKENS, max_size=4), st.booleans()), min_size=1, max_size=3
)


def followers(history: History, suffix: Path) -> dict[Path, tuple[int, int]]:
    """Every path that followed `suffix` within the rule's depth: counts on both sides."""
    rule, found = history.rule, {}
    for sequence in [history.prompt, *history.outputs]:
        for at in range(len(sequence) - len(suffix)):
            if tuple(sequence[at : at + len(suffix)]) == suffix:
                for size in range(1, rule.branch_length + 2 - len(suffix)):
                    path = tuple(sequence[at + len(suffix) :][:size])
                    run = suffix + path
                    counts = occurrences([history.prompt], run), occurrences(history.outputs, run)
                    found[path] = counts
    return found


def weights(rule: Hierarchical, found: dict[Path, tuple[int, int]]) -> dict[Path, float]:
    w = rule.output_weight
    return {path: (1 - w) * f_in + w * f_out for path, (f_in, f_out) in found.items()}


@pytest.mark.parametrize("rule", [Hierarchical(5, 9), Hierarchical(3, 1, 3), Recency(5, 1, 4)])
@given(requests=REQUESTS)
@settings(max_examples=60, deadline=None)
def test_drafts_continue_the_context_as_it_went_before(
    rule: Hierarchical | Recency, requests: Requests
) -> None:
    history = play(rule, requests)
    found = drafted(history.store)
    assert len(found) <= rule.capacity
    longest = getattr(rule, "max_query_length", None) or rule.max_match
    seen = [history.prompt, *history.outputs]
    if isinstance(rule, Recency):
        seen += [prompt for prompt, _, _ in requests]
    suffixes = [tuple(history.context[-m:]) for m in range(1, longest + 1) if history.context]
    for path in found:
        assert any(occurrences(seen, suffix + path) for suffix in suffixes)


@pytest.mark.parametrize("rule", [Hierarchical(5, 9), Recency(5, 1, 4, max_breadth=3)])
@given(prompt=TOKENS, output=TOKENS, cut=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_the_same_tokens_give_the_same_draft(
    rule: Retrieval, prompt: list[int], output: list[int], cut: int
) -> None:
    """However they arrive, and however often a draft is asked for on the way."""
    whole = play(rule, [(prompt, [output], False)]).store
    pieces = rule.new_store()
    pieces.start(prompt)
    for tokens in (output[:cut], output[cut:]):
        pieces.push(tokens)
        pieces.retrieve()
    assert list(drafted(whole).items()) == list(drafted(pieces).items())
    assert list(drafted(whole).items()) == list(drafted(whole).items())


@given(REQUESTS, st.integers(1, 3), st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_suffixes_back_off_until_there_are_branch_length_nodes(
    requests: Requests, query: int, branch_length: int
) -> None:
    rule = Hierarchical(max(branch_length, query), 10_000, query, output_weight=0.25)
    history = play(rule, requests)
    expected: dict[Path, float] = {}
    for size in range(min(query, len(history.context)), 0, -1):
        found = weights(rule, followers(history, tuple(history.context[-size:])))
        total = sum(weight for path, weight in found.items() if len(path) == 1)
        for path in sorted(found, key=len):
            bound = expected.get(path[:-1], 1.0)
            expected.setdefault(path, min(bound, found[path] / total))
        if len(expected) >= rule.branch_length:
            break
    assert drafted(history.store) == pytest.approx(expected, rel=1e-5)


@given(REQUESTS, st.integers(1, 12), st.sampled_from([1e-4, 0.5, 0.9]))
@settings(max_examples=150, deadline=None)
def test_half_of_the_places_are_for_the_output_side(
    requests: Requests, cap: int, output_weight: float
) -> None:
    rule = Hierarchical(4, cap, 1, output_weight)
    history = play(rule, requests)
    found = followers(history, tuple(history.context[-1:])) if history.context else {}
    weight = weights(rule, found)
    total = sum(weight[path] for path in weight if len(path) == 1)
    ranked = sorted(weight, key=lambda path: -weight[path])
    reserved = [path for path in ranked if found[path][1]][: cap // 2]
    rest = [path for path in ranked if path not in reserved][: cap - len(reserved)]
    chosen = drafted(history.store)
    wanted = sorted(weight[path] / total for path in reserved + rest)
    assert sorted(chosen.values()) == pytest.approx(wanted, rel=1e-5)
    assert sum(found[path][1] > 0 for path in chosen) >= len(reserved)


@pytest.mark.parametrize(("cap", "reserved"), [(1, 0), (8, 4), (9, 4), (40, 10)])
def test_a_long_prompt_leaves_the_output_its_places(cap: int, reserved: int) -> None:
    store = Hierarchical(1, cap, 1).new_store()
    store.start([token for other in range(100, 130) for token in (1, other)])
    store.push([token for other in range(200, 210) for token in (1, other)] + [1])
    found = drafted(store)
    assert len(found) == cap
    assert sum(path >= (200,) for path in found) == reserved


def test_the_prompt_outweighs_the_output() -> None:
    rule = Hierarchical(max_query_length=1)
    history = play(rule, [([1, 5, 0], [[1, 6], [1, 6], [1, 6], [1]], False)])
    scores = drafted(history.store)
    assert scores[(5,)] > 0.99 > 0.01 > scores[(6,)]


@pytest.mark.parametrize("rule", [Hierarchical(), Recency()], ids=["hierarchical", "recency"])
def test_repeated_text_is_drafted_to_its_end(rule: Retrieval) -> None:
    """A sentence is copied from the prompt: after two words the rest stands first in the tree."""
    sentence = list(range(10, 22))
    store = rule.new_store()
    store.start([1, 2, *sentence, 3])
    store.push(sentence[:2])
    tree = DraftTree.build(sentence[1], store.retrieve(), 9)
    assert tree.tokens_N.tolist() == sentence[1:10]
    assert tree.parents_N.tolist() == list(range(-1, 8))


def test_finish_forgets_the_prompt_and_keeps_the_output() -> None:
    store = Hierarchical(branch_length=3).new_store()
    store.start([1, 2, 0, 0, 0, 0])
    store.push([3, 4])
    store.finish()
    assert drafted(store) == {}
    store.start([1])
    assert drafted(store) == {}
    store.start([9, 3])
    assert drafted(store) == {(4,): 1.0}
    store.start([0])
    assert set(drafted(store)) >= {(3,), (3, 4)}, "the end of a prompt is what its output continues"


def test_requests_are_not_joined() -> None:
    for rule in (Hierarchical(), Recency()):
        store = rule.new_store()
        for prompt in ([1, 2], [3, 4]):
            store.start(prompt)
            store.push([prompt[1] + 10])
        store.start([12])
        assert drafted(store) == {}


def test_what_was_said_once_makes_room_for_what_is_repeated() -> None:
    store = Hierarchical(branch_length=2, max_query_length=1, max_output_node=12).new_store()
    store.start([])
    for once in range(100, 140):
        store.push([1, 5, 6, 1, once])
    store.finish()
    store.start([1])
    kept = drafted(store)
    assert max(kept, key=lambda path: kept[path]) == (5,)
    assert (5, 6) in kept
    assert len(kept) <= 12
    assert (100,) not in kept


def test_both_sides_count_towards_the_larger_bound() -> None:
    for max_node, wanted in ((20, set()), (1000, {(5,)})):
        rule = replace(Hierarchical(1, 64, 1), max_node=max_node)
        store = rule.new_store()
        store.start([token for other in range(100, 130) for token in (1, other)])
        store.push([0, 1, 5, 1])
        assert set(drafted(store)) & {(5,)} == wanted


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"branch_length": 0}, r"branch_length.*seen: 0; allowed: a whole number >= 1.*=12"),
        ({"decoding_length": 2.0}, r"decoding_length.*seen: 2\.0"),
        ({"max_node": True}, r"max_node.*seen: True"),
        ({"max_query_length": 13}, r"max_query_length.*seen: 13; allowed: 1\.\.12"),
        ({"output_weight": 0.0}, r"output_weight.*0 < output_weight < 1.*=1e-4"),
        ({"output_weight": 1.0}, r"output_weight.*seen: 1\.0"),
        ({"lifetime": "day"}, r"lifetime.*seen: 'day'; allowed: request or session"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Hierarchical(**changes)

"""A trie counts every run of tokens it was given; a draft is a tree of such runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.tree import DraftTree
from evict.trie import Draft, Node, Path, Trie

SEQUENCES = st.lists(st.lists(st.integers(0, 3), max_size=25), max_size=4)


def filled(depth: int, *sequences: list[int]) -> Trie:
    trie = Trie(depth)
    for sequence in sequences:
        trie.restart()
        for token in sequence:
            trie.push(token)
    return trie


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    for token, child in node.children.items():
        yield (*path, token), child
        yield from walk(child, (*path, token))


def runs(sequences: list[list[int]], depth: int) -> Counter[Path]:
    return Counter(
        tuple(sequence[begin:end])
        for sequence in sequences
        for begin in range(len(sequence))
        for end in range(begin + 1, min(begin + depth, len(sequence)) + 1)
    )


def assert_sound(trie: Trie, seen: Counter[Path]) -> None:
    """Sizes are what is there; only what occurred is there, no more often than its beginning."""
    nodes = dict(walk(trie.root))
    assert trie.size == len(nodes)
    assert trie.sizes == Counter(path[0] for path in nodes)
    for path, node in nodes.items():
        assert 0 < node.count <= seen[path]
        if len(path) > 1:
            assert node.count <= nodes[path[:-1]].count


@given(SEQUENCES, st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_counts_are_the_occurrences_of_every_run(sequences: list[list[int]], depth: int) -> None:
    trie = filled(depth, *sequences)
    seen = runs(sequences, depth)
    assert {path: node.count for path, node in walk(trie.root)} == seen
    assert_sound(trie, seen)
    for path in seen:
        found = trie.find(path)
        assert found is not None
        assert found.count == seen[path]
    assert trie.find([9]) is None
    assert trie.find([9, 9]) is None


@given(SEQUENCES, st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_children_are_in_order_of_their_last_use(sequences: list[list[int]], depth: int) -> None:
    last_end: dict[Path, tuple[int, int]] = {}
    for number, sequence in enumerate(sequences):
        for end in range(1, len(sequence) + 1):
            for begin in range(max(0, end - depth), end):
                last_end[tuple(sequence[begin:end])] = (number, end)
    trie = filled(depth, *sequences)
    for path, node in [((), trie.root), *walk(trie.root)]:
        children = [(*path, token) for token in node.children]
        assert children == sorted(children, key=lambda child: last_end[child])


def test_a_push_adds_one_node_to_each_open_run() -> None:
    trie, sizes = Trie(4), [0]
    for token in range(100, 120):
        trie.push(token)
        sizes.append(trie.size)
    grown = [after - before for before, after in pairwise(sizes)]
    assert grown == [1, 2, 3] + [4] * 17


def test_halving_drops_what_was_seen_once() -> None:
    trie = filled(3, [1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 5], [2, 1])
    trie.halve(1)
    below = {path: node.count for path, node in walk(trie.root) if path[0] == 1}
    assert below == {(1,): 2.5, (1, 2): 1.5, (1, 2, 4): 1.0}
    found = trie.find([2])
    assert found is not None
    assert found.count == 4
    assert_sound(trie, runs([[1, 2, 3], [1, 2, 4], [1, 2, 4], [1, 5], [2, 1]], 3))
    trie.halve(3)
    assert trie.find([3]) is None
    assert 3 not in trie.sizes


def test_halving_ends_the_runs_that_are_open() -> None:
    """Extended, the run 1 2 3 would be counted once behind a beginning counted 3/4."""
    trie, told = filled(3, [1, 2], [1, 2], [1, 2]), [[1, 2], [1, 2], [1, 2, 3]]
    trie.halve(1)
    trie.halve(1)
    trie.push(3)
    assert {path: node.count for path, node in walk(trie.root) if path[0] != 2} == {
        (1,): 0.75,
        (1, 2): 0.75,
        (3,): 1,
    }
    assert trie.find([2, 3]) is not None
    assert_sound(trie, runs(told, 3))


def test_trimming_drops_what_was_used_longest_ago() -> None:
    trie = filled(2, [1, 2], [3, 4], [1, 2])
    trie.trim(trie.size - 1)
    assert trie.find([3, 4]) is None
    assert trie.find([3]) is not None
    trie.trim(3)
    assert [path for path, _ in walk(trie.root)] == [(1,), (1, 2), (2,)]
    trie.trim(0)
    assert list(walk(trie.root)) == []
    trie.push(2)
    assert [path for path, _ in walk(trie.root)] == [(2,)], "1 2 has lost its beginning"
    assert trie.size == 1


actions = st.lists(st.integers(0, 3) | st.sampled_from(["restart", "halve", "trim"]), max_size=60)


@given(actions, st.integers(1, 5), st.integers(0, 12))
@settings(max_examples=200, deadline=None)
def test_a_trie_stays_sound_when_room_is_made_at_any_time(
    actions: list[int | str], depth: int, room: int
) -> None:
    trie, sequences = Trie(depth), [[]]
    for action in actions:
        if action == "restart":
            trie.restart()
            sequences.append([])
        elif action == "trim":
            trie.trim(room)
            assert trie.size <= room
        elif action == "halve":
            for first in list(trie.sizes):
                trie.halve(first)
        else:
            trie.push(int(action))
            sequences[-1].append(int(action))
    assert_sound(trie, runs(sequences, depth))


def test_a_draft_holds_each_path_once_up_to_its_capacity() -> None:
    draft = Draft(4)
    assert (len(draft), draft.full, draft.last) == (0, False, 1.0)
    for path, probability in [((5,), 0.5), ((5, 6), 0.25), ((5,), 0.9), ((6,), 0.4), ((5, 6), 0.1)]:
        draft.add(path, probability)
    assert (len(draft), draft.full, draft.last) == (3, False, 0.4)
    draft.add((6, 6), 0.8)
    assert draft.full
    draft.add((7,), 0.8)
    found = draft.candidates()
    assert found.tokens_M.tolist() == [5, 6, 6, 6]
    assert found.parents_M.tolist() == [-1, 0, -1, 2]
    assert found.depths_M.tolist() == [1, 2, 1, 2]
    assert found.log_scores_M.exp().tolist() == pytest.approx([0.5, 0.25, 0.4, 0.4])


def test_a_draft_without_paths_is_a_tree_without_nodes() -> None:
    found = Draft(4).candidates()
    for name, dtype in (("tokens_M", torch.int64), ("log_scores_M", torch.float32)):
        assert getattr(found, name).shape == (0,)
        assert getattr(found, name).dtype == dtype
    assert found.parents_M.dtype == found.depths_M.dtype == torch.int64
    assert DraftTree.build(7, found, 32).size == 1


def test_a_path_needs_its_beginning() -> None:
    with pytest.raises(KeyError):
        Draft(4).add((5, 6), 0.5)


def test_a_certain_path_scores_the_log_of_one() -> None:
    draft = Draft(2)
    draft.add((5,), 1.0)
    draft.add((5, 6), math.nextafter(1.0, 2.0))
    assert draft.candidates().log_scores_M.tolist() == [0.0, 0.0]

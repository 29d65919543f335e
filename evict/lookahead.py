"""Lookahead's hierarchical retrieval (arXiv 2312.12728): drafts from a trie, without a model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice

from evict.errors import InputError
from evict.recency import Recency
from evict.retrieval import Retrieval, Store, check_rule
from evict.tree import Candidates
from evict.trie import Draft, Node, Path, Trie

__all__ = ["Hierarchical", "HierarchicalStore", "Recency", "Retrieval", "Store"]

# One path on the input and on the output side; None where it did not occur there.
Sides = tuple[Node | None, Node | None]


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Drafts follow the last `max_query_length` tokens, or fewer if those give too little.

    Runs of up to `branch_length` tokens behind each token are counted in the prompt (input side,
    kept for one request) and in the output, which goes on from the end of the prompt. A suffix of
    the context gives its best nodes by f = (1 - output_weight) * f_in + output_weight * f_out, the
    best decoding_length // 2 that have an output side first; shorter suffixes add theirs until
    there are `branch_length` nodes. `decoding_length` bounds the nodes of a draft.

    A node's score is its f over the f of all that followed the same suffix, and never above its
    parent's. A token with more than `max_output_node` nodes behind it on the output side, or
    `max_node` on both, has its output counts halved, and those of 1 or less dropped.
    Raises InputError for numbers that contradict each other.
    """

    branch_length: int = 12
    decoding_length: int = 64
    max_query_length: int = 2
    output_weight: float = 1e-4
    max_node: int = 65536
    max_output_node: int = 512
    lifetime: str = "request"

    def __post_init__(self) -> None:
        check_rule(self)
        if self.max_query_length > self.branch_length:
            raise InputError(
                "max_query_length of a trie",
                seen=self.max_query_length,
                allowed=f"1..{self.branch_length}",
                hint="raise method.growth.branch_length",
            )
        if not 0 < self.output_weight < 1:
            raise InputError(
                "output_weight of a trie",
                seen=self.output_weight,
                allowed="0 < output_weight < 1",
                hint="method.growth.output_weight=1e-4",
            )

    @property
    def capacity(self) -> int:
        return self.decoding_length

    def new_store(self) -> HierarchicalStore:
        return HierarchicalStore(self)


class HierarchicalStore:
    """Two tries: the input side goes with its request, the output side stays."""

    def __init__(self, rule: Hierarchical) -> None:
        self.rule = rule
        self._output = Trie(rule.branch_length + 1)
        self._query: deque[int] = deque(maxlen=rule.max_query_length)
        self._before: list[int] = []
        self.finish()

    def start(self, prompt_ids: Sequence[int]) -> None:
        self.finish()
        for token in prompt_ids:
            self._input.push(token)
        self._before = list(prompt_ids[-self.rule.branch_length :])
        self._query.extend(prompt_ids)

    def push(self, token_ids: Sequence[int]) -> None:
        if not token_ids:
            return
        for token in [*self._before, *token_ids]:
            self._output.push(token)
            self._make_room()
        self._before = []
        self._query.extend(token_ids)

    def finish(self) -> None:
        self._input = Trie(self.rule.branch_length + 1)
        self._output.restart()
        self._before = []
        self._query.clear()

    def retrieve(self) -> Candidates:
        draft, query = Draft(self.rule.capacity), list(self._query)
        for begin in range(len(query)):
            suffix = query[begin:]
            self._expand(draft, (self._input.find(suffix), self._output.find(suffix)))
            if len(draft) >= self.rule.branch_length:
                break
        return draft.candidates()

    def _make_room(self) -> None:
        rule, sizes = self.rule, self._output.sizes
        for first in set(self._output.recent):
            both = sizes[first] + self._input.sizes[first]
            if sizes[first] > rule.max_output_node or (sizes[first] and both > rule.max_node):
                self._output.halve(first)

    def _expand(self, draft: Draft, anchor: Sides) -> None:
        total = sum(map(self._weight, _followers(anchor).values()))
        reserved = self._best_first(anchor, _on_output)
        for path, weight in islice(reserved, self.rule.decoding_length // 2):
            draft.add(path, weight / total)
        for path, weight in self._best_first(anchor, _on_either):
            if draft.full:
                break
            draft.add(path, weight / total)

    def _best_first(
        self, anchor: Sides, kept: Callable[[Sides], bool]
    ) -> Iterator[tuple[Path, float]]:
        """Paths below the anchor by falling f; the shorter, then the last used of equal ones."""
        serial = count()
        heap: list[tuple[float, int, Path, Sides]] = []

        def offer(path: Path, sides: Sides) -> None:
            for token, follower in _followers(sides).items():
                if kept(follower):
                    entry = (-self._weight(follower), next(serial), (*path, token), follower)
                    heappush(heap, entry)

        offer((), anchor)
        while heap:
            weight, _, path, sides = heappop(heap)
            yield path, -weight
            offer(path, sides)

    def _weight(self, sides: Sides) -> float:
        f_in, f_out = (side.count if side else 0.0 for side in sides)
        return (1 - self.rule.output_weight) * f_in + self.rule.output_weight * f_out


def _followers(sides: Sides) -> dict[int, Sides]:
    """Both sides of every token that followed; the output's first, the last used first."""
    inputs, outputs = (side.children if side else {} for side in sides)
    tokens = dict.fromkeys([*reversed(outputs), *reversed(inputs)])
    return {token: (inputs.get(token), outputs.get(token)) for token in tokens}


def _on_output(sides: Sides) -> bool:
    return sides[1] is not None


def _on_either(sides: Sides) -> bool:
    return True

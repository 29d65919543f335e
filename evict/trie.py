"""A counted trie of token sequences, and the draft that is read out of one."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence

import torch

from evict.tree import Candidates

Path = tuple[int, ...]


class Node:
    """One path: how often it occurred, and what followed it, the last used child last."""

    __slots__ = ("children", "count")

    def __init__(self) -> None:
        self.children: dict[int, Node] = {}
        self.count = 0.0


class Trie:
    """Every run of 1..`depth` tokens in the sequences pushed, counted as often as it occurred.

    A push costs at most `depth` dictionary steps: it extends the runs that are still open, which
    began at one of the last `depth` tokens. size: nodes in all. sizes: nodes by first token.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.root = Node()
        self.size = 0
        self.sizes: Counter[int] = Counter()
        self.recent: deque[int] = deque(maxlen=depth)
        self._open: deque[Node | None] = deque(maxlen=depth)

    def push(self, token: int) -> None:
        """Take in the next token of the present sequence."""
        self.recent.append(token)
        self._open.append(self.root)
        for at, (first, node) in enumerate(zip(self.recent, self._open, strict=True)):
            if node is not None:
                self._open[at] = self._use(node, token, first)

    def restart(self) -> None:
        """End the sequence: the next token follows nothing."""
        self.recent.clear()
        self._open.clear()

    def find(self, path: Sequence[int]) -> Node | None:
        """The node at the end of `path` from the root; None where it never occurred."""
        node: Node | None = self.root
        for token in path:
            node = node.children.get(token) if node else None
        return node

    def halve(self, first: int) -> None:
        """Of the runs that begin with `first`, drop those counted once at most, halve the rest.

        Those still open end here: a whole count behind a halved one would outweigh it.
        """
        kept = _halve(self.root.children[first])
        if not kept:
            del self.root.children[first]
        self._resize(first, kept - self.sizes[first])
        for at, token in enumerate(self.recent):
            if token == first:
                self._open[at] = None

    def trim(self, size: int) -> None:
        """Drop runs until `size` nodes are left, each time the end of the one used longest ago."""
        while self.size > size:
            parent, token = self.root, next(iter(self.root.children))
            first = token
            while parent.children[token].children:
                parent = parent.children[token]
                token = next(iter(parent.children))
            del parent.children[token]
            self._resize(first, -1)
        self._close_lost()

    def _use(self, node: Node, token: int, first: int) -> Node:
        child = node.children.pop(token, None)
        if child is None:
            child = Node()
            self._resize(first, 1)
        child.count += 1
        node.children[token] = child
        return child

    def _resize(self, first: int, change: int) -> None:
        self.size += change
        self.sizes[first] += change
        if not self.sizes[first]:
            del self.sizes[first]

    def _close_lost(self) -> None:
        """A run whose end was dropped is over: a longer one would lack its beginning."""
        recent = list(self.recent)
        for at in range(len(recent)):
            self._open[at] = self.find(recent[at:]) if self._open[at] else None


def _halve(node: Node) -> int:
    """Nodes kept, `node` included. No child is counted more often than its parent."""
    if node.count <= 1:
        return 0
    node.count /= 2
    kept = {token: _halve(child) for token, child in node.children.items()}
    node.children = {token: child for token, child in node.children.items() if kept[token]}
    return 1 + sum(kept.values())


class Draft:
    """Paths that may follow, merged into one tree: each of them once, at most `capacity`."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._index: dict[Path, int] = {(): -1}
        self._probabilities: list[float] = []

    def __len__(self) -> int:
        return len(self._probabilities)

    @property
    def full(self) -> bool:
        """Whether there is no room for another path."""
        return len(self) >= self.capacity

    @property
    def last(self) -> float:
        """Probability of the path added last, 1 before any."""
        return self._probabilities[-1] if self._probabilities else 1.0

    def add(self, path: Path, probability: float) -> None:
        """Add a path whose beginning is there; it is given no more than its beginning has.

        A path that is there keeps its probability; a full draft takes nothing.
        """
        if path in self._index or self.full:
            return
        parent = self._index[path[:-1]]
        bound = 1.0 if parent < 0 else self._probabilities[parent]
        self._index[path] = len(self)
        self._probabilities.append(min(bound, probability))

    def candidates(self) -> Candidates:
        """The paths in the order in which they were added, on the CPU; shapes [0] for none."""
        paths = list(self._index)[1:]
        parents = [self._index[path[:-1]] for path in paths]
        logs = [math.log(probability) for probability in self._probabilities]
        return Candidates(
            tokens_M=torch.tensor([path[-1] for path in paths], dtype=torch.int64),
            parents_M=torch.tensor(parents, dtype=torch.int64),
            depths_M=torch.tensor([len(path) for path in paths], dtype=torch.int64),
            log_scores_M=torch.tensor(logs, dtype=torch.float32),
        )

"""Breadth-first retrieval of what was used last, as in SGLang's n-gram drafter."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from evict.errors import InputError
from evict.retrieval import check_rule
from evict.tree import Candidates
from evict.trie import Draft, Node, Path, Trie


@dataclass(frozen=True, slots=True)
class Recency:
    """Every suffix of max_match..min_match tokens that occurred is an anchor, the longest first.

    Below an anchor of m tokens the (max_match - m) * s + min_breadth children used last are taken,
    s fewer at each level and at least one, s = (max_breadth - min_breadth) / max_match, until the
    tree has `draft_tokens` nodes, root included. Prompts and outputs are kept alike, in runs of up
    to `max_trie_depth` tokens; beyond `capacity_nodes`, an eighth of the trie is dropped.

    A node's score is the product of the shares that the nodes on its path have among their
    siblings' counts, and never above that of the node taken before it: sorting by score keeps the
    order of retrieval. Raises InputError for numbers that contradict each other.
    """

    max_trie_depth: int = 18
    min_match: int = 1
    max_match: int = 12
    min_breadth: int = 1
    max_breadth: int = 10
    draft_tokens: int = 12
    capacity_nodes: int = 10_000_000
    lifetime: str = "request"

    def __post_init__(self) -> None:
        check_rule(self)
        for name, most in (
            ("min_match", self.max_match),
            ("max_match", self.max_trie_depth - 1),
            ("min_breadth", self.max_breadth),
        ):
            if getattr(self, name) > most:
                seen = getattr(self, name)
                raise InputError(
                    f"{name} of a trie", seen=seen, allowed=f"1..{most}", hint=f"see {self}"
                )

    @property
    def capacity(self) -> int:
        return self.draft_tokens - 1

    def new_store(self) -> RecencyStore:
        return RecencyStore(self)


class RecencyStore:
    """One trie for all sequences; no side of it ends with a request."""

    def __init__(self, rule: Recency) -> None:
        self.rule = rule
        self._trie = Trie(rule.max_trie_depth)
        self._context: deque[int] = deque(maxlen=rule.max_match)

    def start(self, prompt_ids: Sequence[int]) -> None:
        self.finish()
        self.push(prompt_ids)

    def push(self, token_ids: Sequence[int]) -> None:
        capacity = self.rule.capacity_nodes
        for token in token_ids:
            self._trie.push(token)
            if self._trie.size > capacity:
                self._trie.trim(capacity - capacity // 8)
        self._context.extend(token_ids)

    def finish(self) -> None:
        self._trie.restart()
        self._context.clear()

    def retrieve(self) -> Candidates:
        draft, context = Draft(self.rule.capacity), list(self._context)
        for matched in range(len(context), self.rule.min_match - 1, -1):
            anchor = self._trie.find(context[len(context) - matched :])
            if anchor is not None:
                self._expand(draft, anchor, matched)
        return draft.candidates()

    def _expand(self, draft: Draft, anchor: Node, matched: int) -> None:
        rule = self.rule
        scale = (rule.max_breadth - rule.min_breadth) / rule.max_match
        breadth = (rule.max_match - matched) * scale + rule.min_breadth
        level: deque[tuple[Path, Node, float, float]] = deque([((), anchor, breadth, 1.0)])
        while level and not draft.full:
            path, node, breadth, probability = level.popleft()
            total = sum(child.count for child in node.children.values())
            for token in islice(reversed(node.children), max(1, int(breadth))):
                child, longer = node.children[token], (*path, token)
                share = probability * child.count / total
                draft.add(longer, min(share, draft.last))
                level.append((longer, child, breadth - scale, share))

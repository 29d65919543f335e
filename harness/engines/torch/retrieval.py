"""Draft trees from the tokens seen so far: Lookahead's trie in place of a draft model."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from evict.lookahead import Store
from evict.tree import Candidates, DraftTree
from harness.engines.base import Method


class TrieProposer:
    """Retrieves drafts from the tokens seen so far; needs nothing of the target but its tokens."""

    aux_layers: Sequence[int] = ()

    def __init__(self, store: Store, device: str) -> None:
        self.store, self.device = store, device
        self._prefilled = False

    def start(self, prompt: Sequence[int]) -> None:
        """The prompt's n-grams become candidates."""
        self.store.start(prompt)

    def extend(self, states_TF: Tensor, committed_T: Sequence[int]) -> None:
        """Take in the committed tokens; of a prompt's rows only the last token is new."""
        self.store.push(committed_T if self._prefilled else committed_T[-1:])
        self._prefilled = True

    def finish(self) -> None:
        """Forget the prompt's side of the store."""
        self.store.finish()

    def propose(self, root: int, method: Method) -> DraftTree:
        """What followed the last tokens before; the root alone where nothing matches."""
        found = self.store.retrieve()
        on_device = Candidates(
            tokens_M=found.tokens_M.to(self.device),
            parents_M=found.parents_M.to(self.device),
            depths_M=found.depths_M.to(self.device),
            log_scores_M=found.log_scores_M.to(self.device),
        )
        return DraftTree.build(root, on_device, method.draft_tokens)

    def draft_rows(
        self, tree: DraftTree, path: Sequence[int], next_token: int
    ) -> list[tuple[Tensor, int]]:
        """A trie has no logits."""
        return []

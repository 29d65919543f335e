"""Which proposer a method gets, by the kind of its drafter."""

from __future__ import annotations

from collections.abc import Callable

from evict.cost import CostTable
from evict.errors import InputError
from evict.lookahead import Retrieval, Store
from harness.engines.base import Method
from harness.engines.torch.eagle3 import Eagle3Head
from harness.engines.torch.proposer import Eagle3Proposer, NoProposer, Proposer
from harness.engines.torch.retrieval import TrieProposer

Maker = Callable[[Method, int, CostTable | None], Proposer]


class Proposers:
    """Makes a proposer for each request; keeps the tries that live across requests."""

    def __init__(self, head: Eagle3Head | None, model: str, device: str) -> None:
        self.head, self.model, self.device = head, model, device
        self._stores: dict[str, Store] = {}
        self._makers: dict[str, Maker] = {
            "none": lambda method, slots, cost: NoProposer(device),
            "eagle3": self._eagle3,
            "trie": self._trie,
        }

    def make(self, method: Method, slots: int, cost: CostTable | None) -> Proposer:
        """A proposer with room for `slots` cache rows; InputError without a fitting drafter."""
        maker = self._makers.get(method.drafter)
        if maker is None:
            raise InputError("unknown drafter", seen=method.drafter, allowed=sorted(self._makers))
        return maker(method, slots, cost)

    def forget(self) -> None:
        """Drop what earlier requests left behind."""
        self._stores.clear()

    def _eagle3(self, method: Method, slots: int, cost: CostTable | None) -> Proposer:
        if self.head is None:
            raise InputError(
                "the method drafts with an EAGLE-3 head but the model names none",
                seen=self.model,
                allowed="a model with `draft`",
                hint="method=vanilla",
            )
        scaled = method.scores == "beta" and cost is not None
        return Eagle3Proposer(self.head, slots, cost.beta if scaled and cost else 1.0)

    def _trie(self, method: Method, slots: int, cost: CostTable | None) -> Proposer:
        """A store of its own for each request, or one that lives until `forget`."""
        retrieval: Retrieval = method.growth
        if retrieval.lifetime == "request":
            return TrieProposer(retrieval.new_store(), self.device)
        store = self._stores.get(repr(retrieval))
        if store is None:
            store = self._stores[repr(retrieval)] = retrieval.new_store()
        return TrieProposer(store, self.device)

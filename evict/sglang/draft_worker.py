"""The draft side of a step: candidates in score order, k, and a verify input of k nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from evict.growth import Growth
from evict.sglang import compat
from evict.sglang.agreement import Agreement
from evict.sglang.candidates import OrderedCandidates, order_candidates
from evict.sglang.selector import PrefixSelector
from evict.sglang.verify_pool import VerifyPool


@dataclass(slots=True, eq=False)
class Drafted:
    """One step between draft and draft-extend.

    k: verify length; levels: depth of the tree; slots_bN: cache slots of N positions per request;
    root_B: last committed tokens; nodes: what was drafted, in score order (graph memory: read
    before the next step drafts).
    """

    k: int
    levels: int
    slots_bN: Tensor
    root_B: Tensor
    nodes: OrderedCandidates


class EvictDraftWorker(compat.EagleDraftWorker):  # type: ignore[misc]
    """SGLang's draft worker with three changes, each around a call to the parent.

    `draft_forward` (what the draft graph captures) leaves candidates in score order and chooses k
    on the device; `draft` reads k and builds a verify input of the first k nodes; the draft-extend
    after verification gets its N rows back. The worker sets the attributes below before the first
    forward.
    """

    growth: Growth
    selector: PrefixSelector
    pool: VerifyPool
    agree: Agreement
    drafted: Drafted | None = None
    keep_nodes: bool = False

    def prepare_selection(self, max_batch: int) -> None:
        """Allocate the selector; must precede graph capture."""
        self.selector = PrefixSelector(self.speculative_num_draft_tokens, max_batch, self.device)

    def tree_sizes(self) -> set[int]:
        """Nodes of the trees that drafting can leave, root included."""
        return {self.speculative_num_draft_tokens}

    def draft_forward(self, forward_batch: Any) -> Any:
        """The parent's draft loop, ended by `finalise`; captured by the draft graph."""
        with compat.swapped(organize_draft_results=self.finalise):
            return super().draft_forward(forward_batch)

    def finalise(
        self,
        scores: Sequence[Tensor],
        tokens: Sequence[Tensor],
        parents: Sequence[Tensor],
        draft_tokens: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """In place of SGLang's `organize_draft_results`: score order kept, k chosen on the device.

        Returns parent list, candidate indices and tokens as SGLang's tree builder takes them.
        """
        nodes = order_candidates(scores, tokens, parents, draft_tokens)
        self.selector.select(nodes.scores_Bn)
        self._levels = len(scores)
        return nodes.parents_BP, nodes.indices_Bn, nodes.tokens_Bn

    def draft(self, batch: Any, **keywords: Any) -> Any:
        """Draft one step; the returned verify input holds k nodes per request."""
        if not batch.forward_mode.is_idle():
            self.selector.prepare(len(batch.seq_lens))
        stock = compat.stock_verify_input()

        def narrow(*parts: Any, **named: Any) -> Any:
            return self._narrow(stock, *parts, **named)

        with compat.swapped(build_eagle_verify_input=narrow):
            return super().draft(batch, **keywords)

    def _narrow(
        self,
        stock: Any,
        batch: Any,
        draft_input: Any,
        parents_BP: Tensor,
        indices_Bn: Tensor,
        tokens_Bn: Tensor,
        draft_probs: Any,
        **named: Any,
    ) -> Any:
        """SGLang's verify input for the first k nodes of each tree."""
        if batch.forward_mode.is_idle():
            self.drafted = None
            return stock(
                batch, draft_input, parents_BP, indices_Bn, tokens_Bn, draft_probs, **named
            )
        self.agree(self.selector.k)
        self.selector.start_read()
        width = self.speculative_num_draft_tokens
        slots_bN = compat.slots(batch, self.req_to_token_pool.req_to_token, width)
        k = self.selector.read()
        self.pool.activate(k)
        levels = self._levels
        verify_input = stock(
            batch,
            draft_input,
            parents_BP,
            indices_Bn[:, : k - 1].contiguous(),
            tokens_Bn[:, : k - 1].contiguous(),
            draft_probs,
            **{**named, "num_draft_tokens": k, "num_steps": levels},
        )
        # The accepted path has at most k nodes; SGLang compacts spec_steps + 1 of them.
        verify_input.spec_steps = min(levels, k - 1)
        verify_input.prepared_out_cache_loc = slots_bN.view(-1, width)[:, :k].reshape(-1)
        scores_Bn = self.selector.scores_BN[: indices_Bn.shape[0], : indices_Bn.shape[1]]
        nodes = OrderedCandidates(tokens_Bn, indices_Bn, scores_Bn, parents_BP)
        if self.keep_nodes:
            nodes = nodes.copied()
        self.drafted = Drafted(k, levels, slots_bN, draft_input.bonus_tokens, nodes)
        return verify_input

    def _draft_extend_for_decode(self, batch: Any, batch_result: Any, **keywords: Any) -> None:
        """Widen the result from k to N rows per request, then as the parent does."""
        if self.drafted is not None:
            self._widen(batch, batch_result, self.drafted)
        super()._draft_extend_for_decode(batch, batch_result, **keywords)

    def _widen(self, batch: Any, result: Any, drafted: Drafted) -> None:
        width = self.speculative_num_draft_tokens
        result.next_token_ids = widened(result.next_token_ids, drafted.k, width)
        output = result.logits_output
        output.hidden_states = widened(output.hidden_states, drafted.k, width)
        result.speculative_num_draft_tokens = width
        batch.out_cache_loc = drafted.slots_bN


def widened(rows: Tensor, k: int, width: int) -> Tensor:
    """[b * k, ...] to [b * width, ...]: zero rows after the k of each request."""
    if k == width:
        return rows
    per_request = rows.unflatten(0, (-1, k))
    tail = [0, 0] * (per_request.dim() - 2)
    filled: Tensor = pad(per_request, [*tail, 0, width - k])
    return torch.flatten(filled, 0, 1)

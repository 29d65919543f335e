"""Lets a CPU engine verify by sampling; for tests only.

SGLang has no CPU kernel for it: whatever the temperature, its CPU engine accepts by argmax and says
nothing. `install` gives the scheduler's process torch versions of the three kernels and turns the
shortcut off, so that the branch that GPUs take is run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


def install() -> None:
    """Replace SGLang's missing kernels in this process; call it after `open_scheduler`."""
    from sglang.srt.speculative import eagle_utils

    def greedy_when_all_are(*, is_all_greedy: bool, **_platform: bool) -> bool:
        return is_all_greedy

    eagle_utils._verify_uses_greedy = greedy_when_all_are
    eagle_utils.tree_speculative_sampling_target_only = sample_tree
    eagle_utils.top_k_renorm_prob = keep_top_k
    eagle_utils.top_p_renorm_prob = keep_top_p


def sample_tree(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Accept children with the target's probability, draw the bonus token from what remains.

    B requests of n slots and V tokens: candidates, links and uniform_samples [B, n], target_probs
    and draft_probs [B, n, V]. Written: predicts [B * n], accept_index [B, longest path],
    accept_token_num [B], and draft_probs at rejected children.
    """
    edge_Bnn = target_probs.gather(2, candidates.long()[:, None].expand(-1, len(candidates[0]), -1))
    thresholds = (threshold_single, max(threshold_acc, 1e-9))
    for request, tokens in enumerate(candidates.tolist()):
        tree = _Tree(
            retrive_next_token[request].tolist(),
            retrive_next_sibling[request].tolist(),
            uniform_samples[request].tolist(),
            edge_Bnn[request].tolist(),
        )
        path, refused = tree.walk(accept_index.shape[1], thresholds)
        last, no = path[-1], [tokens[slot] for slot in refused]
        draft_probs[request, last, no] = target_probs[request, last, no]
        remaining_V = (target_probs[request, last] - draft_probs[request, last]).clamp_min(0)
        bonus = _draw(remaining_V, float(uniform_samples_for_final_sampling[request]))
        flat = retrive_index[request, path]
        accept_index[request, : len(path)] = flat.to(accept_index.dtype)
        accept_token_num[request] = len(path) - 1
        following = [*(tokens[slot] for slot in path[1:]), bonus]
        predicts[flat.long()] = torch.tensor(following, dtype=predicts.dtype)


def keep_top_k(probs_RV: torch.Tensor, top_k_R: torch.Tensor) -> torch.Tensor:
    """Each row's k most probable tokens, renormalised; [R, V]."""
    sorted_RV, order_RV = probs_RV.sort(-1, descending=True)
    kept_RV = torch.arange(probs_RV.shape[-1]) < top_k_R.view(-1, 1)
    return _renormalised(sorted_RV * kept_RV, order_RV)


def keep_top_p(probs_RV: torch.Tensor, top_p_R: torch.Tensor) -> torch.Tensor:
    """Each row's most probable tokens up to the one that reaches p, renormalised; [R, V]."""
    sorted_RV, order_RV = probs_RV.sort(-1, descending=True)
    kept_RV = sorted_RV.cumsum(-1) - sorted_RV < top_p_R.view(-1, 1)
    return _renormalised(sorted_RV * kept_RV, order_RV)


@dataclass(frozen=True)
class _Tree:
    """One request's tree: links by slot, a coin per slot, edge[i][j] = P(token of j after i)."""

    child: list[int]
    sibling: list[int]
    coin: list[float]
    edge: list[list[float]]

    def walk(self, longest: int, thresholds: tuple[float, float]) -> tuple[list[int], list[int]]:
        """Accepted slots from the root on, and the children refused below the last of them."""
        path = [0]
        while len(path) < longest:
            accepted, refused = self._choose(path[-1], *thresholds)
            if accepted is None:
                return path, refused
            path.append(accepted)
        return path, []

    def _choose(self, node: int, single: float, total: float) -> tuple[int | None, list[int]]:
        refused: list[int] = []
        mass, slot = 0.0, self.child[node]
        while slot != -1:
            mass += self.edge[node][slot]
            if self.coin[node] <= mass / total or self.edge[node][slot] >= single:
                return slot, refused
            refused.append(slot)
            slot = self.sibling[slot]
        return None, refused


def _draw(weights_V: torch.Tensor, coin: float) -> int:
    cumulative_V = weights_V.double().cumsum(0)
    index = torch.searchsorted(cumulative_V, coin * cumulative_V[-1], right=True)
    return min(int(index), weights_V.numel() - 1)


def _renormalised(sorted_RV: torch.Tensor, order_RV: torch.Tensor) -> torch.Tensor:
    kept_RV = torch.zeros_like(sorted_RV).scatter(-1, order_RV, sorted_RV)
    return kept_RV / kept_RV.sum(-1, keepdim=True)

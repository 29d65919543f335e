"""Greedy verification of a tree and the bookkeeping around it. B requests, n slots per tree."""

from __future__ import annotations

import torch


def verify_tree_greedy_cpu(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    target_predict: torch.Tensor,
) -> None:
    """Follow from each root the children that the target itself would have chosen.

    candidates, the links and target_predict: [B, n]. Written: predicts [B * n] (the target's token
    at each accepted slot), accept_index [B, longest path] (flat slots), accept_token_num [B].
    """
    requests = zip(
        candidates.tolist(),
        retrive_index.tolist(),
        retrive_next_token.tolist(),
        retrive_next_sibling.tolist(),
        target_predict.reshape(candidates.shape).tolist(),
        strict=True,
    )
    for request, (drafts, flat, child, sibling, wanted) in enumerate(requests):
        path = [0]
        while len(path) < accept_index.shape[1]:
            slot = child[path[-1]]
            while slot != -1 and drafts[slot] != wanted[path[-1]]:
                slot = sibling[slot]
            if slot == -1:
                break
            path.append(slot)
        for depth, slot in enumerate(path):
            accept_index[request, depth] = flat[slot]
            predicts[flat[slot]] = wanted[slot]
        accept_token_num[request] = len(path) - 1


def reconstruct_indices_from_tree_mask(
    tree_mask: torch.Tensor,
    verified_seq_len: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    batch_size: int,
    draft_token_num: int,
) -> None:
    """Positions [B * n] and links [B, n] of trees given by their masks, flat [B * n * n].

    A slot's parent is its highest proper ancestor. As in the compiled operator, a slot's first
    child is the lowest slot that has it among its ancestors.
    """
    n = draft_token_num
    above_Bnn = tree_mask.view(batch_size, n, n).bool().tril(-1)
    slots_n = torch.arange(n)
    parent_Bn = torch.where(above_Bnn, slots_n, -1).amax(2)
    follows_nn = slots_n[None, :] > slots_n[:, None]
    siblings_Bnn = (parent_Bn[:, :, None] == parent_Bn[:, None]) & follows_nn
    siblings_Bnn &= parent_Bn[:, :, None] >= 0
    positions[:] = (verified_seq_len[:, None] + above_Bnn.sum(2)).view(-1)
    retrive_index[:] = torch.arange(batch_size * n).view(batch_size, n)
    retrive_next_token[:] = _lowest(above_Bnn.transpose(1, 2))
    retrive_next_sibling[:] = _lowest(siblings_Bnn)


def fill_bonus_tokens_cpu(
    accept_tokens: torch.Tensor,
    accept_lens: torch.Tensor,
    bonus_tokens: torch.Tensor,
    accept_stride: int,
) -> None:
    """bonus_tokens [B]: the last accepted token of each request, rows are accept_stride apart."""
    last_B = torch.arange(accept_lens.numel()) * accept_stride + accept_lens.long() - 1
    bonus_tokens.copy_(accept_tokens.view(-1)[last_B])


def fill_accept_out_cache_loc_cpu(
    accept_index: torch.Tensor, out_cache_loc: torch.Tensor, accept_out_cache_loc: torch.Tensor
) -> None:
    """Cache slots of the accepted tokens, in order, at the front of accept_out_cache_loc."""
    kept = accept_index.view(-1)
    kept = kept[kept > -1].long()
    accept_out_cache_loc[: kept.numel()] = out_cache_loc[kept].to(accept_out_cache_loc.dtype)


def rotate_input_ids_cpu(*_arguments: object) -> None:
    """Multi-layer EAGLE only; SGLang imports the name at start."""
    raise NotImplementedError("stand-in: multi-layer EAGLE is not provided")


def _lowest(marked_Bnn: torch.Tensor) -> torch.Tensor:
    """Column of the first mark of each row, -1 where a row has none."""
    first_Bn = marked_Bnn.int().argmax(2)
    return torch.where(marked_Bnn.any(2), first_Bn, -1)

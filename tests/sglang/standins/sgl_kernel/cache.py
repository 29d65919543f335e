"""Bookkeeping of key/value slots: B requests, `req_to_token` maps (row, position) to a slot."""

from __future__ import annotations

import ctypes

import torch


def assign_extend_cache_locs_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Read the slots of positions start..end of every request, one after the other."""
    taken = [
        req_to_token[row, start:end]
        for row, start, end in _spans(req_pool_indices, start_offset, end_offset)
    ]
    flat = torch.cat(taken) if taken else req_to_token.new_empty(0)
    out_cache_loc[: flat.numel()] = flat.to(out_cache_loc.dtype)


def assign_req_to_token_pool_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    start_offset: torch.Tensor,
    end_offset: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
) -> None:
    """Write the slots of positions start..end of every request, taken one after the other."""
    at = 0
    for row, start, end in _spans(req_pool_indices, start_offset, end_offset):
        req_to_token[row, start:end] = out_cache_loc[at : at + end - start].to(req_to_token.dtype)
        at += end - start


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: torch.Tensor,
    req_to_token: torch.Tensor,
    seq_lens: torch.Tensor,
    out_cache_loc: torch.Tensor,
    pool_len: int,
    topk: int,
    num_steps: int,
) -> None:
    """Read the topk * num_steps slots behind every request's committed tokens."""
    positions_BW = seq_lens.long()[:, None] + torch.arange(topk * num_steps)
    slots_BW = req_to_token[req_pool_indices.long()[:, None], positions_BW]
    out_cache_loc[: slots_BW.numel()] = slots_BW.view(-1).to(out_cache_loc.dtype)


def build_draft_decode_metadata_cpu(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    topk: int,
    num_steps: int,
    pool_len: int,
) -> torch.Tensor:
    """One row of slots per draft branch, [B * topk, pool_len]: the prefix, then its own slots."""
    rows = []
    for row, seq_len in zip(req_pool_indices.tolist(), seq_lens.tolist(), strict=True):
        own = req_to_token[row, seq_len : seq_len + topk * num_steps].view(topk, num_steps)
        branches = torch.zeros(topk, pool_len, dtype=req_to_token.dtype)
        branches[:, :seq_len] = req_to_token[row, :seq_len]
        branches[:, seq_len : seq_len + num_steps] = own
        rows.append(branches)
    return torch.cat(rows)


def copy_all_layer_kv_cache_cpu(
    data_ptrs: torch.Tensor, strides: torch.Tensor, tgt_loc: torch.Tensor, src_loc: torch.Tensor
) -> None:
    """Move rows src to tgt in every buffer, given by address and row size in bytes.

    All rows of a buffer are read before one is written: source and target may overlap.
    """
    targets, sources = tgt_loc.tolist(), src_loc.tolist()
    for base, size in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(base + source * size, size) for source in sources]
        for target, row in zip(targets, rows, strict=True):
            ctypes.memmove(base + target * size, row, size)


def _spans(
    rows: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor
) -> zip[tuple[int, int, int]]:
    return zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)

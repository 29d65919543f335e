"""Building the draft tree of a verification: links, positions and the mask of ancestors.

Slot 0 of a tree is its root (the last committed token), slots 1..n-1 are the kept draft tokens in
ascending order of their index among all drawn ones. Names in shapes: B requests, n slots,
m = n - 1 kept draft tokens, P entries of the parent list.
"""

from __future__ import annotations

import torch

ROOT, UNLINKED = 0, -1
FULL_MASK, QLEN_ONLY = 0, 1


def build_tree_kernel_efficient_cpu(
    parent_list: torch.Tensor,
    selected_index: torch.Tensor,
    verified_seq_len: torch.Tensor,
    tree_mask: torch.Tensor,
    positions: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill the tree's tensors in place.

    parent_list [B, P]: drawn index of the parent of each group of topk children. selected_index
    [B, m]. tree_mask: flat; mode 0 holds blocks [n, seq_len + n] of which the last n columns are
    written, mode 1 blocks [n, n]. positions [B * n]; the three link tensors [B, n], preset to -1.
    """
    if int(tree_mask_mode) not in (FULL_MASK, QLEN_ONLY):
        raise NotImplementedError(f"stand-in tree: mask mode {tree_mask_mode}")
    n, flat_mask, start = draft_token_num, tree_mask.view(-1), 0
    for request, seq_len in enumerate(verified_seq_len.tolist()):
        parents = parent_slots(parent_list[request], selected_index[request], topk)
        ancestors_nn, depth_n = ancestry(parents, depth)
        width = n if int(tree_mask_mode) == QLEN_ONLY else seq_len + n
        flat_mask[start : start + n * width].view(n, width)[:, width - n :] = ancestors_nn
        start += n * width
        positions[request * n : (request + 1) * n] = seq_len + depth_n
        retrive_index[request] = torch.arange(request * n, (request + 1) * n)
        link_children(parents, retrive_next_token[request], retrive_next_sibling[request])


def parent_slots(parent_list_P: torch.Tensor, selected_m: torch.Tensor, topk: int) -> list[int]:
    """Slot of the parent of each slot; UNLINKED for the root and where the parent was not kept."""
    slot_of = {index: slot for slot, index in enumerate(selected_m.tolist(), start=1)}
    drawn = parent_list_P.tolist()
    groups = (selected_m // topk).tolist()
    kept = [ROOT if group == 0 else slot_of.get(drawn[group], UNLINKED) for group in groups]
    return [UNLINKED, *kept]


def ancestry(parents: list[int], depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Who sees whom, bool [n, n] (the root and oneself included), and each slot's depth [n]."""
    n = len(parents)
    sees_nn = torch.zeros(n, n, dtype=torch.bool)
    sees_nn[:, ROOT] = True
    for slot in range(1, n):
        node, steps = slot, 0
        while node > ROOT and steps < depth:
            sees_nn[slot, node] = True
            node, steps = parents[node], steps + 1
    return sees_nn, sees_nn.sum(1) - 1


def link_children(
    parents: list[int], first_child_n: torch.Tensor, next_sibling_n: torch.Tensor
) -> None:
    """Write each slot's lowest child and its next higher sibling; -1 where there is none."""
    first, sibling = [-1] * len(parents), [-1] * len(parents)
    for slot in range(len(parents) - 1, ROOT, -1):
        if parents[slot] != UNLINKED:
            sibling[slot], first[parents[slot]] = first[parents[slot]], slot
    first_child_n[:] = torch.tensor(first)
    next_sibling_n[:] = torch.tensor(sibling)

"""EAGLE-3 draft head (arXiv 2503.01840), loaded from a SpecForge-layout checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from evict.errors import InputError
from harness.engines.torch.cache import KVCache
from harness.engines.torch.config import HeadConfig, TargetConfig
from harness.engines.torch.layers import attend, interleave, rotary_table, rotate
from harness.engines.torch.weights import Checkpoint


class Eagle3Head:
    """One decoder layer over (token embedding, hidden state) pairs, with its own output layer.

    Its state at a position is what the next draft level takes as hidden state; the final norm is
    applied for the logits only.
    """

    def __init__(
        self,
        folder: Path,
        target: TargetConfig,
        embedding_VH: Tensor,
        dtype: torch.dtype,
        device: str,
    ) -> None:
        self.config = c = HeadConfig.read(folder, target)
        self.dtype, self.device = dtype, device
        if (c.vocab_size, c.target_hidden_size) != (target.vocab_size, target.hidden_size):
            raise InputError(
                "the draft head was made for another target",
                seen=f"vocabulary {c.vocab_size}, target hidden size {c.target_hidden_size}",
                allowed=f"{target.vocab_size}, {target.hidden_size}",
            )
        source = Checkpoint(folder)
        self._load(source)
        self.embedding = embedding_VH
        if "embed_tokens.weight" in source:
            shape = (c.vocab_size, c.hidden_size)
            self.embedding = source.take("embed_tokens.weight", shape, dtype, device)
        if self.embedding.shape[1] != c.hidden_size:
            raise InputError(
                "the draft head has no embedding of its own and the target's does not fit",
                seen=self.embedding.shape[1],
                allowed=c.hidden_size,
            )
        self.target_ids_D = draft_vocabulary(source, c).to(device)
        self.turns = rotary_table(target.context_length, c.head_dim, c.rope_theta, device)

    def new_cache(self, slots: int) -> KVCache:
        """An empty cache of the head's one layer."""
        c = self.config
        return KVCache(1, c.kv_heads, slots, c.head_dim, self.dtype, self.device)

    def fuse(self, states_TF: Tensor) -> Tensor:
        """The target's three hidden states [T, 3 * target hidden] -> hidden [T, H]."""
        return F.linear(states_TF, self.fc)

    def forward(
        self,
        tokens_T: Tensor,
        hidden_TH: Tensor,
        positions_T: Tensor,
        cache: KVCache,
        mask_TS: Tensor | None,
        start: int,
    ) -> Tensor:
        """State [T, H] (before the final norm); keys and values go to slots from `start` on."""
        c = self.config
        size = (c.hidden_size,)
        both = torch.cat(
            (
                F.rms_norm(F.embedding(tokens_T, self.embedding), size, self.input_norm, c.eps),
                F.rms_norm(hidden_TH, size, self.hidden_norm, c.eps),
            ),
            dim=-1,
        )
        qkv_TND = F.linear(both, self.qkv).view(len(tokens_T), -1, c.head_dim)
        qk_TND = rotate(qkv_TND[:, : c.heads + c.kv_heads], self.turns.index_select(0, positions_T))
        keys, values = cache.write(
            0, start, qk_TND[:, c.heads :], qkv_TND[:, c.heads + c.kv_heads :]
        )
        attended = attend(qk_TND[:, : c.heads], keys, values, mask_TS)
        u_TH = torch.addmm(hidden_TH, attended, self.output)
        gate, up = F.linear(F.rms_norm(u_TH, size, self.post_norm, c.eps), self.gate_up).chunk(
            2, -1
        )
        return torch.addmm(u_TH, F.silu(gate) * up, self.down)

    def logits(self, state_TH: Tensor) -> Tensor:
        """Draft-vocabulary logits [T, D] in fp32."""
        normed = F.rms_norm(state_TH, state_TH.shape[-1:], self.norm, self.config.eps)
        return F.linear(normed, self.lm_head).float()

    def _load(self, source: Checkpoint) -> None:
        c, width = self.config, 2 * self.config.hidden_size
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim

        def take(name: str, *shape: int) -> Tensor:
            return source.take(name, shape, self.dtype, self.device)

        layer, attention = "midlayer.", "midlayer.self_attn."
        self.fc = take("fc.weight", c.hidden_size, 3 * c.target_hidden_size)
        self.input_norm = take(layer + "input_layernorm.weight", c.hidden_size)
        self.hidden_norm = take(layer + "hidden_norm.weight", c.hidden_size)
        self.post_norm = take(layer + "post_attention_layernorm.weight", c.hidden_size)
        self.qkv = torch.cat(
            (
                interleave(take(attention + "q_proj.weight", q, width), c.heads),
                interleave(take(attention + "k_proj.weight", kv, width), c.kv_heads),
                take(attention + "v_proj.weight", kv, width),
            )
        )
        self.output = take(attention + "o_proj.weight", c.hidden_size, q).t().contiguous()
        self.gate_up = torch.cat(
            (
                take(layer + "mlp.gate_proj.weight", c.mlp_size, c.hidden_size),
                take(layer + "mlp.up_proj.weight", c.mlp_size, c.hidden_size),
            )
        )
        self.down = take(layer + "mlp.down_proj.weight", c.hidden_size, c.mlp_size).t().contiguous()
        self.norm = take("norm.weight", c.hidden_size)
        self.lm_head = take("lm_head.weight", c.draft_vocab_size, c.hidden_size)


def draft_vocabulary(source: Checkpoint, c: HeadConfig) -> Tensor:
    """Target id of every draft id [D]: `d2t` holds offsets, `t2d` marks the ids that are covered.

    A head without the maps must share the target's vocabulary. Every inconsistency is an
    InputError naming what disagrees (EAGLE #222, #258; SpecForge #236, #310).
    """
    size, vocab = c.draft_vocab_size, c.vocab_size
    own = torch.arange(size)
    if "d2t" not in source:
        if size != vocab:
            raise InputError(
                "the draft head has a reduced vocabulary but no d2t map",
                seen=f"draft vocabulary {size}, target {vocab}, d2t absent",
                allowed="d2t of shape [draft_vocab_size]",
            )
        return own
    ids = own + source.take("d2t", (size,), None).long()
    if int(ids.min()) < 0 or int(ids.max()) >= vocab:
        bad = int(ids.max()) if int(ids.max()) >= vocab else int(ids.min())
        raise InputError(
            "d2t maps to an id outside the target vocabulary", seen=bad, allowed=f"0..{vocab - 1}"
        )
    if len(ids.unique()) != size:
        raise InputError(
            "d2t maps two draft ids to the same target id",
            seen=f"{len(ids.unique())} distinct ids",
            allowed=f"{size} distinct ids",
        )
    if "t2d" in source:
        covered = source.take("t2d", (vocab,), None).bool()
        if int(covered.sum()) != size:
            raise InputError(
                "t2d does not mark as many ids as the draft vocabulary holds",
                seen=int(covered.sum()),
                allowed=size,
            )
        if not bool(covered[ids].all()):
            raise InputError(
                "d2t and t2d disagree",
                seen=int((~covered[ids]).sum()),
                allowed="0 ids mapped but not marked",
            )
    return ids

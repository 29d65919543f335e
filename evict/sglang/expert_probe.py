"""Which experts a verification used: SGLang's capture hook writes here, inside graphs as well.

Installed as SGLang's experts capturer, before the target's graphs are captured. It adds a copy
per MoE layer to every target forward, so count in runs that are not timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from evict.errors import InputError

UNWRITTEN = torch.iinfo(torch.int32).min


class ExpertProbe:
    """The routed experts of the latest target forward, [L, rows, topk] at a fixed address.

    layers: ids of the MoE layers as SGLang counts them, dense layers left out. experts: routed
    experts of a layer; ids outside 0..experts - 1 (padding, fused shared experts) count nowhere.
    rows: most tokens of a verification, batch times width. Row i * k + j is node j of request i.
    Raises InputError for sizes that no model has.
    """

    def __init__(
        self,
        layers: Sequence[int],
        experts: int,
        topk: int,
        rows: int,
        device: torch.device | str,
    ) -> None:
        _check_sizes(layers, experts, topk, rows)
        self.layers = tuple(layers)
        self.experts = experts
        self._row_of = {layer: index for index, layer in enumerate(self.layers)}
        with torch.inference_mode(False):
            self._ids_LRT = torch.full(
                (len(self.layers), rows, topk), UNWRITTEN, dtype=torch.int32, device=device
            )

    def arm(self) -> None:
        """Forget every row; call before the forward to be counted, outside any graph."""
        self._ids_LRT.fill_(UNWRITTEN)

    def capture(self, layer_id: int, topk_indices: Tensor) -> None:
        """SGLang: the experts [tokens, >= topk] that one layer chose; one copy, no wait.

        Only the first `rows` tokens and the first topk columns are kept: a verification has no
        more, and later columns are fused shared experts. Raises InputError for a layer that was
        not announced and for fewer columns.
        """
        index = self._row_of.get(layer_id)
        _, rows, topk = self._ids_LRT.shape
        if index is None:
            raise InputError("experts of an unknown layer", seen=layer_id, allowed=self.layers)
        if topk_indices.shape[1] < topk:
            raise InputError("too few experts", seen=topk_indices.shape[1], allowed=f">= {topk}")
        tokens = min(rows, topk_indices.shape[0])
        self._ids_LRT[index, :tokens].copy_(topk_indices[:tokens, :topk], non_blocking=True)

    def on_forward_end(
        self,
        forward_batch: object = None,
        can_run_graph: bool = False,
        cuda_graph_batch: int | None = None,
        no_copy_to_cpu: bool = False,
    ) -> None:
        """SGLang: a target forward was launched. Nothing is handed to the output processor."""

    def get_topk(
        self,
        req_pool_idx: int,
        seqlen: int,
        req_to_token_pool: object,
        start_len: int = 0,
    ) -> None:
        """SGLang: the experts of a finished request. None: they are not kept per request."""

    def destroy(self) -> None:
        """SGLang: the scheduler ends. Graphs still know the buffer's address, so it stays."""

    def unions(self, k: int, batch: int) -> Tensor:
        """Distinct experts of the first batch * k rows, int32 [L]; tensor operations only.

        0 for a layer that wrote nothing since `arm`. Raises InputError for more than `rows` rows.
        """
        ids_LI = self._routed(k * batch)
        used_LE = ids_LI.new_zeros(len(self.layers), self.experts + 1).scatter_(1, ids_LI, 1)
        return used_LE[:, : self.experts].sum(1, dtype=torch.int32)

    def loads(self, k: int, batch: int) -> Tensor:
        """Routed choices of the first batch * k rows, int32 [L]; tensor operations only.

        Rows x topk where every row was written by a router.
        """
        return (self._routed(k * batch) < self.experts).sum(1, dtype=torch.int32)

    def choices(self, k: int, batch: int) -> int:
        """What the loads of every layer must sum to."""
        return k * batch * self._ids_LRT.shape[2]

    def check_union(self, union_L: Sequence[int]) -> None:
        """InputError for a union, read later, in which a layer used no expert at all."""
        if len(union_L) != len(self.layers):
            raise InputError(
                "a union of other layers", seen=len(union_L), allowed=f"{len(self.layers)} layers"
            )
        _refuse(layer for layer, used in zip(self.layers, union_L, strict=True) if not used)

    def _routed(self, rows: int) -> Tensor:
        """Ids of the first rows, int64 [L, rows * topk]; `experts` stands for no routed expert."""
        self._rows_checked(rows)
        ids_LI = self._ids_LRT[:, :rows].flatten(1).long()
        inside_LI = (ids_LI >= 0) & (ids_LI < self.experts)
        return ids_LI.where(inside_LI, self.experts)

    def _rows_checked(self, rows: int) -> None:
        most = self._ids_LRT.shape[1]
        if not 1 <= rows <= most:
            raise InputError("rows that the expert probe has not", seen=rows, allowed=f"1..{most}")


def check_layers(layers: Sequence[int], target_layers: int) -> None:
    """InputError for routers outside the target's layers: a draft's, counted as the target's."""
    foreign = [layer for layer in layers if not 0 <= layer < target_layers]
    if foreign:
        raise InputError(
            f"routers of layers that the target does not have: {foreign}",
            seen=f"{len(layers)} MoE layers",
            allowed=f"layers 0..{target_layers - 1} of the target, which has {target_layers}",
        )


def _refuse(missing: Iterable[int]) -> None:
    layers = list(missing)
    if layers:
        raise InputError(
            "MoE layers whose runner passed the expert probe by",
            seen=f"layers {layers}",
            allowed="a runner that routes in a step of its own",
            hint="pin moe_runner_backend=triton for runs that count experts",
        )


def _check_sizes(layers: Sequence[int], experts: int, topk: int, rows: int) -> None:
    if not layers or len(set(layers)) != len(layers):
        raise InputError("the probe needs MoE layers, each once", seen=list(layers))
    if not 1 <= topk <= experts:
        raise InputError("experts per token", seen=topk, allowed=f"1..{experts}")
    if rows < 1:
        raise InputError("the probe needs a row", seen=rows, allowed=">= 1")

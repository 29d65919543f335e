"""What a worker keeps of its steps for a harness: times, k, what was accepted, unions, trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from evict.sglang.candidates import OrderedCandidates, tree_parents
from evict.sglang.expert_probe import ExpertProbe
from evict.sglang.rank_counts import LayerCounts, account
from evict.sglang.stage_timer import StageTimer
from evict.sglang.step_ring import StepFacts, StepRing, StepTensors, TreeTensors

IN_FLIGHT = 64


class Recorder:
    """Step records between two flushes; does nothing while `active` is off.

    probe: counts experts where the configuration asks for it. gather: every rank's object, in order
    of rank; called by all of them. record_trees: keep the whole tree of every step. note: whose
    experts the latest records hold where ranks counted them differently.
    """

    def __init__(
        self,
        device: torch.device | str,
        topk: int,
        probe: ExpertProbe | None,
        gather: Callable[[Any], list[Any]] = lambda own: [own],
    ) -> None:
        self.active = self.record_trees = False
        self.probe = probe
        self.note: str | None = None
        self._gather = gather
        self._topk = topk
        self._timer = StageTimer(device, depth=IN_FLIGHT)
        self._ring = StepRing(IN_FLIGHT, self._timer)

    def start(self) -> None:
        """A decode step begins."""
        if self.active:
            self._timer.start()

    def after_draft(self) -> None:
        """The verify input is built; verification follows."""
        if self.active:
            self._timer.after_draft()
        if self.probe is not None:
            self.probe.arm()

    def after_verify(self) -> None:
        """Tokens are accepted; the draft-extend follows."""
        if self.active:
            self._timer.after_verify()

    def break_run(self) -> None:
        """The next step does not follow this one directly."""
        self._timer.break_run()

    def finish(
        self,
        facts: StepFacts,
        expected_N: Tensor,
        accept_lens_B: Tensor,
        root_B: Tensor,
        nodes: OrderedCandidates,
    ) -> None:
        """The draft-extend was launched: keep the step. No wait for the device.

        expected_N: mean S of the batch's trees; root_B: last committed tokens.
        """
        if not self.active:
            return
        self._timer.after_extend()
        size = nodes.tokens_Bn.shape[1] + 1
        union_L = loads_L = None
        if self.probe is not None:
            batch = len(facts.rids)
            union_L, loads_L = self.probe.unions(facts.k, batch), self.probe.loads(facts.k, batch)
        tree = self._tree(root_B, nodes) if self.record_trees else None
        self._ring.push(
            facts,
            StepTensors(
                expected=expected_N[facts.k - 1],
                full=expected_N[size - 1],
                accept_lens_B=accept_lens_B,
                union_L=union_L,
                loads_L=loads_L,
                tree=tree,
            ),
        )

    def drain(self) -> list[dict[str, Any]]:
        """Records since the last call; waits for the device.

        InputError for a bypassed probe, and for experts that no account of the ranks explains.
        """
        records = self._ring.drain()
        if self.probe is not None:
            self._settle(self.probe, records)
        return records

    def _settle(self, probe: ExpertProbe, records: list[dict[str, Any]]) -> None:
        """Replace each record's own counts by what all ranks say together."""
        self.note = None
        own = [LayerCounts(record["union"], record.pop("loads")) for record in records]
        for record, *ranks in zip(records, *self._gather(own), strict=True):
            probe.check_union([sum(n) for n in zip(*(one.union_L for one in ranks), strict=True)])
            found = account(ranks, probe.choices(record["k"], record["batch"]))
            record["union"], self.note = found.union_L, found.note or self.note

    def _tree(self, root_B: Tensor, nodes: OrderedCandidates) -> TreeTensors:
        tokens_Bn = nodes.tokens_Bn
        return TreeTensors(
            tokens_BN=torch.cat([root_B.unsqueeze(1).to(tokens_Bn.dtype), tokens_Bn], dim=1),
            parents_BN=tree_parents(nodes.indices_Bn, nodes.parents_BP, self._topk),
            scores_BN=pad(nodes.scores_Bn, (1, 0), value=1.0),
        )

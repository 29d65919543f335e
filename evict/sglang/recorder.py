"""What a worker keeps of its steps for a harness: times, k, what was accepted, unions, trees."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from evict.sglang.candidates import OrderedCandidates, tree_parents
from evict.sglang.expert_probe import ExpertProbe
from evict.sglang.stage_timer import StageTimer
from evict.sglang.step_ring import StepFacts, StepRing, StepTensors, TreeTensors

IN_FLIGHT = 64


class Recorder:
    """Step records between two flushes; does nothing while `active` is off.

    probe: counts experts where the configuration asks for it. record_trees: keep the whole tree of
    every step.
    """

    def __init__(self, device: torch.device | str, topk: int, probe: ExpertProbe | None) -> None:
        self.active = self.record_trees = False
        self.probe = probe
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
        union_L = self.probe.unions(facts.k, len(facts.rids)) if self.probe is not None else None
        tree = self._tree(root_B, nodes) if self.record_trees else None
        self._ring.push(
            facts,
            StepTensors(
                expected=expected_N[facts.k - 1],
                full=expected_N[size - 1],
                accept_lens_B=accept_lens_B,
                union_L=union_L,
                tree=tree,
            ),
        )

    def drain(self) -> list[dict[str, Any]]:
        """Records since the last call; waits for the device. InputError for a bypassed probe."""
        records = self._ring.drain()
        if self.probe is not None:
            for record in records:
                self.probe.check_union(record["union"])
        return records

    def _tree(self, root_B: Tensor, nodes: OrderedCandidates) -> TreeTensors:
        tokens_Bn = nodes.tokens_Bn
        return TreeTensors(
            tokens_BN=torch.cat([root_B.unsqueeze(1).to(tokens_Bn.dtype), tokens_Bn], dim=1),
            parents_BN=tree_parents(nodes.indices_Bn, nodes.parents_BP, self._topk),
            scores_BN=pad(nodes.scores_Bn, (1, 0), value=1.0),
        )

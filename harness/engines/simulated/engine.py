"""`engine=simulated`: methods on simulated trees, for a model and a device that are not here."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from evict.cost import CostTable
from evict.errors import InputError
from harness.engines.base import (
    EngineFacts,
    Message,
    Method,
    Observer,
    Request,
    RequestTrace,
)
from harness.engines.in_process import InProcess
from harness.engines.simulated.steps import Simulation
from harness.identity import digest
from harness.profiling.cost import fingerprint
from harness.records import StepRecord
from harness.simulate.basis import World, likeliest
from harness.simulate.cost import Setting, StepCost, expert_unions, step_cost
from harness.simulate.paper import DRAFT_TOKENS, TREE
from harness.simulate.target import Drafter, find_hardware, find_setting

CONTEXT_LENGTH = 131072
STEPS_OF_FIT = 1000


class SimulatedEngine(InProcess):
    """Draws every step's tree, lets the method select, and prices the step by a cost model.

    No token is produced: a request ends when its steps have committed `max_new_tokens`. Methods
    share the luck of a request's n-th step. The price that is paid is always the model's own; a
    cost table that was given is only what the selection believes.
    """

    timed = False
    observable = False

    def __init__(
        self,
        model: Mapping[str, Any],
        hardware: Mapping[str, Any] | None,
        batch_size: int = 1,
        mat: float | None = None,
        **_: Any,
    ) -> None:
        torch.set_num_threads(1)
        device = find_hardware(hardware)
        self.setting: Setting = find_setting(model, device, batch_size, DRAFT_TOKENS, TREE)
        self.drafter = Drafter.of(str(model.get("name")), mat)
        self.world: World = likeliest(STEPS_OF_FIT)
        if mat is not None:
            self.world.fit.curve.find(mat)  # one that no tree has is refused before anything runs
        self.cost: CostTable | None = None
        self.own_costs: Sequence[CostTable] = ()
        self.prices: dict[tuple[int, int, int], StepCost] = {}

    def describe(self) -> EngineFacts:
        """The model and device that are simulated; weights_hash covers all that sets the times."""
        setting = self.setting
        known = [asdict(setting), asdict(self.drafter.calibration(self.world.fit))]
        return EngineFacts(
            engine="simulated",
            model=setting.model.name,
            dtype="bfloat16",
            device=setting.hardware.label,
            threads=1,
            layers=setting.model.layers,
            experts=setting.model.experts,
            experts_per_token=setting.model.experts_per_token,
            context_length=CONTEXT_LENGTH,
            draft_vocab=setting.model.draft.vocab_size if setting.model.draft else 0,
            weights_hash=digest(known)[:16],
            versions={},
            settings={
                "predicted": "yes",
                "tensor_parallel": str(setting.tensor_parallel),
                "batch_size": str(setting.batch),
            },
        )

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """One number per word: enough to tell prompts apart, and no tokenizer is needed."""
        text = " ".join(f"{message['role']} {message['content']}" for message in messages)
        return [zlib.crc32(word.encode()) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """Nothing: no token is produced."""
        return ""

    def set_cost(self, cost: CostTable | None) -> None:
        """What selections believe from now on."""
        self.cost = cost

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        """Simulated steps until the request's tokens are committed.

        InputError for a method without a model, or a Mat that its tree cannot have.
        """
        _check(method)
        if request.record_trees:
            raise InputError("simulated trees are not kept", hint="record_trees=false")
        benchmark = request.prompt_id.rpartition("-")[0]
        difficulty = self._difficulty(request.temperature, benchmark)
        simulation = self._simulation(method, difficulty)
        steps = simulation.run(method, request.max_new_tokens - 1, seed, len(request.prompt_ids))
        return RequestTrace(
            output_ids=[],
            text="",
            finish_reason="simulated",
            prefill_ms=self._prefill_ms(len(request.prompt_ids)),
            decode_ms=sum(step.total_ms for step in steps),
            steps=steps,
        )

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        """All of them; their modelled cost tables are at hand from here on (`own_costs`)."""
        for method in methods:
            _check(method)
            if method.speculative:
                modelled = self._price(method).cost_table()
                table = replace(modelled, fingerprint=fingerprint(self, method))
                self.own_costs = (*self.own_costs, table)
        return [list(range(len(methods)))]

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """Records of a step of `method` at its modelled price."""
        most = steps * (method.growth.steps + 1) if method.speculative else steps
        return self._simulation(method, 0.0).run(method, most, 0, 0)[:steps]

    def _simulation(self, method: Method, difficulty: float) -> Simulation:
        price = self._price(method)
        rho = self.drafter.calibration(self.world.fit).rho
        alone = expert_unions(replace(self.setting, draft_tokens=len(price.union), batch=1), rho)
        return Simulation(self.world.fit.spread, difficulty, price, alone, self.cost)

    def _price(self, method: Method) -> StepCost:
        """The modelled cost of this method's growth; a plain one's is that of any tree."""
        growth = method.growth or TREE
        key = (max(method.draft_tokens, 2), growth.steps, growth.topk)
        if key not in self.prices:
            size, steps, topk = key
            setting = replace(self.setting, draft_tokens=size, steps=steps, topk=topk)
            fitted = self.drafter.calibration(self.world.fit)
            self.prices[key] = step_cost(setting, fitted)
        return self.prices[key]

    def _prefill_ms(self, tokens: int) -> float:
        """One pass of the target over the prompt."""
        setting = replace(self.setting, draft_tokens=max(tokens, 1))
        fitted = self.drafter.calibration(self.world.fit)
        return float(step_cost(setting, fitted).stage_ms("verify")[-1])

    def _difficulty(self, temperature: float, benchmark: str) -> float:
        return self.world.fit.curve.find(self.drafter.mat(temperature, benchmark))


def _check(method: Method) -> None:
    """InputError for a drafter or scores that are not simulated."""
    if method.drafter not in ("none", "eagle3") or method.scores != "draft":
        raise InputError(
            f"method {method.name} is not simulated",
            seen=f"drafter {method.drafter}, scores {method.scores}",
            allowed="drafter none or eagle3, scores draft",
            hint="method=eagle3",
        )

"""An engine that asks a fake server over HTTP, as the real one does, for whole runs of a bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.engines.base import Method, Observer, Request, RequestTrace
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.trace import Arm, stock_trace
from tests.support.asking import ticks
from tests.support.fake_engine import FakeEngine
from tests.support.fake_server import FakeServer


@dataclass
class ServedEngine(FakeEngine):
    """One stock server, asked with an empty prefix cache; its events come at these seconds.

    widths: nodes per step by method name; 1 (plain decoding) for the others.
    """

    server: FakeServer = field(kw_only=True)
    seconds: Sequence[float] = (0.0,)
    widths: Mapping[str, int] = field(default_factory=dict)

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        self.calls.append((request.prompt_id, method.name))
        with self.server.client(clock=ticks(*self.seconds)) as client:
            client.flush_cache()
            sampling = Sampling(request.max_new_tokens, request.temperature, seed=seed)
            reply = client.generate(request.prompt_ids, sampling, request.prompt_id)
        arm = Arm(self.widths.get(method.name, 1), getattr(method.growth, "steps", 0))
        return stock_trace(reply, request, arm, self.decode).trace

"""EVICT in the real scheduler: every policy on the stress workload, and what a step leaves behind.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.sglang.config import VARIABLE
from evict.sglang.session import Orders, Session
from tests.sglang.scheduler import InProcess, open_scheduler
from tests.sglang.workload import serve, stress

DRAFT_TOKENS = 32


def configure(folder: Path, **settings: Any) -> Session:
    """Write the plugin's configuration file and name it in the environment; its session."""
    session = folder / "session"
    session.mkdir(exist_ok=True)
    file = folder / "evict.json"
    file.write_text(json.dumps({"session": "session", **settings}))
    os.environ[VARIABLE] = str(file)
    return Session(session)


def open_evict(target: str, draft: str, folder: str, **settings: Any) -> tuple[InProcess, Session]:
    """EVICT on these checkpoints, steered through a session in `folder`."""
    session = configure(Path(folder), **settings)
    return open_scheduler("EVICT", Path(target), Path(draft)), session


def table(session: Session, slope: float = 0.03, batch: int = 1) -> dict[str, Any]:
    """A cost table of this worker's own facts: C(k) = batch * (1 + slope * k) ms."""
    state = session.state()
    assert state is not None
    facts = {f"setting.{name}": value for name, value in state["resolved"].items()}
    facts["growth"] = "FixedDepth(steps=4, topk=8)"
    step_ms = tuple(batch * (1 + slope * k) for k in range(1, DRAFT_TOKENS + 1))
    cost = CostTable(step_ms, 1.0, (0.0,) * DRAFT_TOKENS, fingerprint=facts)
    return cost.to_dict()


def give(engine: InProcess, session: Session, policy: Mapping[str, Any], **orders: Any) -> None:
    """Order a policy and flush; AssertionError unless the worker follows it."""
    state = session.state()
    epoch = state["epoch"] + 1 if state else 1
    session.give(Orders(epoch, dict(policy), **orders))
    engine.flush()
    state = session.state()
    assert state is not None
    assert (state["epoch"], state["error"]) == (epoch, None), state


def every_policy(target: str, draft: str, folder: str) -> dict[str, Any]:
    """The stress workload under each policy and each fixed k, then with a random k per step."""
    engine, session = open_evict(target, draft, folder)
    costs = {str(batch): table(session, batch=batch) for batch in (1, 4)}
    policies: dict[str, dict[str, Any]] = {
        "evict": {"name": "evict"},
        "evict, root not counted": {"name": "evict", "count_root": False},
        "coverage 0.7": {"name": "coverage", "rho": 0.7},
        "coverage 1.0": {"name": "coverage", "rho": 1.0},
        "expected": {"name": "expected"},
        "full": {"name": "full"},
    }
    policies |= {f"k={k}": {"name": "fixed_k", "k": k} for k in range(1, DRAFT_TOKENS + 1)}
    found = {}
    for name, policy in policies.items():
        give(engine, session, policy, costs=costs)
        found[name] = _served(engine, session)
    with random_k(engine):
        found["random k"] = _served(engine, session)
    return found


def depth_gate(target: str, draft: str, folder: str) -> dict[str, Any]:
    """The stress workload under dynamic depth, with the whole tree and with a fixed k."""
    growth = {"name": "ddd", "threshold": -0.4, "check_depths": [1, 2, 3]}
    engine, session = open_evict(target, draft, folder, growth=growth, policy={"name": "full"})
    found = {}
    for name, policy in (("full", {"name": "full"}), ("k=9", {"name": "fixed_k", "k": 9})):
        give(engine, session, policy)
        found[name] = _served(engine, session)
    return found


def broken_mask(target: str, draft: str, folder: str) -> dict[str, Any]:
    """The stress workload with stand-ins that ignore the tree mask: must not equal plain."""
    engine, session = open_evict(target, draft, folder, policy={"name": "full"})
    os.environ["EVICT_STANDIN_FAULT"] = "mask"
    return _served(engine, session)


def failing_step(target: str, draft: str, folder: str) -> dict[str, Any]:
    """What stands on the target's runner before and after a verification that raises."""
    engine, session = open_evict(target, draft, folder)
    give(engine, session, {"name": "fixed_k", "k": 5})
    runner = engine.worker.target_worker.model_runner
    before = (id(runner.attn_backend), id(runner.decode_cuda_graph_runner))
    engine.generate([[1, 2, 3]], 8)
    after = (id(runner.attn_backend), id(runner.decode_cuda_graph_runner))
    failed = (0, 0)
    forward = engine.worker.target_worker.forward_batch_generation

    def fail(*args: Any, **keywords: Any) -> Any:
        if keywords.get("is_verify"):
            raise ArithmeticError("injected")
        return forward(*args, **keywords)

    engine.worker.target_worker.forward_batch_generation = fail
    try:
        engine.generate([[1, 2, 3]], 8)
    except ArithmeticError:
        failed = (id(runner.attn_backend), id(runner.decode_cuda_graph_runner))
    width = engine.worker.speculative_num_draft_tokens
    return {"same": before == after, "same after failure": before == failed, "width": width}


def metadata(target: str, draft: str, folder: str) -> dict[str, Any]:
    """SGLang's own statistics of requests beside the worker's records of them."""
    engine, session = open_evict(target, draft, folder, count_experts=True)
    give(engine, session, {"name": "evict"}, costs={"1": table(session, slope=0.08)})
    outputs = [engine.generate([prompt], 40)[0] for prompt in stress().prompts[:6]]
    requests = [engine.requests[0]]
    records = _flushed(engine, session)
    return {
        "outputs": outputs,
        "records": records,
        "last": {
            "rid": requests[0].rid,
            "verify_ct": requests[0].spec_verify_ct,
            "correct": requests[0].spec_num_correct_drafts,
            "cap_tokens": requests[0].spec_num_cap_tokens,
            "cap_histogram": requests[0].spec_cap_lens_histogram,
        },
        "state": session.state(),
    }


def orders(target: str, draft: str, folder: str) -> dict[str, Any]:
    """Orders that cannot be followed leave the policy in force and say why."""
    engine, session = open_evict(target, draft, folder)
    give(engine, session, {"name": "fixed_k", "k": 3})
    wrong = table(session)
    wrong["fingerprint"]["setting.device"] = "another device"
    answers = {}
    for name, policy, costs in (
        ("unknown policy", {"name": "magic"}, {}),
        ("k too large", {"name": "fixed_k", "k": 33}, {}),
        ("foreign table", {"name": "evict"}, {"1": wrong}),
    ):
        state = session.state()
        assert state is not None
        session.give(Orders(state["epoch"] + 1, policy, costs=costs))
        engine.flush()
        engine.generate([[1, 2, 3]], 6)
        answers[name] = {"state": session.state(), "k": _ks(_flushed(engine, session))}
    return answers


@contextmanager
def random_k(engine: InProcess, seed: int = 11) -> Iterator[None]:
    """Verify a random number of nodes in every step, whatever was selected."""
    draw = random.Random(seed)
    selector = engine.worker.draft_worker.selector
    selector.read = lambda: draw.randint(1, DRAFT_TOKENS)
    try:
        yield
    finally:
        del selector.read


def _served(engine: InProcess, session: Session) -> dict[str, Any]:
    facts = serve(engine, stress())
    return {**facts, "k": _ks(_flushed(engine, session))}


def _flushed(engine: InProcess, session: Session) -> list[dict[str, Any]]:
    engine.flush()
    return session.take()


def _ks(records: list[dict[str, Any]]) -> list[int]:
    return [record["k"] for record in records]

"""SGLang with emulated CUDA graphs: stock EAGLE-3, EVICT's policies, dynamic depth, and faults.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evict.sglang.session import Session
from evict.sglang.verify_pool import VerifyState
from tests.sglang.scenarios import evict
from tests.sglang.scheduler import InProcess, open_scheduler
from tests.sglang.workload import serve, stress

ALONE, TOKENS = 5, 24
TIERS = (1, 2, 3, 5, 9, 17, 31)
DEPTHS = (1, 2, 3)
KEPT = ("k", "drafted", "depth", "accepted", "context", "expected", "full", "union", "tree")


def stock(target: str, draft: str) -> dict[str, Any]:
    """EAGLE-3 as SGLang has it: requests alone, replays of each runner, the stress workload."""
    from tests.sglang import graphs

    graphs.install()
    engine = open_scheduler("EAGLE3", Path(target), Path(draft), **graphs.ARGUMENTS)
    prompts = stress().prompts[:ALONE]
    outputs, verifications, accepted = [], 0, 0
    for prompt in prompts:
        outputs += engine.generate([prompt], TOKENS)
        verifications += engine.requests[0].spec_verify_ct
        accepted += engine.requests[0].spec_num_correct_drafts
    return {
        "outputs": outputs,
        "verifications": verifications,
        "accepted": accepted,
        "replays": {type(one.runner).__name__: one.replays for one in graphs.TapeBackend.instances},
        "stress": serve(engine, stress()),
    }


def plain(target: str) -> dict[str, Any]:
    """The same requests alone by plain decoding, without graphs."""
    engine = open_scheduler(None, Path(target))
    return {"outputs": [engine.generate([one], TOKENS)[0] for one in stress().prompts[:ALONE]]}


def policies(target: str, draft: str, folder: str, captured: bool) -> dict[str, Any]:
    """Requests alone under each policy, then several at once. captured: with graphs or eagerly.

    alone: outputs and step records by policy. graphs: how many before and after. log: what the
    worker said of its captures.
    """
    messages = _listen("evict.sglang.worker")
    settings = {"tiers": TIERS, "policy": {"name": "full"}, "count_experts": True}
    engine, session = _open(captured, target, draft, folder, **settings)
    before, alone = _graphs(), {}
    for name, policy in _policies().items():
        evict.give(engine, session, policy, costs=_costs(session), record_trees=True)
        alone[name] = _alone(engine, session)
    with _any_width(engine):
        alone["any"] = _alone(engine, session)
    state = session.state()
    evict.give(engine, session, {"name": "evict"}, costs=_costs(session))
    together = serve(engine, stress())
    return {
        "alone": alone,
        "state": state,
        "graphs": [before, _graphs()],
        "together": {**together, "records": _records(engine, session, ("batch", "k", "graph"))},
        "log": messages,
    }


def depth(
    target: str, draft: str, folder: str, captured: bool, threshold: float, check: list[int]
) -> dict[str, Any]:
    """Dynamic depth, requests alone under several selections, then the stress workload."""
    growth = {"name": "ddd", "threshold": threshold, "check_depths": check}
    settings = {"growth": growth, "tiers": (3, 9), "policy": {"name": "full"}}
    engine, session = _open(captured, target, draft, folder, **settings)
    alone = {}
    for name, policy in (("full", {"name": "full"}), ("k=3", {"name": "fixed_k", "k": 3})):
        evict.give(engine, session, policy, record_trees=True)
        alone[name] = _alone(engine, session)
    state = session.state()
    evict.give(engine, session, {"name": "full"})
    together = serve(engine, stress())
    records = _records(engine, session, ("batch", "k", "graph"))
    return {"alone": alone, "state": state, "together": {**together, "records": records}}


def fault(target: str, draft: str, folder: str, kind: str) -> dict[str, Any]:
    """What stands on the target's runner outside, inside and after a step that a fault ends."""
    settings = {"tiers": (4, 8), "policy": {"name": "fixed_k", "k": 4}}
    engine, _ = _open(True, target, draft, folder, cuda_graph_bs_decode=[1, 2], **settings)
    runner = engine.worker.target_worker.model_runner
    outside, inside = _standing(runner), []
    forward = engine.worker.target_worker.forward_batch_generation

    def watched(*args: Any, **keywords: Any) -> Any:
        if keywords.get("is_verify"):
            inside.append(_standing(runner))
            if kind == "verify raises" and len(inside) > 3:
                raise ArithmeticError("injected")
        return forward(*args, **keywords)

    engine.worker.target_worker.forward_batch_generation = watched
    engine.generate([[1, 2, 3]], 3)
    found = {"outside": [outside, _standing(runner)], "inside": inside[0], "error": "none"}
    FAULTS[kind](engine.worker.pool)
    try:
        engine.generate([[1, 2, 3, 4]], 20)
    except (ArithmeticError, RuntimeError) as error:
        found["error"] = f"{type(error).__name__}: {error}"
    return {
        **found,
        "after": _standing(runner),
        "width": engine.worker.speculative_num_draft_tokens,
    }


def _keep_runner(pool: Any) -> None:
    """The attention backend is swapped, the graphs are not."""
    graphs = pool._runner.decode_cuda_graph_runner
    put = pool._put
    pool._put = lambda state: put(VerifyState(state.width, state.attention, graphs))


def _other_width(pool: Any) -> None:
    pool._states[4] = VerifyState(4, pool._states[4].attention, pool._states[8].graphs)


def _no_tier(pool: Any) -> None:
    del pool._states[4]


FAULTS: dict[str, Callable[[Any], None]] = {
    "verify raises": lambda pool: None,
    "runner not swapped": _keep_runner,
    "runner of another width": _other_width,
    "tier left out": _no_tier,
}


def _open(
    captured: bool,
    target: str,
    draft: str,
    folder: str,
    cuda_graph_bs_decode: list[int] | None = None,
    **settings: Any,
) -> tuple[InProcess, Session]:
    if not captured:
        return evict.open_evict(target, draft, folder, **settings)
    from tests.sglang import graphs

    graphs.install()
    arguments = dict(graphs.ARGUMENTS)
    if cuda_graph_bs_decode:
        arguments["cuda_graph_bs_decode"] = cuda_graph_bs_decode
    session = evict.configure(Path(folder), **settings)
    return open_scheduler("EVICT", Path(target), Path(draft), **arguments), session


def _policies() -> dict[str, dict[str, Any]]:
    fixed = {f"k={k}": {"name": "fixed_k", "k": k} for k in (1, 2, 5, 17, 31)}
    return {
        "full": {"name": "full"},
        "evict": {"name": "evict"},
        "coverage": {"name": "coverage", "rho": 0.8},
        **fixed,
    }


def _costs(session: Session) -> dict[str, Any]:
    return {str(batch): evict.table(session, slope=0.02, batch=batch) for batch in (1, 4)}


def _alone(engine: InProcess, session: Session) -> dict[str, Any]:
    outputs = [engine.generate([prompt], TOKENS)[0] for prompt in stress().prompts[:ALONE]]
    return {"outputs": outputs, "records": _records(engine, session, KEPT)}


def _records(engine: InProcess, session: Session, kept: tuple[str, ...]) -> list[dict[str, Any]]:
    engine.flush()
    return [{key: record[key] for key in kept} for record in session.take()]


@contextmanager
def _any_width(engine: InProcess) -> Any:
    """Verify a random existing width in every step."""
    draw, selector = random.Random(3), engine.worker.draft_worker.selector
    selector.read = lambda: draw.choice(engine.worker.pool.widths)
    try:
        yield
    finally:
        del selector.read


def _graphs() -> int:
    from tests.sglang import graphs

    return sum(len(one.tapes) for one in graphs.TapeBackend.instances)


def _standing(runner: Any) -> list[int]:
    graphs = runner.decode_cuda_graph_runner
    return [id(runner.attn_backend), id(graphs), graphs.captured_req_width]


def _listen(name: str) -> list[str]:
    """Messages of a logger from now on."""
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(name).addHandler(handler)
    logging.getLogger(name).setLevel(logging.INFO)
    return messages

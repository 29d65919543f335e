"""EVICT on two tensor-parallel ranks: SGLang's own Engine, one scheduler process for each rank.

Scenario functions: called by name through `tests.sglang.process.run_scenario`; plain data in, plain
data out.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evict.sglang.config import VARIABLE
from evict.sglang.session import Orders, Session
from tests.sglang.prices import price_list
from tests.sglang.scheduler import server_arguments
from tests.sglang.workload import stress

RANKS, DRAFT_TOKENS, REQUESTS = 2, 32, 10
SLOPES = (0.03, 1e9)
HEALTHY = "healthy.json"
# SGLang refuses more ranks than NUMA nodes unless told which cores; without AMX it binds none.
CORES = {"SGLANG_CPU_OMP_THREADS_BIND": "0|1"}


def broadcast(target: str, draft: str, folder: str) -> dict[str, Any]:
    """What is served under policy evict, with k = 5, and under evict while rank 1 disagrees."""
    ranks = Ranks(Path(target), Path(draft), Path(folder), "broadcast")
    served = {"evict": ranks.serve()}
    ranks.follow({"name": "fixed_k", "k": 5})
    served["k=5"] = ranks.serve()
    ranks.follow({"name": "evict"})
    ranks.disagree()
    served["disagreement"] = ranks.serve()
    return served


def compared(target: str, draft: str, folder: str) -> dict[str, Any]:
    """What is served while the ranks are compared and agree, left as a file; then rank 1 does not.

    SGLang is expected to end this process.
    """
    ranks = Ranks(Path(target), Path(draft), Path(folder), "assert")
    (Path(folder) / HEALTHY).write_text(json.dumps(ranks.serve()))
    ranks.disagree()
    return ranks.serve()


class Ranks:
    """A running engine of two ranks; in `folder` lie its sessions and the lengths of each rank.

    Rank 1 is configured apart from rank 0, with a session that gets no orders and a cost table by
    which it would verify the root alone.
    """

    def __init__(self, target: Path, draft: Path, folder: Path, agreement: str) -> None:
        from sglang.srt.entrypoints.engine import Engine

        class WatchedEngine(Engine):  # type: ignore[misc]
            run_scheduler_process_func = staticmethod(run_rank)

        self._folder, self._epoch = folder, 0
        self._session = _configure(target, folder, agreement)
        os.environ.update(CORES)
        arguments = server_arguments("EVICT", target, draft, tp_size=RANKS)
        self._engine = WatchedEngine(**arguments, mem_fraction_static=0.5)

    def serve(self) -> dict[str, Any]:
        """The first requests of the stress workload, all at once.

        outputs: token ids of each request. proposed, agreed: verify length of each step, by rank,
        before and after the ranks agreed.
        """
        for rank in range(RANKS):
            lengths_file(self._folder, rank).write_text("")
        work = stress()
        sampling = [
            {"max_new_tokens": length, "temperature": 0.0, "ignore_eos": True}
            for length in work.lengths[:REQUESTS]
        ]
        answers = self._engine.generate(input_ids=work.prompts[:REQUESTS], sampling_params=sampling)
        steps = [_lengths(self._folder, rank) for rank in range(RANKS)]
        return {
            "outputs": [answer["output_ids"] for answer in answers],
            "proposed": [[proposed for proposed, _ in rank] for rank in steps],
            "agreed": [[agreed for _, agreed in rank] for rank in steps],
        }

    def follow(self, policy: dict[str, Any]) -> None:
        """Order a policy; RuntimeError unless rank 0 says that it is followed."""
        self._epoch += 1
        self._session.give(Orders(self._epoch, policy))
        self._flush()
        state = self._session.state()
        if state is None or (state["epoch"], state["error"]) != (self._epoch, None):
            raise RuntimeError(f"{policy} is not followed: {state}")

    def _flush(self, patience: int = 50) -> None:
        """SGLang declines while the last request is being put away."""
        for _ in range(patience):
            if self._engine.flush_cache().success:
                return
            time.sleep(0.1)
        raise RuntimeError("the cache was not flushed")

    def disagree(self) -> None:
        """From now on rank 1 proposes another length than it chose, in every step."""
        _fault(self._folder).touch()


def run_rank(server_args: Any, port_args: Any, gpu: int, rank: int, *rest: Any) -> None:
    """SGLang's scheduler process, its agreement watched and disturbed on demand."""
    from sglang.srt.managers.scheduler import run_scheduler_process

    from evict.sglang import worker

    folder, agreement = Path(os.environ[VARIABLE]).parent, worker.agreement
    os.environ[VARIABLE] = str(_config_file(folder, rank))
    worker.agreement = lambda name: _watched(agreement(name), folder, rank)
    run_scheduler_process(server_args, port_args, gpu, rank, *rest)


def session_folder(folder: Path, rank: int) -> Path:
    """Where the rank would look for orders and leave records, were it the one that does."""
    return folder / f"session-{rank}"


def lengths_file(folder: Path, rank: int) -> Path:
    """Proposed and agreed length of each step that the rank went on with, one pair a line."""
    return folder / f"lengths-{rank}"


def _watched(agree: Callable[[Any], None], folder: Path, rank: int) -> Callable[[Any], None]:
    def watched(k: Any) -> None:
        if rank == 1 and _fault(folder).exists():
            k.copy_(k % DRAFT_TOKENS + 1)
        proposed = int(k)
        agree(k)
        with lengths_file(folder, rank).open("a") as file:
            file.write(f"{json.dumps([proposed, int(k)])}\n")

    return watched


def _lengths(folder: Path, rank: int) -> list[list[int]]:
    return [json.loads(line) for line in lengths_file(folder, rank).read_text().splitlines()]


def _configure(target: Path, folder: Path, agreement: str) -> Session:
    for rank, slope in enumerate(SLOPES):
        session = session_folder(folder, rank)
        session.mkdir()
        settings = {"agreement": agreement, "session": session.name}
        prices = price_list(target, slope, RANKS)
        config = {**settings, "costs": {"1": prices, str(REQUESTS): prices}}
        _config_file(folder, rank).write_text(json.dumps(config))
    os.environ[VARIABLE] = str(_config_file(folder, 0))
    return Session(session_folder(folder, 0))


def _config_file(folder: Path, rank: int) -> Path:
    return folder / f"rank-{rank}.json"


def _fault(folder: Path) -> Path:
    return folder / "disagreement"

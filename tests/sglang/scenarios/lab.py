"""The lab model, decoded step by step by SGLang and by the embedded engine, in one form.

Scenario functions: called by name through `tests.sglang.process.run_scenario`. A run is plain data
both sides understand, {"policy": .., "drafting": .., "prompts": .., "length": ..}: a policy of
`evict.sglang.policies`, a rule of `tests.sglang.branches`, the number of prompts, the most tokens
of each. It comes back as {"outputs": [ids], "steps": [[step]]}, both by prompt.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.sglang import branches
from tests.sglang.checkpoints import LAB, ROOT
from tests.sglang.scheduler import InProcess, open_scheduler

STEPS, TOPK, DRAFT_TOKENS = 4, 8, 32
SHAPE = {
    "speculative_num_steps": STEPS,
    "speculative_eagle_topk": TOPK,
    "speculative_num_draft_tokens": DRAFT_TOKENS,
}
ROOM = {"context_length": 2048, "chunked_prefill_size": 512, "mem_fraction_static": 0.5}
BENCHMARKS = ("mt_bench", "gsm8k", "humaneval", "alpaca", "cnn_dm", "qa")
PRICES = ROOT / "results/reference/lab_cost/cost_table.json"
Plain = Mapping[str, Any]
Step = dict[str, Any]
Decoded = dict[str, Any]
Request = tuple[list[int], list[Step]]


def lab_prompts(per_benchmark: int) -> list[list[int]]:
    """Token ids of the first questions of every benchmark, benchmarks taking turns."""
    from harness.engines.tokenizer import ChatTokenizer

    tokenizer = ChatTokenizer(LAB.target)
    files = [ROOT / f"datasets/lab/{name}.jsonl" for name in BENCHMARKS]
    questions = [
        [json.loads(line)["turns"][0] for line in file.read_text().splitlines()[:per_benchmark]]
        for file in files
    ]
    return [
        tokenizer.encode_chat([{"role": "user", "content": question}])
        for row in zip(*questions, strict=True)
        for question in row
    ]


def by_sglang(
    prompts: Sequence[Sequence[int]], growth: Plain, runs: Mapping[str, Plain]
) -> dict[str, Decoded]:
    """Every run by SGLang's EVICT, one request at a time, from the plugin's own step records."""
    from evict.sglang.session import Session

    with tempfile.TemporaryDirectory(prefix="session-") as folder:
        _configure(Path(folder), growth)
        engine, session = _open("EVICT"), Session(folder)
        return {
            name: _ordered(engine, session, growth, epoch, run, prompts)
            for epoch, (name, run) in enumerate(runs.items(), start=1)
        }


def by_torch(
    prompts: Sequence[Sequence[int]], growth: Plain, runs: Mapping[str, Plain]
) -> dict[str, Decoded]:
    """Every run by the embedded engine, as its observer sees each step."""
    from evict.cost import CostTable
    from evict.sglang.policies import growth_of, selection_of
    from harness.engines.base import Method
    from harness.engines.torch.engine import TorchEngine

    model = {"name": "lab", "target": str(LAB.target), "draft": str(LAB.draft)}
    engine = TorchEngine(model, device="cpu", dtype="float32", threads=1)
    shape = growth_of(growth, STEPS, TOPK)
    facts = {**engine.describe().fingerprint(), "growth": repr(shape)}
    engine.set_cost(CostTable.from_dict(_prices(facts)))
    decoded = {}
    for name, run in runs.items():
        method = Method(name, "eagle3", shape, selection_of(run["policy"]), DRAFT_TOKENS)
        chosen = prompts[: run["prompts"]]
        with branches.TORCH[run["drafting"]]():
            decoded[name] = _joined(
                _observed(engine, method, prompt, run["length"]) for prompt in chosen
            )
    return decoded


def by_stock(prompts: Sequence[Sequence[int]], length: int) -> dict[str, Any]:
    """SGLang's own EAGLE-3, without the plugin's worker.

    accepted: by request, how often 0, 1, 2, ... draft tokens were kept.
    """
    engine = _open("EAGLE3")
    outputs, accepted = [], []
    for prompt in prompts:
        outputs += engine.generate([prompt], length, ignore_eos=False)
        accepted.append(list(engine.requests[0].spec_correct_drafts_histogram))
        engine.flush()
    return {"outputs": outputs, "accepted": accepted}


def _open(algorithm: str) -> InProcess:
    return open_scheduler(algorithm, LAB.target, LAB.draft, **ROOM, **SHAPE)


def _configure(folder: Path, growth: Plain) -> None:
    path = folder / "evict.json"
    settings = {"session": ".", "policy": {"name": "full"}, "growth": dict(growth)}
    path.write_text(json.dumps(settings))
    os.environ["EVICT_CONFIG"] = str(path)


def _prices(fingerprint: Mapping[str, str]) -> dict[str, Any]:
    """The lab model's measured step times, as if they came from elsewhere."""
    return {**json.loads(PRICES.read_text()), "fingerprint": dict(fingerprint)}


def _ordered(
    engine: InProcess,
    session: Any,
    growth: Plain,
    epoch: int,
    run: Plain,
    prompts: Sequence[Sequence[int]],
) -> Decoded:
    from evict.sglang.policies import growth_of
    from evict.sglang.session import Orders

    facts = {f"setting.{name}": value for name, value in session.state()["resolved"].items()}
    facts["growth"] = repr(growth_of(growth, STEPS, TOPK))
    costs = {"1": _prices(facts)}
    session.give(Orders(epoch, policy=dict(run["policy"]), costs=costs, record_trees=True))
    engine.flush()
    state = session.state()
    if state["epoch"] != epoch or state["error"]:
        raise RuntimeError(f"orders {epoch} were not followed: {state}")
    chosen = prompts[: run["prompts"]]
    with branches.SGLANG[run["drafting"]]():
        return _joined(_recorded(engine, session, prompt, run["length"]) for prompt in chosen)


def _recorded(engine: InProcess, session: Any, prompt: Sequence[int], length: int) -> Request:
    output = engine.generate([prompt], length, ignore_eos=False)[0]
    engine.flush()
    return output, [_from_record(record, output, len(prompt)) for record in session.take()]


def _from_record(record: Plain, output: Sequence[int], prompt_tokens: int) -> Step:
    tree = {name: rows[0] for name, rows in record["tree"].items()}
    context, accepted = record["context"][0], record["accepted"][0]
    start = context - prompt_tokens + 1
    emitted = list(output[start : start + accepted + 1])
    return {
        **tree,
        "k": record["k"],
        "accepted": accepted,
        "emitted": emitted,
        "context": context,
        "expected": record["expected"],
    }


def _observed(engine: Any, method: Any, prompt: Sequence[int], length: int) -> Request:
    from harness.engines.base import Request as Generation
    from harness.engines.base import StepView

    views: list[StepView] = []
    request = Generation("lab", tuple(prompt), length)
    trace = engine.generate(request, method, 0, views.append)
    pairs = zip(views, trace.steps, strict=True)
    return trace.output_ids, [_from_view(view, record) for view, record in pairs]


def _from_view(view: Any, record: Any) -> Step:
    tokens = view.tree.tokens_N.tolist()
    emitted = [*(tokens[node] for node in view.path[1:]), view.next_token]
    return {
        "tokens": tokens,
        "parents": view.tree.parents_N.tolist(),
        "scores": view.tree.scores_N.tolist(),
        "k": view.verify_length,
        "accepted": len(view.path) - 1,
        "emitted": emitted[: record.committed],
        "context": record.context_len,
        "expected": record.expected,
    }


def _joined(requests: Iterable[Request]) -> Decoded:
    outputs, steps = zip(*requests, strict=True)
    return {"outputs": list(outputs), "steps": list(steps)}

"""Does the lab model behave as a laboratory animal should? `python -m harness.lab.check`.

Held-out prompts, EAGLE-3 tree of 32 nodes (steps 4, topk 8): Mat per benchmark and its spread,
loops, calibration of node scores at temperatures 0 and 1, and the load of every expert.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from evict.growth import FixedDepth
from evict.selection import Full
from harness.engines.base import Method, Request
from harness.engines.torch.engine import TorchEngine
from harness.engines.torch.layers import causal
from harness.lab.corpus import FAMILIES
from harness.lab.prompts import FOLDER
from harness.profiling.calibration import ScoreLog
from harness.reliability import brier_score, expected_calibration_error

WEIGHTS = Path(__file__).parent / "weights"
FULL_TREE = Method("full", "eagle3", FixedDepth(steps=4, topk=8), Full(), draft_tokens=32)
MAT_RANGE, MAT_SPREAD, MAX_LOOPS, MAX_ECE, MAX_LOAD = (2.3, 4.7), 1.0, 0.10, 0.10, 0.25


@dataclass
class Findings:
    """What was measured on one benchmark (or, merged, on all of them)."""

    steps: int = 0
    committed: int = 0
    outputs: int = 0
    looping: int = 0
    lengths: list[int] = field(default_factory=list)
    log: ScoreLog = field(default_factory=ScoreLog)

    @property
    def mat(self) -> float:
        """Committed decode tokens per step."""
        return self.committed / self.steps


def loops(ids: Sequence[int], size: int = 8, times: int = 3) -> bool:
    """Whether some n-gram of `size` tokens occurs `times` times or more."""
    grams = Counter(tuple(ids[i : i + size]) for i in range(len(ids) - size + 1))
    return bool(grams) and max(grams.values()) >= times


def conversations(folder: Path, family: str, limit: int) -> Iterator[list[str]]:
    """The user turns of the first `limit` prompts of a bundled set."""
    lines = (folder / f"{family}.jsonl").read_text().splitlines()
    for line in lines[:limit]:
        yield json.loads(line)["turns"]


def examine(
    engine: TorchEngine, family: str, limit: int, temperature: float, loads: torch.Tensor
) -> Findings:
    """Answer every turn of a benchmark with the full tree; adds routed tokens to loads_LE."""
    found = Findings()
    for number, turns in enumerate(conversations(FOLDER, family, limit)):
        history: list[dict[str, str]] = []
        for turn in turns:
            history.append({"role": "user", "content": turn})
            prompt = engine.encode_chat(history)
            request = Request(f"{family}-{number}", tuple(prompt), 128, temperature)
            trace = engine.generate(request, FULL_TREE, number, observer=found.log)
            history.append({"role": "assistant", "content": trace.text})
            found.steps += len(trace.steps)
            found.committed += sum(step.committed for step in trace.steps)
            found.outputs += 1
            found.looping += loops(trace.output_ids)
            found.lengths.append(len(trace.output_ids))
        loads += routed(engine, engine.encode_chat(history))
    return found


@torch.inference_mode()
def routed(engine: TorchEngine, ids: Sequence[int]) -> torch.Tensor:
    """Tokens that each expert of each layer receives, [L, E]."""
    tokens, size = torch.tensor(ids), len(ids)
    cache = engine.target.new_cache(size)
    mask = causal(size, 0, torch.float32, "cpu")
    out = engine.target.forward(tokens, torch.arange(size), cache, mask, last_only=True)
    experts = engine.target.config.experts
    return torch.stack([torch.bincount(e.flatten(), minlength=experts) for e in out.experts_L])


def verdicts(
    mats: dict[str, float], loop_share: float, eces: dict[float, float], load_LE: torch.Tensor
) -> list[tuple[str, str, bool]]:
    """(what, value seen, holds) for every requirement."""
    share_LE = load_LE / load_LE.sum(dim=1, keepdim=True)
    low, high = min(mats.values()), max(mats.values())
    largest, dead = float(share_LE.max()), int((load_LE == 0).sum())
    return [
        (
            f"Mat of every benchmark within {MAT_RANGE}",
            f"{low:.2f} to {high:.2f}",
            MAT_RANGE[0] <= low and high <= MAT_RANGE[1],
        ),
        (f"easiest - hardest >= {MAT_SPREAD}", f"{high - low:.2f}", high - low >= MAT_SPREAD),
        (f"looping outputs <= {MAX_LOOPS:.0%}", f"{loop_share:.1%}", loop_share <= MAX_LOOPS),
        *[
            (f"ECE at T={t:g} <= {MAX_ECE}", f"{ece:.3f}", ece <= MAX_ECE)
            for t, ece in eces.items()
        ],
        (f"largest share of one expert <= {MAX_LOAD:.0%}", f"{largest:.1%}", largest <= MAX_LOAD),
        ("dead experts", str(dead), dead == 0),
    ]


def main() -> None:
    """Print the findings; exit status 1 when a requirement does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--limit", type=int, default=24, help="prompts per benchmark")
    args = parser.parse_args()
    engine = TorchEngine(
        {
            "name": "lab",
            "target": str(args.weights / "target"),
            "draft": str(args.weights / "eagle3"),
        }
    )
    c = engine.target.config
    loads = torch.zeros(c.layers, c.experts, dtype=torch.long)
    table = Table("T", "benchmark", "Mat", "ECE", "Brier", "looping", "answer tokens")
    mats: dict[str, float] = {}
    eces: dict[float, float] = {}
    looping = outputs = 0
    for temperature in (0.0, 1.0):
        merged = ScoreLog()
        for family in FAMILIES:
            found = examine(engine, family, args.limit, temperature, loads)
            merged.scores += found.log.scores
            merged.accepted += found.log.accepted
            if temperature == 0.0:
                mats[family] = found.mat
                looping, outputs = looping + found.looping, outputs + found.outputs
            ece = expected_calibration_error(found.log.scores, found.log.accepted)
            brier = brier_score(found.log.scores, found.log.accepted)
            mean = sum(found.lengths) / len(found.lengths)
            table.add_row(
                f"{temperature:g}",
                family,
                f"{found.mat:.2f}",
                f"{ece:.3f}",
                f"{brier:.3f}",
                f"{found.looping}/{found.outputs}",
                f"{mean:.0f}",
            )
        eces[temperature] = expected_calibration_error(merged.scores, merged.accepted)
    results = verdicts(mats, looping / outputs, eces, loads)
    console = Console()
    console.print(table)
    for what, seen, holds in results:
        console.print(f"{'ok  ' if holds else 'FAIL'} {what}: {seen}")
    raise SystemExit(0 if all(holds for *_, holds in results) else 1)


if __name__ == "__main__":
    main()

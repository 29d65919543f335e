"""Command line: `python -m harness.engines.sglang.gpu_check --out answers.json`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.engines.sglang.gpu_check.arms import Starts
from harness.engines.sglang.gpu_check.budget import Budget, OutOfBudget, alarm
from harness.engines.sglang.gpu_check.check import Check
from harness.engines.sglang.gpu_check.discovery import search_path
from harness.engines.sglang.gpu_check.document import Document
from harness.engines.sglang.gpu_check.lab import lab_facts
from harness.engines.sglang.gpu_check.plan import Plan, dry_plan, gpu_plan
from harness.engines.sglang.support import check_version
from harness.hardware.gpu import gpu_name
from harness.hardware.software import package_version
from harness.provenance import collect_provenance
from harness.requirements import find_gpus

BUDGET_S, STOPPING_S = 720.0, 20.0
PACKAGES = ("sglang", "sglang-kernel", "flashinfer-python", "triton")
Arguments = argparse.Namespace


def main(given: Sequence[str] | None = None) -> int:
    """Run the check; exit status 0 if every point has a value, 1 if not, 2 for wrong input."""
    arguments = parser().parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        check_version(package_version("sglang"))
        plan = plan_of(arguments)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as temporary:
        folder = arguments.logs or Path(temporary)
        document = run(plan, arguments, folder.resolve())
    for name, point in document.points.items():
        print(f"{name}: {'answered' if document.answered(name) else point['reason']}")
    return 0 if all(document.answered(name) for name in document.points) else 1


def parser() -> argparse.ArgumentParser:
    """Arguments of the command."""
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--out", type=Path, required=True, help="the JSON to write")
    found.add_argument("--logs", type=Path, help="new folder to keep the servers' logs in")
    found.add_argument("--budget", type=float, default=BUDGET_S, help="seconds for everything")
    found.add_argument("--dry-run", action="store_true", help="rehearse on a CPU, sizes small")
    found.add_argument("--lab-backend", default="triton", help="attention of the lab checkpoint")
    found.add_argument("--lab-dtype", default="bfloat16", help="precision of the lab checkpoint")
    return found


def plan_of(arguments: Arguments) -> Plan:
    """The plan that was asked for; InputError without a GPU."""
    if arguments.budget <= STOPPING_S:
        raise InputError("budget in seconds", seen=arguments.budget, allowed=f"> {STOPPING_S:g}")
    if arguments.logs and arguments.logs.exists():
        raise InputError("folder for logs exists", seen=arguments.logs, hint="name a new one")
    if arguments.dry_run:
        return dry_plan()
    gpus = find_gpus()
    if not gpus.memory_gib:
        raise InputError("no GPU to check", seen=str(gpus), hint="--dry-run rehearses on a CPU")
    return gpu_plan(gpus.memory_gib[0], arguments.lab_backend, arguments.lab_dtype)


def run(plan: Plan, arguments: Arguments, folder: Path) -> Document:
    """Answer all points within the budget, the last seconds of which are for stopping servers."""
    budget = Budget(arguments.budget - STOPPING_S)
    starts = Starts(budget, plan.sizes.start_s)
    facts = facts_of(plan, arguments, starts)
    document = Document(arguments.out.resolve(), facts, budget)
    found = search_path(folder / "plugin")
    plan = replace(plan, environment={**plan.environment, **found})
    try:
        with alarm(budget):
            Check(plan, folder, budget, document, starts).run()
    except OutOfBudget as error:
        document.give_up(error)
    document.finish()
    return document


def facts_of(plan: Plan, arguments: Arguments, starts: Starts) -> dict[str, Any]:
    """What holds for the whole document. Its list of server starts grows."""
    geometry = plan.geometry
    return {
        "dry_run": plan.dry_run,
        "budget_s": arguments.budget,
        "gpu": None if plan.dry_run else gpu_name(),
        "machine": collect_provenance(),
        "versions": {name: package_version(name) for name in PACKAGES},
        "weights": {"lab": lab_facts(), "dummy": geometry.facts("dummy")},
        "servers_at_once": plan.live,
        "starts": starts.seen,
    }


if __name__ == "__main__":
    sys.exit(main())

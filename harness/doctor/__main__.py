"""Is this machine fit to measure, and what runs here? Exit 0 when fit, 1 when something is bad."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from harness.doctor.cells import cells
from harness.doctor.check import Check, Checker, Here, fit
from harness.doctor.gpus import gpus
from harness.doctor.lock import lock
from harness.doctor.processor import clock, load, processor
from harness.doctor.resources import disk, energy, memory
from harness.doctor.screen import show
from harness.doctor.settings import results_dir
from harness.doctor.software import packages, source

CHECKS: tuple[Checker, ...] = (
    processor,
    clock,
    load,
    lock,
    memory,
    disk,
    gpus,
    energy,
    packages,
    source,
)
FIT, NOT_FIT = 0, 1


def main(words: Sequence[str] | None = None) -> int:
    """Look, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the same as data")
    parser.add_argument("--results", type=Path, default=results_dir(), help="where runs will go")
    chosen = parser.parse_args(words)
    checks = examine(Here(chosen.results))
    table = cells()
    if chosen.json:
        whole = {"fit": fit(checks), "checks": checks, "models": table}
        print(json.dumps(whole, default=asdict, indent=2))
    else:
        show(Console(), checks, table)
    return FIT if fit(checks) else NOT_FIT


def examine(here: Here, checks: Sequence[Checker] = CHECKS) -> list[Check]:
    """All lines of all checks, in order."""
    return [line for check in checks for line in check(here)]


if __name__ == "__main__":
    sys.exit(main())

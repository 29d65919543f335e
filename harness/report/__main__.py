"""`python -m harness.report [RESULTS] [--out DIR]`: tables, figures and one page, from files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evict.errors import InputError
from harness.report.report import PAGE, write_report

EXIT_INPUT = 2


def main(arguments: list[str] | None = None) -> int:
    """Command line; 2 for a folder that does not exist or a pack that was changed."""
    parser = argparse.ArgumentParser(prog="python -m harness.report", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=Path("results/runs"))
    parser.add_argument("--out", type=Path, help="default: RESULTS/report")
    options = parser.parse_args(arguments)
    out = options.out or options.results / "report"
    try:
        if not options.results.is_dir():
            raise InputError("no such folder", seen=options.results, hint="python run.py first")
        book = write_report(options.results, out)
    except InputError as error:
        print(error, file=sys.stderr)
        return EXIT_INPUT
    for line in book.headline:
        print(line)
    for model in book.models:
        for title, reason in model.missing:
            print(f"{model.label}: no {title}: {reason}")
    for run, reason in sorted(book.left_out.items()):
        print(f"left out: {run}: {reason}")
    print(out / PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

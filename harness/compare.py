"""`python -m harness.compare [results/runs] [--json]`: the comparison, from files alone."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from harness.collect import collect
from harness.collection import Collection
from harness.report.render import notes, print_summary
from harness.report.tables import summary

EXIT_INPUT = 2


def report(data: Collection, as_json: bool = False) -> None:
    """Print the summary table, or the same numbers as JSON."""
    table = summary(data)
    if not as_json:
        print_summary(table, data)
        return
    rows = json.loads(table.to_json(orient="records", double_precision=12))
    json.dump(
        {"rows": rows, "notes": notes(table, data), "left_out": data.left_out},
        sys.stdout,
        indent=2,
    )
    print()


def main(arguments: list[str] | None = None) -> int:
    """Command line; 2 when the folder does not exist."""
    parser = argparse.ArgumentParser(prog="python -m harness.compare", description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=Path("results/runs"))
    parser.add_argument("--json", action="store_true", help="numbers instead of a table")
    options = parser.parse_args(arguments)
    if not options.results.is_dir():
        print(f"no such folder; seen: {options.results}; try: python run.py first", file=sys.stderr)
        return EXIT_INPUT
    report(collect(options.results), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.mutations [--case NN ...]`: do the tests of each case see its careless variants?

Exit status 0 when every case is caught, 1 otherwise. --table prints the table of tests/README.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.mutations.copy import FAILED, PASSED, Copy, copied
from tests.mutations.mapping import table
from tests.mutations.mutation import Case, Mutation, Stale, cases
from tests.mutations.suite import named


def check(copy: Copy, case: Case, failing: Sequence[str]) -> list[str]:
    """What is wrong with a case; failing: tests that fail without a mutation."""
    files = list(named(case.prefix, copy.root))
    spoilt = [name for name in failing if name.startswith(case.prefix)]
    if spoilt or not files or not case.mutations:
        return [f"fails without a mutation: {', '.join(spoilt)}" if spoilt else "nothing to show"]
    found = (survived(copy, case, mutation, files) for mutation in case.mutations)
    return [line for line in found if line]


def unmutated(copy: Copy, chosen: Sequence[Case]) -> list[str]:
    """Tests of these cases that fail as they are; RuntimeError where pytest cannot tell."""
    files = sorted({file for case in chosen for file in named(case.prefix, copy.root)})
    ran = copy.test([case.prefix for case in chosen], files)
    if ran.status not in (PASSED, FAILED):
        raise RuntimeError(f"pytest ended with {ran.status}:\n{ran.tail}")
    return ran.failed


def survived(copy: Copy, case: Case, mutation: Mutation, files: Sequence[str]) -> str | None:
    """Why a careless variant does not count as seen; None where a test fails because of it."""
    try:
        with copy.mutated(mutation):
            ran = copy.test([case.prefix], files, "-x")
    except Stale as error:
        return f"stale: {error}"
    if ran.status == FAILED:
        return None
    why = "no test fails" if ran.status == PASSED else f"pytest ended with {ran.status}"
    return f"{why}: {mutation.careless}\n{ran.tail}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--case", type=int, nargs="+", default=[], metavar="NN")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    if options.table:
        print(table())
        return 0
    chosen = [case for case in cases() if not options.case or case.number in options.case]
    caught = 0
    with copied() as copy:
        failing = unmutated(copy, chosen)
        for case in chosen:
            began = time.monotonic()
            wrong = check(copy, case, failing)
            caught += not wrong
            said = "; ".join(wrong) if wrong else f"{len(case.mutations)} variant(s) seen"
            state = "NOT CAUGHT" if wrong else "caught"
            print(f"case {case.number:02d}: {state}: {said} ({time.monotonic() - began:.0f} s)")
            sys.stdout.flush()
    print(f"{caught} of {len(chosen)} cases caught")
    return int(caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())

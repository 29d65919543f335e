"""`python -m tests.faults --kills 200 --seed 0`: what does a sweep lose that is killed and harmed?

Runs a small real sweep on the lab model again and again in a temporary folder. Its process group
is killed at random moments, its disk fills up, its files are damaged; after every round the files
are checked. Prints one line and exits 1 when anything did not hold. About 25 minutes on two cores.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.faults.campaign import Campaign


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evict-faults-") as folder:
        tally = Campaign(Path(folder), options.kills, random.Random(options.seed)).run()
    print(tally.line())
    for kind, named in tally.wrong.items():
        for one in named:
            print(f"{kind}: {one}")
    return 0 if tally.good else 1


if __name__ == "__main__":
    sys.exit(main())

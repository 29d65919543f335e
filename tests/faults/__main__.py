"""`python -m tests.faults --kills 200 --seed 0`: what does a sweep lose that is killed and harmed?

Runs a small real sweep on the lab model again and again in temporary folders. Its process group
is killed at random moments, its disk fills up, its files are damaged; after every round the files
are checked. Prints one line and exits 1 when anything did not hold. About 20 minutes on two cores.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.faults.campaign import Campaign
from tests.faults.tally import Tally


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lanes", type=int, default=2, help="sweeps side by side, a core each")
    options = parser.parse_args()
    shares = [len(range(lane, options.kills, options.lanes)) for lane in range(options.lanes)]
    with ProcessPoolExecutor(options.lanes) as pool:
        lanes = [
            pool.submit(_campaign, share, f"{options.seed}/{lane}")
            for lane, share in enumerate(shares)
            if share
        ]
        tally = Tally()
        for lane in lanes:
            tally.join(lane.result())
    print(tally.line())
    for kind, named in tally.wrong.items():
        for one in named:
            print(f"{kind}: {one}")
    return 0 if tally.good else 1


def _campaign(kills: int, seed: str) -> Tally:
    with tempfile.TemporaryDirectory(prefix="evict-faults-") as folder:
        return Campaign(Path(folder), kills, random.Random(seed)).run()


if __name__ == "__main__":
    sys.exit(main())

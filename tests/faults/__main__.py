"""`python -m tests.faults --kills 200 --seed 0`: what does a sweep lose that is killed and harmed?

Runs a small real sweep on the lab model again and again in temporary folders. Its process group
is killed at random moments, its disk fills up, its files are damaged; after every round the files
are checked. Prints one line and exits 1 when anything did not hold. About 20 minutes on two cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
from multiprocessing.connection import Connection
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
    signal.signal(signal.SIGTERM, _leave)
    shares = [len(range(lane, options.kills, options.lanes)) for lane in range(options.lanes)]
    lanes = [_start(share, f"{options.seed}/{lane}") for lane, share in enumerate(shares) if share]
    tally = Tally()
    for told, process in lanes:
        tally.join(told.recv())
        process.join()
    print(tally.line())
    for kind, named in tally.wrong.items():
        for what in named:
            print(f"{kind}: {what}")
    return 0 if tally.good else 1


def _start(kills: int, seed: str) -> tuple[Connection, multiprocessing.Process]:
    """A campaign in a process that ends with this one; its tally comes through the connection."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_campaign, args=(kills, seed, there), daemon=True)
    process.start()
    there.close()
    return here, process


def _campaign(kills: int, seed: str, there: Connection) -> None:
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="evict-faults-") as folder:
        tally = Campaign(Path(folder), kills, random.Random(seed)).run()
    there.send(tally)


def _leave(*_: object) -> None:
    """End as after an error: nothing stays mounted and no sweep is left running."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("ended by SIGTERM")


if __name__ == "__main__":
    sys.exit(main())

"""`python run.py` as a user types it: a process of its own, its words and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.config import ROOT

PATIENCE_S = 300.0


def run_py(
    *arguments: str, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run to its end on one thread; `environment` is added to the caller's."""
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

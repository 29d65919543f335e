"""Scenarios that go wrong, for the tests of `run_scenario` itself."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def raises(reason: str) -> dict[str, Any]:
    """An error with a traceback."""
    raise ValueError(reason)


def dies() -> dict[str, Any]:
    """An exit without a result, as SGLang's scheduler does to its parent."""
    print("about to die", flush=True)
    os.kill(os.getpid(), 9)
    return {}


def hangs(pid_file: str) -> dict[str, Any]:
    """Never done, and neither is its child."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pid_file).write_text(str(child.pid))
    print("child started", flush=True)
    time.sleep(600)
    return {}


def answers(**arguments: Any) -> dict[str, Any]:
    """What arrived, and whether the stand-ins and the repository can be imported."""
    import sgl_kernel
    import torchvision

    import harness  # noqa: F401

    places = [str(Path(str(module.__file__)).parent) for module in (sgl_kernel, torchvision)]
    return {"arguments": arguments, "standins": places, "threads": os.environ["OMP_NUM_THREADS"]}

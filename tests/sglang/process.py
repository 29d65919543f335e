"""Runs a scenario in a fresh process: SGLang holds one engine per process and kills it on errors.

`run_scenario` is called by tests; `python -m tests.sglang.process` is its other end.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STANDINS = Path(__file__).resolve().parent / "standins"
LAST_LINES = 40
Scenario = Callable[..., dict[str, Any]]


class ScenarioFailed(AssertionError):
    """A scenario ended with an error, without a result or not in time; holds its last lines."""


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a process that runs SGLang on a CPU; `env` replaces single variables."""
    search = [str(STANDINS), str(ROOT), os.environ.get("PYTHONPATH", "")]
    binaries = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, search)),
        "PATH": os.pathsep.join(filter(None, binaries)),
        "SGLANG_USE_CPU_ENGINE": "1",
        "SGLANG_EXTERNAL_MODEL_PACKAGE": "served_models",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        **(env or {}),
    }


def run_scenario(
    scenario: str | Scenario,
    arguments: Mapping[str, Any],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float = 600.0,
) -> dict[str, Any]:
    """The scenario's result, by way of JSON.

    scenario: a module-level function of an importable module, or "module:function". arguments: its
    named arguments, JSON values or paths (which arrive as text). timeout: seconds; then the whole
    process group is killed. Error: ScenarioFailed with the last lines of the log.
    """
    name = scenario if isinstance(scenario, str) else f"{scenario.__module__}:{scenario.__name__}"
    with tempfile.TemporaryDirectory(prefix="scenario-") as folder:
        given, result, log = (Path(folder) / part for part in ("given.json", "result.json", "log"))
        given.write_text(json.dumps(dict(arguments), default=os.fspath))
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.sglang.process", name, str(given), str(result)],
                cwd=folder,
                env=environment(env),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            code = _wait(process, timeout)
        if code == 0 and result.exists():
            return dict(json.loads(result.read_text()))
        ended = f"not done after {timeout:g} s" if code is None else f"ended with {code}"
        raise ScenarioFailed(f"{name} {ended}; its last lines:\n{last_lines(log)}")


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """The end of a log file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-count:])


def _wait(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    """Exit code, None on time-out. No process of the group is left in any case."""
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _main(name: str, given: str, result: str) -> None:
    """Run one scenario and leave at once: threads and sockets of an engine would linger."""
    module, function = name.split(":")
    code = 1
    try:
        scenario: Scenario = getattr(importlib.import_module(module), function)
        document = json.dumps(scenario(**json.loads(Path(given).read_text())))
        Path(result).write_text(document)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main(*sys.argv[1:])

"""What `python run.py` does: compose, check the machine, run, print. Errors end in short words."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from evict.errors import InputError
from harness import requirements
from harness.compose import arms, engine_opener, run_config
from harness.config import CONF, RunConfig, register

if TYPE_CHECKING:
    from harness.experiment import Outcome

EXIT_OK, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130
FULL_ERROR = "HYDRA_FULL_ERROR"
KEYS_HINT = "python run.py --cfg job lists the keys (engine.* needs engine=torch)"

__all__ = ["guarded", "register", "run_command"]


@dataclass(frozen=True)
class Job:
    """One job of a command line: its overrides, its exit code, what went wrong."""

    overrides: str
    code: int
    error: str = ""


_jobs: list[Job] = []


@hydra.main(  # type: ignore[untyped-decorator, unused-ignore]
    version_base="1.3", config_path=str(CONF), config_name="config"
)
def run_command(composed: DictConfig) -> None:
    """One job. A failure ends this job only, so that a sweep goes on."""
    overrides = " ".join(HydraConfig.get().overrides.task)
    try:
        _jobs.append(Job(overrides, _job(run_config(composed))))
    except Exception as error:
        code = _explain(error)
        _jobs.append(Job(overrides, code, f"{type(error).__name__}"))


def _job(config: RunConfig) -> int:
    logging.basicConfig(level=config.log_level, format="%(levelname)s %(message)s")
    methods = arms(config)
    requirements.check(config)
    # Imported late: a machine that cannot run the model is told so within seconds.
    from harness.compare import report
    from harness.experiment import run
    from harness.profiling.cost import profile

    outcome = run(config, methods, engine_opener(config), profile)
    if config.profile == "only":
        return _draw_costs(outcome)
    report(outcome.collect(Path(config.results_dir)))
    print(f"results: {Path(config.results_dir) / config.name}")
    if outcome.skipped:
        print(f"{len(outcome.skipped)} of {len(outcome.runs)} runs were finished before: skipped")
    return outcome.exit_code(config.allow_partial)


def _draw_costs(outcome: Outcome) -> int:
    from evict.cost import CostTable
    from harness.costs import FILE
    from harness.report.cost import cost_text
    from harness.report.figures import cost_curve

    for folder in outcome.cost_folders:
        table = CostTable.load(folder / FILE)
        cost_curve(table, folder)
        print("\n".join(cost_text(table)))
        print(f"cost table and figure: {folder}")
    return EXIT_OK


def guarded(command: Callable[[], None]) -> int:
    """Exit code of the command: the largest of its jobs' codes; errors in words, no trace."""
    wants_trace = os.environ.get(FULL_ERROR) == "1"
    os.environ[FULL_ERROR] = "1"  # Hydra then raises instead of printing and exiting
    try:
        command()
    except KeyboardInterrupt:
        return _say("interrupted; finished rows stay; the same command resumes", EXIT_INTERRUPTED)
    except (HydraException, OmegaConfBaseException) as error:
        if wants_trace:
            raise
        return _explain(error)
    _print_failed_jobs()
    return max((job.code for job in _jobs), default=EXIT_OK)


def _print_failed_jobs() -> None:
    failed = [job for job in _jobs if job.code != EXIT_OK]
    if len(_jobs) > 1 and failed:
        print(f"{len(failed)} of {len(_jobs)} jobs failed:", file=sys.stderr)
        for job in failed:
            print(f"  {job.overrides}: {job.error or 'failed requests'}", file=sys.stderr)


def _explain(error: Exception) -> int:
    if isinstance(error, InputError | HydraException | OmegaConfBaseException):
        return _say(_short(error), EXIT_INPUT)
    if isinstance(error, OSError):
        return _say(f"{error}; finished rows stay; the same command resumes", EXIT_FAILED)
    traceback.print_exception(error)
    return EXIT_FAILED


def _short(error: Exception) -> str:
    """The message without Hydra's search paths, with the value error that caused it."""
    if isinstance(error, InputError):
        return str(error)
    lines = str(error).split("Config search path:")[0].strip().splitlines()
    if lines[0].startswith("Could not override"):
        key = lines[0].split("'")[1]
        return str(InputError("unknown key", seen=key, hint=KEYS_HINT))
    if error.__cause__ is not None:
        lines += str(error.__cause__).splitlines()[:1]
    return "\n".join(lines)


def _say(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code

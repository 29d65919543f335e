"""What `python run.py` does: compose, check the machine, run, print. Errors end in short words."""

from __future__ import annotations

import logging
import os
import signal
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
from harness.config import CONF, register
from harness.engines.base import EngineLost
from harness.interrupts import insistent
from harness.stages import Stage, stages

if TYPE_CHECKING:
    from harness.experiment import Outcome

EXIT_OK, EXIT_FAILED, EXIT_INPUT, EXIT_INTERRUPTED = 0, 1, 2, 130
FULL_ERROR = "HYDRA_FULL_ERROR"
KEYS_HINT = "python run.py --cfg job lists the keys (engine.* needs engine=NAME)"

__all__ = ["guarded", "register", "run_command"]


@dataclass(frozen=True)
class Job:
    """One job of a command line: its overrides, its exit code, what went wrong."""

    overrides: str
    code: int
    error: str = ""


class JobFailed(Exception):
    """A job of a sweep, run in a process of its own, has failed requests."""


_jobs: list[Job] = []
_guards: list[int] = []  # process ids in which `guarded` reports the jobs


@hydra.main(  # type: ignore[untyped-decorator, unused-ignore]
    version_base="1.3", config_path=str(CONF), config_name="config"
)
def run_command(composed: DictConfig) -> None:
    """One job. A failure ends this job only, so that a sweep goes on."""
    task = list(HydraConfig.get().overrides.task)
    overrides = " ".join(task)
    if os.getpid() not in _guards:  # a launcher's worker: the launcher reports what is raised here
        if any(job.code for job in _run_job(task, str(composed.log_level))):
            raise JobFailed(overrides)
        return
    try:
        _jobs.extend(_run_job(task, str(composed.log_level)))
    except Exception as error:
        _jobs.append(Job(overrides, _explain(error), type(error).__name__))


def _run_job(task: list[str], log_level: str) -> list[Job]:
    """How each stage of a job ended; the error of the only stage is raised."""
    logging.basicConfig(level=log_level, format="%(levelname)s %(message)s")
    suite = stages(task)
    if any(stage.config.procedure for stage in suite):
        return [Job(stage.overrides, _carry_out("procedure", stage)) for stage in suite]
    # Imported late: a machine that cannot run the model is told so within seconds.
    from harness.profiling.cost import profile
    from harness.suite import run_stages

    jobs: list[Job] = []

    def failed(stage: Stage, error: Exception) -> None:
        if len(suite) == 1:
            raise error
        jobs.append(Job(stage.overrides, _explain(error), type(error).__name__))

    outcomes = run_stages(suite, profile, failed)
    show = _show if len(suite) == 1 else _show_briefly
    for stage, outcome in outcomes:
        jobs.append(Job(stage.overrides, show(stage, outcome), _print_unfinished(outcome)))
    return jobs


def _print_unfinished(outcome: Outcome) -> str:
    """Say which runs are not whole, and why; the same in one line."""
    lines = [
        f"{name}: {'; '.join(reason.splitlines()[0] for reason in reasons)}"
        for name, reasons in outcome.unfinished().items()
    ]
    if lines:
        print(f"{len(lines)} of {len(outcome.runs)} runs are not whole:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in lines), file=sys.stderr)
    return "; ".join(lines)


def _show(stage: Stage, outcome: Outcome) -> int:
    """Tables of one run; what was measured where nothing else was to be."""
    from harness.compare import report

    config = stage.config
    if "only" in (config.profile, config.tune):
        return _draw_costs(outcome)
    report(outcome.collect(Path(config.results_dir)))
    print(f"results: {Path(config.results_dir) / config.name}")
    if config.engine.get("afterwards"):
        _carry_out("afterwards", stage)
    if outcome.skipped:
        print(f"{len(outcome.skipped)} of {len(outcome.runs)} runs were finished before: skipped")
    return outcome.exit_code(config.allow_partial)


def _carry_out(kind: str, stage: Stage) -> int:
    """Call the function of the run's config that a file under conf/ names."""
    config = stage.config
    name = config.procedure if kind == "procedure" else config.engine["afterwards"]
    hydra.utils.get_method(name)(config)
    return EXIT_OK


def _show_briefly(stage: Stage, outcome: Outcome) -> int:
    """One line for one of several runs."""
    config = stage.config
    done = sum(result.status == "ok" for result in outcome.results.values())
    print(
        f"{config.name} T={config.temperature:g} {config.engine['name']}: {len(outcome.runs)} runs,"
        f" {len(outcome.skipped)} finished before, {done} now; "
        f"python -m harness.report {config.results_dir}"
    )
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
    for tuning in outcome.tunings:
        print("\n".join(tuning.text()))
    return EXIT_OK


def guarded(command: Callable[[], None]) -> int:
    """Exit code of the command: the largest of its jobs' codes; errors in words, no trace."""
    wants_trace = os.environ.get(FULL_ERROR) == "1"
    os.environ[FULL_ERROR] = "1"  # Hydra then raises instead of printing and exiting
    _guards.append(os.getpid())
    try:
        with insistent():
            command()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is stopped: what is left is to exit
        return _say("interrupted; finished rows stay; the same command resumes", EXIT_INTERRUPTED)
    except (HydraException, OmegaConfBaseException) as error:
        if wants_trace:
            raise
        return _explain(error)
    except (InputError, JobFailed) as error:
        return _explain(error)
    _print_failed_jobs()
    return max((job.code for job in _jobs), default=EXIT_OK)


def _print_failed_jobs() -> None:
    failed = [job for job in _jobs if job.code != EXIT_OK]
    if len(_jobs) > 1 and failed:
        print(f"{len(failed)} of {len(_jobs)} jobs failed:", file=sys.stderr)
        for job in failed:
            print(f"  {job.overrides}: {job.error}", file=sys.stderr)


def _explain(error: Exception) -> int:
    if isinstance(error, InputError | HydraException | OmegaConfBaseException):
        return _say(_short(error), EXIT_INPUT)
    if isinstance(error, JobFailed):
        return _say(f"{error}: failed requests, see the job's own output", EXIT_FAILED)
    if isinstance(error, EngineLost):
        return _say(f"{error}\nthe same command tries again", EXIT_FAILED)
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

"""Running the stages of one command line one after the other, under one progress bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.compose import engine_opener
from harness.costs import Profiler
from harness.experiment import Outcome, generations, run
from harness.plan import make_plan
from harness.progress import bar
from harness.stages import Stage


def run_stages(
    suite: Sequence[Stage],
    profiler: Profiler,
    failed: Callable[[Stage, Exception], None],
) -> list[tuple[Stage, Outcome]]:
    """Run every stage; one that raises is handed to `failed` and the next one goes on."""
    outcomes = []
    with bar(sum(_pending(stage) for stage in suite), spoken=len(suite) > 1) as progress:
        for stage in suite:
            opener = engine_opener(stage.config)
            try:
                outcome = run(stage.config, stage.methods, opener, profiler, progress)
            except Exception as error:
                failed(stage, error)
            else:
                outcomes.append((stage, outcome))
    return outcomes


def _pending(stage: Stage) -> float:
    """Generations still to be made."""
    if "only" in (stage.config.profile, stage.config.tune):
        return 0
    return generations(stage.config, make_plan(stage.config, stage.methods))

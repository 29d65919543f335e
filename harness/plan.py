"""What one command line will run: benchmarks, methods, and where each run belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.benchmarks import (
    Prompt,
    check_disjoint,
    check_references,
    content_hash,
    load,
    load_file,
    members,
)
from harness.compose import absolute, build_method
from harness.config import ROOT, BenchmarkConfig, MethodConfig, ModelConfig, RunConfig
from harness.engines.base import Method
from harness.engines.replay.recording import recording_hash
from harness.identity import Identity, file_hash, folder_hash, run_path
from harness.store import is_finished

MODEL_KEYS = (
    "target",
    "draft",
    "revision",
    "draft_revision",
    "context_length",
    "trust_remote_code",
)
METHOD_KEYS = ("drafter", "growth", "selection", "draft_tokens", "scores", "tune")
SAMPLING_KEYS = ("temperature", "max_new_tokens", "seed", "repeats", "truncate", "history")


@dataclass(frozen=True)
class Cell:
    """One run: a method on a benchmark, its identity and its directory.

    A method with a `tune` block has its tuned setting only once it is known (`with_method`); the
    identity names what is tuned and over which values, not the outcome.
    """

    config: MethodConfig
    method: Method
    benchmark: BenchmarkConfig
    identity: Identity
    path: Path

    def with_method(self, config: MethodConfig) -> Cell:
        """The same run with its method's settings known."""
        return replace(self, config=config, method=build_method(config))

    @property
    def finished(self) -> bool:
        """Whether this very run is there, complete."""
        return is_finished(self.path, self.identity.run_hash)


@dataclass(frozen=True)
class Group:
    """The cells that share a benchmark and are measured interleaved."""

    benchmark: BenchmarkConfig
    prompts: list[Prompt]
    cells: list[Cell]

    @property
    def pending(self) -> list[Cell]:
        """Cells still to run."""
        return [cell for cell in self.cells if not cell.finished]


@dataclass(frozen=True)
class Plan:
    """Everything to run, checked, before anything is loaded or written."""

    groups: list[Group]
    calibration: list[Prompt]

    @property
    def methods(self) -> list[Method]:
        """The methods, in the order of the command line."""
        return [cell.method for cell in self.groups[0].cells]

    @property
    def pending(self) -> list[Cell]:
        """Cells still to run, of all groups."""
        return [cell for group in self.groups for cell in group.pending]


def make_plan(config: RunConfig, methods: Sequence[MethodConfig]) -> Plan:
    """Load prompts, build methods, name directories. InputError for anything that cannot run."""
    built = [(method, build_method(method)) for method in methods]
    engine = engine_identity(config)
    calibration = load_file(ROOT / config.calibration, "calibration", "lab")
    model = model_identity(config.model)
    groups = []
    for benchmark in members(config.benchmark):
        bundled = config.model.lab or bool(config.engine.get("bundled_prompts"))
        prompts = load(benchmark, bundled, config.limit)
        check_disjoint(prompts, calibration)
        if config.history == "reference":
            check_references(prompts)
        keys = {"model": model, "engine": engine, "prompts": content_hash(prompts)}
        cells = [_cell(config, one, method, benchmark, keys) for one, method in built]
        groups.append(Group(benchmark, prompts, cells))
    return Plan(groups, calibration)


def _cell(
    config: RunConfig,
    one: MethodConfig,
    method: Method,
    benchmark: BenchmarkConfig,
    keys: dict[str, Any],
) -> Cell:
    settings = asdict(one)
    replica = {"replica": one.replica} if one.replica else {}
    identity = Identity(
        method={**{key: settings[key] for key in METHOD_KEYS}, **replica},
        sampling={key: getattr(config, key) for key in SAMPLING_KEYS},
        **keys,
    )
    names = (config.model.name, one.name, benchmark.name)
    engine = str(config.engine["name"])
    path = run_path(
        Path(config.results_dir), config.name, names, config.temperature, engine, identity.run_hash
    )
    return Cell(one, method, benchmark, identity, path)


def engine_identity(config: RunConfig) -> dict[str, Any]:
    """The engine's settings, whether it records trees, and the content of what it reads.

    How its processes are kept (`process`) and what follows (`afterwards`) change no measurement
    and are left out.
    """
    values = {**config.engine, "record_trees": config.record_trees}
    for name in ("process", "afterwards"):
        values.pop(name, None)
    if config.cost_table is not None:
        values["cost_table"] = file_hash(Path(config.cost_table))
    if "recording" in values:
        values["recording"] = recording_hash(Path(str(values["recording"])))
    return values


def model_identity(model: ModelConfig) -> dict[str, Any]:
    """Ids and revisions, and for local checkpoints a sampled hash of their files."""
    here = absolute(model)
    folders = [Path(place) for place in (here.target, here.draft) if place and Path(place).is_dir()]
    values = {key: getattr(model, key) for key in MODEL_KEYS}
    if model.enable_thinking is not None:
        values["enable_thinking"] = model.enable_thinking
    return {**values, "weights": folder_hash(*folders) if folders else None}


def cell_config(config: RunConfig, cell: Cell) -> dict[str, Any]:
    """config.yaml of one run: the whole resolved config with this cell's method and benchmark."""
    return {
        **asdict(config),
        "method": asdict(cell.config),
        "benchmark": asdict(cell.benchmark),
        "run_hash": cell.identity.run_hash,
        "pair_hash": cell.identity.pair_hash,
    }

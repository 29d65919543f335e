"""The types of everything under conf/: an unknown key or a wrong type is refused early."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

ROOT = Path(__file__).resolve().parent.parent
CONF = ROOT / "conf"


@dataclass
class Requires:
    """What a model needs: this many GPUs with this much memory each."""

    gpus: int = 0
    gpu_memory_gib: float = 0.0


@dataclass
class ModelConfig:
    """A target and its drafter. Paths are relative to the repository root, or hub ids.

    enable_thinking: what the chat template is told; null for one without that option.
    """

    name: str = MISSING
    label: str = MISSING
    target: str = MISSING
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    engine: str = MISSING
    engines: list[str] = field(default_factory=list)
    context_length: int | None = None
    trust_remote_code: bool = False
    enable_thinking: bool | None = None
    lab: bool = False
    requires: Requires = field(default_factory=Requires)
    total_params_b: float | None = None
    active_params_b: float | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    tensor_parallel: int = 1


@dataclass
class TuneConfig:
    """A setting chosen on calibration prompts: dotted `parameter`, the `values` that are tried."""

    parameter: str = MISSING
    values: list[Any] = MISSING


@dataclass
class MethodConfig:
    """How drafts are grown and how much of them is verified.

    scores: draft | beta | isotonic | verdict, see harness.engines.base.Method.
    baseline: "plain" or "full" marks the run that speedups are measured against. replica: above 0
    for the same method measured once more, as a run of its own.
    rank: place in a table. remark: what a reader of a table must know of the method.
    """

    name: str = MISSING
    label: str = MISSING
    drafter: str = "none"
    growth: Any = None
    selection: Any = None
    draft_tokens: int = 1
    scores: str = "draft"
    tune: TuneConfig | None = None
    lossless: bool = True
    baseline: str | None = None
    replica: int = 0
    rank: int = 100
    remark: str = ""


@dataclass
class HubConfig:
    """Where a public set lies and how a row becomes turns: a template, or a field of turns."""

    dataset: str = MISSING
    config: str | None = None
    split: str = MISSING
    revision: str = MISSING
    template: str | None = None
    turns_field: str | None = None
    reference_field: str | None = None


@dataclass
class BenchmarkConfig:
    """One question set. source: auto | lab | hub | file; auto takes `path` if given, then lab."""

    name: str = MISSING
    label: str = MISSING
    source: str = "auto"
    path: str | None = None
    bundled: str | None = None
    hub: HubConfig | None = None


@dataclass
class BenchmarkChoice(BenchmarkConfig):
    """A question set, or a named collection of them in `members`."""

    members: dict[str, BenchmarkConfig] = field(default_factory=dict)


@dataclass
class RunConfig:
    """One command line: see conf/config.yaml for what each field means."""

    model: ModelConfig = MISSING
    method: MethodConfig = MISSING
    benchmark: BenchmarkChoice = MISSING
    engine: Any = MISSING
    hardware: Any = None
    batch_size: int = 1
    procedure: str | None = None
    compare: list[str] = field(default_factory=list)
    stages: list[str] = field(default_factory=list)
    name: str = MISSING
    temperature: float = MISSING
    max_new_tokens: int = MISSING
    limit: int | None = MISSING
    repeats: int = MISSING
    seed: int = MISSING
    record_trees: bool = MISSING
    profile: str = MISSING
    cost_table: str | None = MISSING
    tune: str = MISSING
    tune_prompts: int = MISSING
    history: str = MISSING
    truncate: str = MISSING
    machine: str = MISSING
    telemetry_s: float = MISSING
    foreign_gpu: str = MISSING
    calibration: str = MISSING
    warmup_prompts: int = MISSING
    warmup_tokens: int = MISSING
    results_dir: str = MISSING
    allow_partial: bool = MISSING
    log_level: str = MISSING


def register() -> None:
    """Make the schema known to Hydra as `schema`, the first entry of conf/config.yaml."""
    ConfigStore.instance().store(name="schema", node=RunConfig)


def known(group: str) -> list[str]:
    """Names that `group=` accepts, sorted."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))

"""What is run and how large: one plan for a GPU, a small one that a CPU can rehearse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from harness.engines.sglang.arguments import Settings
from harness.engines.sglang.gpu_check.dummy import QWEN3_30B, TINY, Geometry

# Cache, graphs, workspaces and CUDA's own beside the weights of one server.
BESIDE_WEIGHTS_GIB = 9.0
# No network, and no minute of waiting for a dump when a server fails.
GPU_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {"HF_HUB_OFFLINE": "1", "SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS": "0"}
)
CPU_ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "SGLANG_USE_CPU_ENGINE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        **GPU_ENVIRONMENT,
    }
)
QUICK = {"skip_server_warmup": True, "skip_tokenizer_init": True, "max_total_tokens": 8192}


@dataclass(frozen=True)
class Regime:
    """Settings under which arms are timed. package: what they need installed, None for nothing."""

    name: str
    settings: Settings
    package: str | None = None


@dataclass(frozen=True)
class Sizes:
    """How much is asked. Widths are verify lengths, root included, the last one the whole tree.

    prompts, tokens: of every generation that is compared with another; cost_*: of those that are
    timed, with prompts of `context` tokens. rounds: of the cost by width. start_s: what a server's
    start takes until one was seen.
    """

    match_widths: tuple[int, ...]
    cost_widths: tuple[int, ...]
    prompts: int
    tokens: int
    cost_prompts: int
    cost_tokens: int
    context: int
    rounds: int
    start_s: float


@dataclass(frozen=True)
class Plan:
    """One run of the check. lab: settings for the trained checkpoint; live: servers at once."""

    dry_run: bool
    lab: Settings
    geometry: Geometry
    regimes: tuple[Regime, ...]
    sizes: Sizes
    live: int
    environment: Mapping[str, str]
    server_args: Mapping[str, Any] = field(default_factory=dict)


def gpu_plan(memory_gib: float, lab_backend: str, lab_dtype: str) -> Plan:
    """For one GPU of this memory. flashinfer has no kernel for the lab model's heads of 32."""
    base = Settings(
        attention_backend=lab_backend,
        moe_runner_backend="triton",
        dtype=lab_dtype,
        context_length=2048,
        mem_fraction_static=0.5,
        server_args={**QUICK, "disable_prefill_cuda_graph": True},
    )
    cost = replace(
        base,
        dtype="bfloat16",
        mem_fraction_static=0.9,
        context_length=4096,
        server_args={**base.server_args, "load_format": "dummy"},
    )
    sizes = Sizes(
        match_widths=(1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32),
        cost_widths=(1, 8, 16, 32),
        prompts=5,
        tokens=128,
        cost_prompts=6,
        cost_tokens=96,
        context=1024,
        rounds=3,
        start_s=60.0,
    )
    fits = 2 * (QWEN3_30B.gib(2) + BESIDE_WEIGHTS_GIB) <= memory_gib
    live = 2 if fits else 1
    return Plan(False, base, QWEN3_30B, _regimes(cost), sizes, live, GPU_ENVIRONMENT)


def dry_plan() -> Plan:
    """The same on a CPU: the lab model, a tiny geometry, one regime, no graphs."""
    base = Settings(
        attention_backend="torch_native",
        prefill_attention_backend="intel_amx",
        decode_attention_backend="intel_amx",
        moe_runner_backend="auto",
        dtype="float32",
        device="cpu",
        disable_cuda_graph=True,
        disable_overlap_schedule=True,
        context_length=1024,
        mem_fraction_static=0.5,
        server_args={**QUICK, "watchdog_timeout": 600},
    )
    cost = replace(base, server_args={**base.server_args, "load_format": "dummy"})
    sizes = Sizes(
        match_widths=(1, 6, 32),
        cost_widths=(1, 8, 32),
        prompts=2,
        tokens=12,
        cost_prompts=2,
        cost_tokens=10,
        context=24,
        rounds=1,
        start_s=20.0,
    )
    regimes = (Regime("cpu", cost), Regime("flashinfer", cost, "flashinfer"))
    return Plan(True, base, TINY, regimes, sizes, 2, CPU_ENVIRONMENT)


def _regimes(cost: Settings) -> tuple[Regime, ...]:
    """The headline first: what comes later may find no time."""
    overlap = {"overlap": False, "no_overlap": True}
    packages = {"flashinfer": "flashinfer", "triton": "triton"}
    return tuple(
        Regime(
            f"{backend}_{name}",
            replace(cost, attention_backend=backend, disable_overlap_schedule=off),
            package,
        )
        for name, off in overlap.items()
        for backend, package in packages.items()
    )

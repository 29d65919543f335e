"""How the tables about the runs themselves are laid out: what they took, whether to trust them."""

from __future__ import annotations

from harness.report.cells import (
    ENGINE,
    PER_METHOD,
    T,
    benchmark_heads,
    by_rank,
    change,
    equal_arms,
    half_width,
    itself,
    overall,
    per_hour,
    per_token,
    percentile,
    plain,
    reasons,
    share,
)
from harness.report.doubt import COUNTS, ENDING, TIME
from harness.report.layout import Column, Layout

EVIDENCE: dict[str, Layout] = {
    "floor": Layout(
        (plain("experiment", "experiment"), ENGINE, T),
        "benchmark",
        equal_arms,
        order=benchmark_heads,
        doubt=f"ratio{ENDING}",
    ),
    "outputs": Layout(
        (
            *PER_METHOD,
            plain("pairs", "pairs", "{:.0f}"),
            plain("equal", "equal", "{:.0f}"),
            plain("near tie", "near_tie", "{:.0f}"),
            plain("stop rule", "stop_rule", "{:.0f}"),
            plain("fault", "fault", "{:.0f}"),
            plain("first divergence", "first_divergence", "{:.0f}"),
            Column("itself", itself),
        ),
        shown=overall,
    ),
    "tuning": Layout(
        (
            plain("experiment", "experiment"),
            ENGINE,
            T,
            plain("method", "method_label"),
            plain("setting", "parameter"),
            plain("value", "value"),
        )
    ),
    "spread": Layout(
        (
            *PER_METHOD,
            plain("repeats", "repeats", "{:.0f}"),
            Column("tok/s", half_width, doubt=TIME),
            plain("peak tok/s", "peak_tokens_per_s", "{:.0f}", doubt=TIME),
            plain("steps", "steps", "{:.0f}"),
            percentile("p50"),
            percentile("p90"),
            percentile("p99"),
        ),
        shown=by_rank,
    ),
    "drift": Layout(
        (
            plain("experiment", "experiment"),
            ENGINE,
            T,
            plain("process", "part"),
            plain("generations", "generations", "{:.0f}"),
            plain("hours", "hours", "{:.2f}"),
            Column("change, %", change),
            Column("per hour, %", per_hour),
        )
    ),
    "resources": Layout(
        (
            *PER_METHOD,
            plain("CPU s", "cpu_s", "{:.1f}", doubt=TIME),
            plain("memory, MiB", "memory_peak_mib", "{:.0f}", doubt=COUNTS),
            plain("GPU memory, MiB", "gpu_memory_peak_mib", "{:.0f}", doubt=COUNTS, optional=True),
            plain("energy, J", "energy_j", "{:.1f}", doubt=TIME),
            Column("J/token", per_token, doubt=TIME),
            plain("GPU clock, MHz", "gpu_clock_mhz", "{:.0f}", optional=True),
            plain("others' cores", "others_cores", "{:.2f}"),
        ),
        shown=by_rank,
    ),
    "runs": Layout(
        (
            plain("run", "run"),
            plain("verdict", "verdict"),
            plain("status", "status"),
            plain("ok", "requests_ok", "{:.0f}"),
            plain("errors", "requests_error", "{:.0f}"),
            plain("truncated", "truncated_requests", "{:.0f}"),
            share("engine time", "engine_share", 1, TIME),
            Column("reasons", reasons),
        )
    ),
}

"""Every code that a verdict may hold, and what it means; nothing else may be a Reason's code."""

from __future__ import annotations

RUN: dict[str, str] = {
    "warm_prefix_cache": "prompts lay in the prefix cache: their prefill was not measured",
    "prefix_cache_unknown": "the engine does not say whether prompts lay in its prefix cache",
    "few_busy_samples": "the GPU was seen at work too rarely to know its clocks",
    "no_gpu_telemetry": "nothing was read from the GPU: clocks and other users are unknown",
    "foreign_gpu_process": "somebody else computed on the GPU",
    "throttled": "power or temperature lowered the GPU's clocks",
    "cpu_load": "other processes used the processor",
    "cpu_load_unknown": "whether other processes used the processor is not known",
    "warmup_overlap": "a warm-up ran into the measurement",
    "mixed_session": "rows from processes whose engine or machine differ",
    "warmup_prompt_measured": "a warm-up prompt was measured as well",
    "counters_inconsistent": "counters contradict each other",
    "counters_missing": "steps that nobody counted",
    "experts_out_of_bounds": "an expert count that this many tokens cannot have",
    "looks_greedy": "sampling that gives one and the same answer",
    "outputs_differ": "greedy outputs differ from plain decoding's without an excuse",
    "mat_near_one": "the target keeps next to nothing of a trained drafter's drafts",
    "partial": "not every request has an answer",
    "not_recorded": "an older version wrote down too little to judge by",
}
COMPARISON: dict[str, str] = {
    "not_comparable": "the two sides differ in more than their method",
    "clocks_differ": "the GPU ran at other clocks in one arm",
    "run_invalid": "one of the runs is invalid",
    "code_differs": "the two sides were measured by other code",
    "not_interleaved": "the two sides were measured by different processes",
    "aa_floor": "no larger than the difference between two equal arms here",
}
CODES = RUN | COMPARISON

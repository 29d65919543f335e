"""What may differ between the arms of a comparison: the one list."""

from __future__ import annotations

from fnmatch import fnmatchcase

# Patterns of dotted names, as a server or an engine reads its configuration back.
MAY_DIFFER = (
    # the treatment
    "speculative_*",
    "_speculative_*",
    # what a drafter's weights and cache take from the memory of the same fraction
    "max_total_num_tokens",
    "memory_usage.*",
    "decode_cuda_graph_memory_gb",
    # addresses and marks of one start
    "port",
    "nccl_port",
    "dist_init_addr",
    "weight_version",
    # what a server has done so far
    "startup_time.*",
    "last_gen_throughput",
    "avg_spec_accept_length",
    "step_time_dict.*",
)


def may_differ(name: str) -> bool:
    """Whether a setting, by dotted name, may differ between arms that are compared."""
    return any(fnmatchcase(name, pattern) for pattern in MAY_DIFFER)

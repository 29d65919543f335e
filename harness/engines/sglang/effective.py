"""What a server really runs with, read back from it, and whether two servers are comparable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from evict.errors import InputError

# The one list of what may differ between the arms of a comparison, as patterns of dotted names.
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
# Never kept: a key, or the command line that repeats it.
SECRETS = frozenset(
    {"api_key", "admin_api_key", "ssl_keyfile_password", "launch_command"}
    | {"watermark_key", "watermark_key_b"}
)
SIMULATED = ("SGLANG_SIMULATE_", "SGLANG_DSPARK_SIMULATE_")
EXACT = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
SHORT = {
    "speculative_num_steps": "steps",
    "speculative_eagle_topk": "topk",
    "speculative_num_draft_tokens": "draft_tokens",
}
ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One setting, by dotted name, that two servers resolved differently."""

    name: str
    first: Any
    second: Any


def effective(document: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration in a `/get_server_info` (or `/server_info`) reply, secrets left out.

    The launcher's resolved arguments, with what the scheduler says of itself on top: it is the
    one that decodes. Raises InputError for another document, or schedulers that disagree.
    """
    states = document.get("internal_states", [])
    if "attention_backend" not in document or not isinstance(states, list):
        raise InputError(
            "not the server information of SGLang",
            seen=sorted(document)[:8],
            allowed="a reply of /get_server_info",
        )
    for state in states[1:]:
        for found in _differ(states[0], state):
            raise InputError(
                f"the schedulers of one server disagree on {found.name}",
                seen=f"{found.first}, {found.second}",
            )
    top = {name: value for name, value in document.items() if name != "internal_states"}
    merged = {**top, **(states[0] if states else {})}
    return {name: value for name, value in merged.items() if name not in SECRETS}


def check_applied(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise InputError naming every argument that the server does not run with.

    wanted: server arguments by Python name. found: what `effective` read back.
    """
    wrong = [
        f"{SHORT.get(name, name)} {_shown(value)} -> {_shown(found.get(name, ABSENT))}"
        for name, value in wanted.items()
        if name not in SECRETS and not _same(value, found.get(name, ABSENT))
    ]
    graphs = decode_graphs(found)
    if "disable_cuda_graph" in wanted and graphs is bool(wanted["disable_cuda_graph"]):
        wrong.append(f"decode graphs {_switch(not graphs)} -> {_switch(graphs)}")
    if wrong:
        raise InputError(
            f"config not applied: {', '.join(wrong)}",
            hint="SGLang changed it on its own: its log says why",
        )


def decode_graphs(found: Mapping[str, Any]) -> bool:
    """Whether decode steps are replayed from captured graphs: configured, and any captured."""
    config = (found.get("cuda_graph_config") or {}).get("decode") or {}
    configured = config.get("backend", "disabled") != "disabled"
    return configured and found.get("decode_cuda_graph_bs") != []


def backends(found: Mapping[str, Any]) -> dict[str, str]:
    """Resolved kernels to store with a result: attention in prefill and decode, MoE, sampling."""
    base = found["attention_backend"]
    return {
        "attention_prefill": str(found.get("prefill_attention_backend") or base),
        "attention_decode": str(found.get("decode_attention_backend") or base),
        "moe_runner": str(found.get("moe_runner_backend")),
        "sampling": str(found.get("sampling_backend")),
    }


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Settings outside MAY_DIFFER in which two server information documents differ, sorted."""
    return list(_differ(effective(first), effective(second)))


def comparable(documents: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Why arms are not comparable, one reason per setting and arm; empty if they are.

    documents: server information by arm. All are held against the first.
    """
    (base, reference), *others = documents.items()
    return [
        f"not comparable: {d.name} is {_shown(d.first)} in {base}, {_shown(d.second)} in {arm}"
        for arm, document in others
        for d in differences(reference, document)
    ]


def unpublishable(environment: Mapping[str, str], found: Mapping[str, Any]) -> list[str]:
    """Why no speed of this server may be published; empty if it may.

    environment: the one the server was started in. What SGLang says of its own (`env_vars`, where
    it is told to expose them) counts as well.
    """
    exposed = found.get("env_vars") or {}
    both = {**environment, **{str(name): str(value) for name, value in exposed.items()}}
    simulated = [
        f"{name}={value}: acceptance or routing is simulated"
        for name, value in sorted(both.items())
        if name.startswith(SIMULATED)
    ]
    relaxed = [
        f"{name}={found[name]} accepts tokens that the target would not draw"
        for name in EXACT
        if found.get(name) not in (None, 1.0)
    ]
    return simulated + relaxed


def check_publishable(environment: Mapping[str, str], found: Mapping[str, Any]) -> None:
    """Raise InputError where `unpublishable` finds a reason."""
    reasons = unpublishable(environment, found)
    if reasons:
        raise InputError(
            "speed is not published",
            seen="; ".join(reasons),
            hint="unset the variables and start the server again",
        )


def _differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    one, two = dict(_flat(first)), dict(_flat(second))
    for name in sorted(one.keys() | two.keys()):
        pair = one.get(name, ABSENT), two.get(name, ABSENT)
        if not _same(*pair) and not any(fnmatchcase(name, p) for p in MAY_DIFFER):
            yield Difference(name, *pair)


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _same(wanted: Any, found: Any) -> bool:
    pair = [list(v) if isinstance(v, list | tuple) else v for v in (wanted, found)]
    return bool(pair[0] == pair[1])


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _switch(on: bool) -> str:
    return "on" if on else "off"

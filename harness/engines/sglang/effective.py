"""What a server really runs with, read back from it, and whether two servers are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evict.errors import InputError
from harness.validity.difference import ABSENT, Difference, differ, flat, same

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
        for found in differ(states[0], state):
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
        if name not in SECRETS and not same(value, found.get(name, ABSENT))
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
    """Settings outside the allow-list in which two server information documents differ, sorted."""
    return list(differ(effective(first), effective(second)))


def flattened(document: Mapping[str, Any]) -> dict[str, str]:
    """Every setting that `effective` has read, by dotted name, as text."""
    return {name: _shown(value) for name, value in flat(document)}


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


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _switch(on: bool) -> str:
    return "on" if on else "off"

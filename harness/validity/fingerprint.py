"""Everything that the two sides of a comparison must agree on, as flat text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.facts import without_paths
from harness.identity import Identity
from harness.validity.allowed import may_differ
from harness.validity.difference import flat

CODE = "code."
PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "sglang",
    "flashinfer-python",
    "triton",
)
# Variables that choose a device and change no speed.
CHOOSES_DEVICE = frozenset({"CUDA_VISIBLE_DEVICES"})
MACHINE = ("cpu", "cores", "usable_cores", "governor")
# Which kind of GPU, and how it is set; which one of its kind it is (uuid) is left to telemetry.
GPU = ("name", "driver", "memory_gib", "clock_max_mhz", "power_limit_w")


def fingerprint(
    identity: Identity,
    facts: Mapping[str, Any],
    provenance: Mapping[str, Any],
    read_back: Mapping[str, str],
) -> dict[str, str]:
    """What a pair must share, by dotted name, values as text; the method's settings are not in it.

    facts: EngineFacts as a dict. provenance: of the process that measured. read_back: the engine's
    own account (Engine.read_back), of which what may differ between arms is left out. Of absolute
    paths the last part is kept. Names that start with `code.` say which code measured: a difference
    there is a doubt, no difference in kind.
    """
    parts = {
        "model": identity.model,
        "prompts": identity.prompts,
        "sampling": identity.sampling,
        "engine": identity.engine,
        "facts": facts,
        "effective": dict(_fixed(read_back)),
        "machine": _machine(provenance),
        "threads": _threads(provenance),
        "packages": _packages(provenance),
        "code": _code(provenance),
    }
    named = dict(flat(without_paths(parts)))
    return {name: text(named[name]) for name in sorted(named) if named[name] not in (None, {})}


def text(value: Any) -> str:
    """A setting as text: words as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _fixed(read_back: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in flat(read_back) if not may_differ(name))


def _machine(provenance: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: provenance.get(name) for name in MACHINE}
    for index, gpu in enumerate(provenance.get("gpus") or []):
        found[f"gpus.{index}"] = {name: gpu.get(name) for name in GPU}
    return found


def _threads(provenance: Mapping[str, Any]) -> dict[str, Any]:
    known = provenance.get("threads") or {}
    return {name: value for name, value in known.items() if name not in CHOOSES_DEVICE}


def _packages(provenance: Mapping[str, Any]) -> dict[str, Any]:
    known = provenance.get("packages") or {}
    return {name: known.get(name) for name in PACKAGES}


def _code(provenance: Mapping[str, Any]) -> dict[str, Any]:
    git = provenance.get("git") or {}
    return {"commit": git.get("commit"), "diff": git.get("diff_hash")}

"""Linear attention: SGLang imports the names at start, no tested model calls them."""

from __future__ import annotations

from typing import NoReturn


def _absent(*_arguments: object, **_named: object) -> NoReturn:
    raise NotImplementedError("stand-in: linear attention is not provided")


causal_conv1d_fn_cpu = causal_conv1d_update_cpu = chunk_gated_delta_rule_cpu = _absent

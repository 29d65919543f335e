"""The harness's SGLang engine on the lab checkpoint, as a CPU can run it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.sglang.checkpoints import LAB
from tests.sglang.process import environment


def lab_engine(folder: Path, process: Mapping[str, Any] | None = None, **settings: Any) -> Any:
    """An engine that keeps its servers' logs in `folder`; both mappings replace its defaults."""
    from harness.engines.sglang.engine import SGLangEngine

    served = environment()
    variables = {name: value for name, value in served.items() if name not in os.environ}
    variables |= {name: served[name] for name in ("PYTHONPATH", "PATH")}
    defaults: dict[str, Any] = {
        "device": "cpu",
        "dtype": "float32",
        "attention_backend": "torch_native",
        "prefill_attention_backend": "intel_amx",
        "decode_attention_backend": "intel_amx",
        "moe_runner_backend": "auto",
        "disable_cuda_graph": True,
        "disable_overlap_schedule": True,
        "context_length": 1024,
        "mem_fraction_static": 0.5,
        "server_args": {"max_total_tokens": 8192, "skip_server_warmup": True},
    }
    return SGLangEngine(
        model={"name": "lab", "target": str(LAB.target), "draft": str(LAB.draft)},
        process={
            "live_servers": 5,
            "log_dir": str(folder),
            "ready_timeout_s": 600,
            "stop_timeout_s": 30,
            "environment": variables,
            **(process or {}),
        },
        **{**defaults, **settings},
    )

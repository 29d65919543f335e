"""Server arguments that EVICT refuses before anything is loaded, one after the other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evict.sglang.config import VARIABLE
from tests.sglang.scheduler import server_arguments

CASES: dict[str, dict[str, Any]] = {
    "topk 1": {"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 5},
    "draft tokens above the tree": {"speculative_num_draft_tokens": 300},
    "no draft tokens": {"speculative_num_draft_tokens": None},
    "DP attention": {"enable_dp_attention": True, "dp_size": 2, "tp_size": 2},
    "pipeline": {"pp_size": 2},
    "adaptive": {"speculative_adaptive": True},
    "rejection sampling": {"speculative_use_rejection_sampling": True},
}
CONFIGS: dict[str, dict[str, Any]] = {
    "no cost table": {},
    "unknown policy": {"policy": {"name": "magic"}},
    "unknown setting": {"polcy": {"name": "full"}},
    "missing table": {"costs": {"1": "nowhere.json"}},
    "wrong tier": {"policy": {"name": "full"}, "tiers": [0, 4]},
    "fixed k above N": {"policy": {"name": "fixed_k", "k": 40}},
}


def answers(target: str, draft: str, folder: str) -> dict[str, str]:
    """What resolving the server's arguments raises, by case; empty where nothing is raised."""
    from sglang.srt.plugins import load_plugins

    load_plugins()
    file = Path(folder) / "evict.json"
    os.environ[VARIABLE] = str(file)
    found = {}
    file.write_text(json.dumps({"policy": {"name": "full"}}))
    for name, arguments in {"legal": {}, **CASES}.items():
        found[name] = _resolve(target, draft, arguments)
    for name, config in CONFIGS.items():
        file.write_text(json.dumps(config))
        found[name] = _resolve(target, draft, {})
    return found


def _resolve(target: str, draft: str, arguments: dict[str, Any]) -> str:
    from sglang.srt.server_args import ServerArgs

    given = server_arguments("EVICT", Path(target), Path(draft), **arguments)
    try:
        resolved = ServerArgs(**given)
        resolved.resolve_once()
        resolved.check_server_args()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""

"""How the installed SGLang resolves the arguments of every arm, without starting a server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from evict.errors import InputError
from evict.sglang.config import VARIABLE
from harness.engines.sglang.arguments import DECIDED
from harness.engines.sglang.effective import check_applied, comparable, effective
from tests.sglang.checkpoints import ROOT
from tests.support.sglang_arms import ARMS, CPU, PLAIN, arm_arguments


def resolved(folder: str) -> dict[str, Any]:
    """Why arms are not comparable, decided names that are no arguments, a misspelt one's error."""
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import ServerArgs
    from sglang.srt.utils.common import build_server_info

    file = Path(folder) / "evict.json"
    file.write_text(json.dumps({"policy": {"name": "full"}}))
    os.environ[VARIABLE] = str(file)
    load_plugins()
    os.chdir(ROOT)  # the arms name the lab weights from there
    documents = {}
    for arm, method in ARMS.items():
        arguments = arm_arguments(method, CPU)
        found = ServerArgs(**arguments)
        found.resolve_once()
        documents[arm] = build_server_info(found, {})
        check_applied(arguments, effective(documents[arm]))
    try:
        arm_arguments(PLAIN, server_args={"page_sice": 64})
        misspelt = ""
    except InputError as error:
        misspelt = str(error)
    return {
        "arms": sorted(documents),
        "differences": comparable(documents),
        "unknown": sorted(DECIDED - set(ServerArgs.__struct_fields__)),
        "misspelt": misspelt,
    }

"""Real SGLang servers on a CPU, started as the harness starts them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from evict.sglang.config import VARIABLE
from harness.engines.sglang.server import Server
from harness.engines.sglang.spec import ServerSpec
from tests.sglang.process import environment
from tests.sglang.scheduler import server_arguments

COMMAND_LINE = (str(Path(sys.executable).parent / "sglang"), "serve")


def start(
    folder: Path,
    target: Path,
    draft: Path | None,
    config: dict[str, Any],
    *,
    algorithm: str = "EVICT",
    variables: dict[str, str] | None = None,
    **arguments: Any,
) -> Server:
    """`sglang serve` with this plugin configuration; ServerFailed where it ends instead."""
    file = folder / "evict.json"
    file.write_text(json.dumps(config))
    given = server_arguments(algorithm, target, draft, **arguments)
    given |= {"mem_fraction_static": 0.5, "skip_server_warmup": True, "sleep_on_idle": True}
    given |= {"log_level": "info"}
    return Server.start(
        ServerSpec(
            command=COMMAND_LINE,
            arguments=given,
            log=folder / "server.log",
            environment={**environment(), VARIABLE: str(file), **(variables or {})},
            ready_timeout_s=600.0,
        )
    )

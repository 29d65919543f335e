"""What a server is started with, and its arguments as command-line flags."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evict.errors import InputError

OURS = ("host", "port", "api_key", "weight_version")  # set by `server.Server`, in this order


@dataclass(frozen=True, kw_only=True)
class ServerSpec:
    """What to start. Times in seconds; `log` receives the server's stdout and stderr.

    arguments: SGLang's server arguments by their Python names, without `OURS`. environment is
    added to this process's. port None takes a free one.
    """

    arguments: Mapping[str, Any]
    log: Path
    command: tuple[str, ...] = (sys.executable, "-m", "sglang.launch_server")
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None
    ready_timeout_s: float = 1200.0
    stop_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        taken = sorted(set(self.arguments) & set(OURS))
        if taken:
            raise InputError(
                "server arguments that the harness sets itself",
                seen=", ".join(taken),
                hint="leave them out; a fixed port goes into ServerSpec.port",
            )


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """Arguments by Python names as command-line flags.

    True is a bare flag, False, None and an empty list are left out, a list becomes several values,
    a dict JSON, everything else its str().
    """
    words: list[str] = []
    for name, value in arguments.items():
        if value is None or value is False or value in ([], ()):
            continue
        words.append("--" + name.replace("_", "-"))
        if value is True:
            continue
        values = value if isinstance(value, list | tuple) else [value]
        words += [json.dumps(v) if isinstance(v, dict) else str(v) for v in values]
    return words

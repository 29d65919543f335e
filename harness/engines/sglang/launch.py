"""How the servers of one engine are started, from the engine's configuration."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.engines.guarded import check_limits
from harness.engines.sglang.arguments import Settings, Weights
from harness.engines.torch.config import read_config


@dataclass(frozen=True)
class Launch:
    """How servers are started: settings and weights shared by all kinds, places and time limits.

    folder: logs, plugin configuration, session and read-back of each server lie here. worker:
    settings of the EVICT worker (`evict.sglang.config.EvictConfig`) without policy and session.
    request_timeout_s: the longest wait for the next byte of an answer, None for no limit. vocab:
    size of the target's vocabulary; prompts with larger ids are refused.
    """

    settings: Settings
    weights: Weights
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)
    ready_timeout_s: float = 1200.0
    stop_timeout_s: float = 30.0
    request_timeout_s: float | None = 600.0
    vocab: int | None = None

    @classmethod
    def of(
        cls,
        model: Mapping[str, Any],
        process: Mapping[str, Any],
        worker: Mapping[str, Any] | None,
        settings: Settings,
        folders: tuple[Path, Path | None],
    ) -> Launch:
        """From the mappings that `SGLangEngine` is given; folders: target and drafter."""
        target, draft = folders
        names = ("request_timeout_s", "ready_timeout_s")
        check_limits(**{name: process[name] for name in names if name in process})
        limit_s = process.get("request_timeout_s", cls.request_timeout_s)
        return cls(
            settings=settings,
            weights=Weights(
                target=str(target),
                draft=str(draft) if draft else None,
                trust_remote_code=bool(model.get("trust_remote_code")),
                context_length=context_length(model, settings),
                tensor_parallel=int(model.get("tensor_parallel") or 1),
            ),
            folder=Path(process["log_dir"]).absolute() / secrets.token_hex(4),
            environment=dict(process.get("environment") or {}),
            worker=dict(worker or {}),
            ready_timeout_s=float(process["ready_timeout_s"]),
            stop_timeout_s=float(process["stop_timeout_s"]),
            request_timeout_s=None if limit_s is None else float(limit_s),
            vocab=int(read_config(target)["vocab_size"]),
        )


def context_length(model: Mapping[str, Any], settings: Settings) -> int:
    """Tokens that a server has room for: the model's own setting wins."""
    return int(model.get("context_length") or settings.context_length)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """`Settings` from an engine's configuration; InputError names those it does not know."""
    known = {item.name for item in fields(Settings)}
    if wrong := sorted(values.keys() - known):
        raise InputError(
            "unknown engine settings", seen=", ".join(wrong), allowed=", ".join(sorted(known))
        )
    return Settings(**values)

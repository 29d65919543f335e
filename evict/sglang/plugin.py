"""Entry point of the group `sglang.srt.plugins`: makes the algorithm `EVICT` known to SGLang.

SGLang calls `register` in every process it starts, with or without EVICT in use, and only logs
what it raises. So nothing heavy is imported here, and what is wrong is said when EVICT is asked
for: at start, in the process the user sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evict.errors import InputError
from evict.sglang import version

NAME = "EVICT"


def register() -> None:
    """Register EVICT; with another SGLang version, register its refusal."""
    try:
        version.check(version.installed())
    except InputError as error:
        _register_refusal(error)
        return
    from evict.sglang.algorithm import EvictAlgorithm, validate

    _register(_worker_class, validate, spec_class=EvictAlgorithm)


def _worker_class(server_args: Any) -> type:
    from evict.sglang.worker import EvictWorker

    return EvictWorker


def _register_refusal(error: InputError) -> None:
    def refuse(server_args: Any) -> Any:
        raise error

    _register(refuse, refuse)


def _register(
    factory: Callable[[Any], Any], validate: Callable[[Any], None], **keywords: Any
) -> None:
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    SpeculativeAlgorithm.register(
        NAME, supports_overlap=True, validate_server_args=validate, **keywords
    )(factory)

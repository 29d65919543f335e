"""Which requests an engine with a fixed context can take."""

from __future__ import annotations

from evict.errors import InputError
from harness.engines.base import Request


def check_request(request: Request, context_length: int) -> None:
    """InputError for an empty prompt, one too long for the context, or limits out of range."""
    if not request.prompt_ids:
        raise InputError(f"prompt {request.prompt_id} is empty", seen=0, allowed="1 token or more")
    room = context_length - 1
    if len(request.prompt_ids) > room:
        raise InputError(
            f"prompt {request.prompt_id} is longer than the context",
            seen=f"{len(request.prompt_ids)} tokens",
            allowed=f"at most {room}",
            hint="truncate=middle",
        )
    if request.max_new_tokens < 1 or request.temperature < 0:
        raise InputError(
            "max_new_tokens or temperature out of range",
            seen=(request.max_new_tokens, request.temperature),
            allowed=">= 1 and >= 0",
        )

"""Whether a prompt was computed for its request, or lay in a prefix cache already."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from harness.validity.verdict import Reason
from harness.validity.view import RunView

# The setting of an engine that lets a prefix common to all prompts stay in its cache, in tokens.
SHARED = "shared_prefix"
REFUSED = "WarmPrefixCache"


def warm_prefix_cache(view: RunView) -> Iterable[Reason]:
    """More cached prompt tokens than all prompts share; requests refused for it count as well."""
    shared = int((view.result.engine_facts.get("settings") or {}).get(SHARED, 0))
    cached = view.of_good("cached_tokens")
    warm = int((cached > shared).sum())
    refused = int((view.requests["error_class"] == REFUSED).sum())
    if warm or refused:
        most = f", at most {np.nanmax(cached):.0f} tokens" if warm else ""
        text = (
            f"{warm + refused} of {len(view.good)} prompts lay in the prefix cache{most} "
            f"(allowed {shared}); turn it off or flush it before every request"
        )
        yield Reason("warm_prefix_cache", text, "invalid", "time")


def prefix_cache_unknown(view: RunView) -> Iterable[Reason]:
    """The engine does not say how much of a prompt it had computed before."""
    silent = int(np.isnan(view.of_good("cached_tokens")).sum())
    if view.complete and silent:
        text = f"the engine says of {silent} of {int(view.good.sum())} requests nothing"
        yield Reason("prefix_cache_unknown", text, "unknown", "time")

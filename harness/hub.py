"""Public question sets from the Hugging Face hub, at a pinned revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evict.errors import InputError
from harness.config import HubConfig


def hub_rows(name: str, hub: HubConfig) -> Iterator[dict[str, Any]]:
    """Rows as {"turns": [...], "reference": ...}; InputError when the set cannot be had."""
    for row in _load(name, hub):
        reference = row.get(hub.reference_field) if hub.reference_field else None
        yield {"turns": turns(row, hub), "reference": reference or None}


def turns(row: dict[str, Any], hub: HubConfig) -> list[str]:
    """The user's turns of one row: the field that lists them, or the filled template."""
    if hub.turns_field is not None:
        return [str(turn) for turn in row[hub.turns_field]]
    if hub.template is None:
        raise InputError(f"{hub.dataset}: neither template nor turns_field is set")
    return [hub.template.format_map(row).strip()]


def _load(name: str, hub: HubConfig) -> Any:
    import datasets
    from datasets import config as library

    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(
            hub.dataset, hub.config, split=hub.split, revision=hub.revision
        )
    except Exception as error:  # the library raises many kinds, all meaning "not available"
        raise InputError(
            f"benchmark {name}: {hub.dataset} at revision {hub.revision} is not available "
            f"({type(error).__name__})",
            seen=f"cache {library.HF_DATASETS_CACHE}, offline={bool(library.HF_HUB_OFFLINE)}",
            hint=f"python -m harness.prepare {name} where there is a network and the same cache; "
            f"or benchmark={name} with benchmark.path=my.jsonl or benchmark.source=lab (bundled)",
        ) from error

"""Where checkpoint files lie: in a folder, or in the local copy of a hub repository."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evict.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER_FILES = ("*.json", "*.jinja", "*.txt", "tokenizer.model")
CHECKPOINT_FILES = ("*.safetensors", *TOKENIZER_FILES)


def locate(
    source: str, revision: str | None = None, patterns: Sequence[str] = CHECKPOINT_FILES
) -> Path:
    """Local folder of a checkpoint: a path (also relative to the checkout) or a hub repository id.

    Only safetensors, JSON and tokenizer files are ever fetched; pickled weights are refused.
    """
    for folder in (Path(source).expanduser(), ROOT / source):
        if folder.is_dir():
            return folder
    if source.count("/") != 1 or source.startswith((".", "/")):
        raise InputError(
            "checkpoint folder not found",
            seen=source,
            allowed="an existing folder or a hub repository id (owner/name)",
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=[*patterns]))
    except Exception as error:
        raise InputError(
            f"checkpoint {source} is neither cached nor reachable",
            seen=type(error).__name__,
            allowed=f"a local folder, or a copy in {HF_HUB_CACHE}",
            hint=f"hf download {source}  # on a machine with network",
        ) from error

"""Where results go: how much room is left, and whether anything can be written."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


def existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that is there."""
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def free_bytes(folder: Path) -> int | None:
    """Room left where `folder` is or would be made; None when nobody tells."""
    try:
        return shutil.disk_usage(existing(folder)).free
    except OSError:
        return None


def why_not_writable(folder: Path) -> str | None:
    """Writes a byte and takes it away again; the reason when that fails, else None."""
    try:
        with tempfile.TemporaryFile(dir=existing(folder)) as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None

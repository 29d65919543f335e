"""Disks that are full or cannot be written, for root as well: real errors of real writes."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = 4096


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: a write across is cut, the next fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def mounted(place: Path, options: str) -> Iterator[bool]:
    """A file system in memory at `place`; False where this process may not mount one."""
    place.mkdir(parents=True, exist_ok=True)
    if not _mount("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)):
        yield False
        return
    try:
        yield True
    finally:
        if not _mount("umount", str(place)):
            _mount("umount", "--lazy", str(place))


def remounted(place: Path, options: str) -> None:
    """The same file system with other options."""
    if not _mount("mount", "-o", f"remount,{options}", str(place)):
        raise OSError(f"cannot remount {place}")


def _mount(*command: str) -> bool:
    try:
        done = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0

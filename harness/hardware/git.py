"""Which state of the source a run was made with; an outer repository is never reported."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

PROGRAM = ("evict", "harness", "conf", "datasets", "run.py", "pyproject.toml")
NAMES = ("--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z")
TIMEOUT_S = 20


class Unknown(Exception):
    """Git cannot tell, and why."""


def git_facts(root: Path, file: str, program: tuple[str, ...] = PROGRAM) -> dict[str, Any]:
    """Commit, dirtiness, hash of the difference; None each, with the `reason`, where unknown.

    Only if the repository around `root` tracks `file`, a path relative to it. dirty: tracked files
    differ from the commit, or the program has files that git does not know. diff_hash: of the
    program's files (`program`, relative to `root`) that differ, None where none does.
    """
    try:
        if not _git(root, "ls-files", "--", file).strip():
            raise Unknown(f"the repository around this program does not track {file}")
        changed = _names(root, "diff", "HEAD", *NAMES)
        own = _names(root, "diff", "HEAD", *NAMES, "--", *program)
        untracked = _names(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *program)
        return {
            "commit": _git(root, "rev-parse", "HEAD").decode().strip(),
            "dirty": bool(changed or untracked),
            "diff_hash": _hash(root, sorted([*own, *untracked])),
            "reason": None,
        }
    except Unknown as unknown:
        return {"commit": None, "dirty": None, "diff_hash": None, "reason": str(unknown)}


def _hash(root: Path, names: list[str]) -> str | None:
    """Names and contents as they are now: with the commit, they are the program."""
    found = hashlib.sha256()
    for name in names:
        found.update(f"{name}\0{_content(root / name)}\0".encode(errors="surrogateescape"))
    return found.hexdigest() if names else None


def _content(file: Path) -> str:
    try:
        if file.is_symlink():
            return os.readlink(file)
        return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else "deleted"
    except OSError as error:
        raise Unknown(f"{file.name} cannot be read: {error.strerror}") from None


def _names(root: Path, *arguments: str) -> list[str]:
    listed = _git(root, *arguments).decode(errors="surrogateescape")
    return sorted(filter(None, listed.split("\0")))


def _git(root: Path, *arguments: str) -> bytes:
    """What git prints; its environment's repository, if one is set, does not count."""
    environment = {key: value for key, value in os.environ.items() if key[:4] != "GIT_"}
    command = ["git", "--no-optional-locks", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, check=False, env=environment
        )
    except FileNotFoundError:
        raise Unknown("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unknown(f"git did not answer: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[0] if said else f"git exited with {done.returncode}"
        raise Unknown(reason.replace(str(root), root.name))
    return done.stdout

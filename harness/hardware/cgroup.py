"""What the control group leaves us of the machine: cores and memory, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")


def core_quota(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> float | None:
    """Cores' worth of time per second that we may use; None where nothing limits it."""
    quotas = []
    for folder in _folders(membership, mount, "cpu"):
        for numbers in (
            _numbers(folder / "cpu.max"),
            _numbers(folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"),
        ):
            if len(numbers) == 2 and numbers[0] > 0 and numbers[1] > 0:
                quotas.append(numbers[0] / numbers[1])
    return min(quotas, default=None)


def memory_limit(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int | None:
    """Bytes that we may use; None where nothing limits it."""
    limits = []
    for folder in _folders(membership, mount, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += _numbers(folder / name)
    return min((limit for limit in limits if 0 < limit < 2**60), default=None)


def _folders(membership: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Our groups and all above them: a limit anywhere on the way holds."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = mount / controllers if controllers else mount
        path = PurePosixPath(place.lstrip("/"))
        for part in (path, *path.parents):
            yield base / part


def _numbers(*files: Path) -> list[int]:
    words: list[str] = []
    for file in files:
        try:
            words += file.read_text().split()
        except OSError:
            return []
    return [int(word) for word in words if word.lstrip("-").isdigit()]

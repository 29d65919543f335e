"""Lines of JSON that prove themselves: the last value of each is a checksum of those before it."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
SEAL = "crc32"
_TAIL = len(f', "{SEAL}": "00000000"}}\n')


@dataclass(frozen=True)
class Line:
    """One whole line: its bytes, newline included, and the values without the checksum.

    proven: it has a checksum. Versions before this one wrote none.
    """

    raw: bytes
    values: dict[str, Any] = field(compare=False)
    proven: bool = True


def sealed(values: Mapping[str, Any]) -> Line:
    """One object as a line; a lone surrogate in a text becomes its JSON escape."""
    body = json.dumps(values, ensure_ascii=False).encode("utf-8", "backslashreplace")
    return Line(body[:-1] + f', "{SEAL}": "{zlib.crc32(body):08x}"}}\n'.encode(), dict(values))


def unsealed(raw: bytes) -> Line | None:
    """The line that these bytes are; None where they are no object, or not what was written."""
    if not raw.endswith(b"\n"):
        return None
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, dict):
        return None
    seal = values.pop(SEAL, None)
    if seal is not None and f"{zlib.crc32(raw[:-_TAIL] + b'}'):08x}" != seal:
        return None
    return Line(raw, values, proven=seal is not None)


def read_lines(path: Path) -> list[Line]:
    """The whole lines of a file, in order; broken ones are left out wherever they stand.

    Lines without a checksum are whole only in a file of an older version, which has no other.
    """
    if not path.is_file():
        return []
    found = [unsealed(raw) for raw in path.read_bytes().splitlines(keepends=True)]
    newer = any(line.proven for line in found if line is not None)
    whole = [line for line in found if line is not None and (line.proven or not newer)]
    if len(whole) < len(found):
        log.warning("%s: %d broken lines are left out", path, len(found) - len(whole))
    return whole

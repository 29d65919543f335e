"""What makes the page one file: its own assets, pictures as data URIs, and safe JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from markupsafe import Markup

# Left as they are, these could end a script element or start a comment inside it.
ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
DOTS_PER_INCH = 200
PIXELS_PER_INCH = 132  # a column of 3.5 inches is drawn a little larger than on paper


@dataclass(frozen=True)
class Asset:
    """One of the package's own files: `text` goes into the page as it is, `source` into its CSP."""

    text: Markup
    source: str


def asset(name: str) -> Asset:
    """Read a file beside this module, with the hash that allows it, and nothing else, to run."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Asset(Markup(text), f"'sha256-{digest}'")


def json_text(value: Any) -> Markup:
    """Compact JSON that is safe inside a script element, whatever its texts hold.

    Raises ValueError for a number that JSON has no word for.
    """
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(plain.translate(ESCAPES))


@dataclass(frozen=True)
class Picture:
    """A PNG inside the page; width and height in CSS pixels."""

    uri: str
    width: int
    height: int


def picture(png: bytes) -> Picture:
    """A PNG drawn at 200 dpi; ValueError for anything else."""
    if png[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError(f"not a PNG: starts with {png[:8]!r}")
    size = (value * PIXELS_PER_INCH // DOTS_PER_INCH for value in struct.unpack(">II", png[16:24]))
    return Picture("data:image/png;base64," + base64.b64encode(png).decode(), *size)

"""Whether this interpreter has the SGLang that the tests are written for."""

from __future__ import annotations

from importlib import metadata

NEEDED = "0.5.23"


def missing() -> str | None:
    """Why this interpreter cannot run the tests, None where it can."""
    try:
        found = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return f"sglang {NEEDED} is not installed in this interpreter"
    return None if found == NEEDED else f"sglang {found} is installed, {NEEDED} is needed"

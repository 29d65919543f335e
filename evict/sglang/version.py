"""Which SGLang the plugin was written against; asked before any of its private names is touched."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from evict.errors import InputError

SUPPORTED = "0.5.23"


def installed() -> str | None:
    """Version of the installed package, None where there is none."""
    try:
        return version("sglang")
    except PackageNotFoundError:
        return None


def check(found: str | None) -> None:
    """InputError unless the version is the supported one."""
    if found != SUPPORTED:
        raise InputError(
            "the EVICT plugin relies on internals of one SGLang version",
            seen=f"sglang {found}" if found else "no sglang",
            allowed=f"sglang {SUPPORTED}",
            hint=f"pip install sglang=={SUPPORTED}",
        )

"""Lets servers find the plugin in a plain copy of the repository, where nothing is installed."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

from harness.engines.sglang.gpu_check.lab import ROOT

GROUP, NAME, VALUE = "sglang.srt.plugins", "evict", "evict.sglang.plugin:register"


def plugin_installed() -> bool:
    """Whether this interpreter's packages name the plugin."""
    return any(point.name == NAME for point in entry_points(group=GROUP))


def search_path(folder: Path) -> dict[str, str]:
    """Environment under which servers find the plugin; empty where it is installed.

    Writes the metadata of an installed package, which is all that an entry point needs, below
    `folder`.
    """
    if plugin_installed():
        return {}
    record = folder / "evict_check-0.dist-info"
    record.mkdir(parents=True, exist_ok=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: evict-check\nVersion: 0\n")
    (record / "entry_points.txt").write_text(f"[{GROUP}]\n{NAME} = {VALUE}\n")
    places = [str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}

"""`python -m harness.pack RESULTS OUT`: finished runs in a folder small enough to commit.

OUT holds runs, requests, steps, trees, telemetry, costs and the facts of every run, each kind in
one file. pack.json is written last and names every file with its SHA-256; a changed file is
refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from evict.errors import InputError
from harness.collect import collect, collect_facts
from harness.collection import Collection
from harness.facts import Facts
from harness.pack_columns import small_steps, small_trees, write_table
from harness.records import SCHEMA_VERSION
from harness.unpack import INDEX, sha256

EXIT_INPUT = 2


def _as_it_is(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


SMALL = {
    "requests": _as_it_is,
    "steps": small_steps,
    "trees": small_trees,
    "telemetry": _as_it_is,
}


class Distinct:
    """Values written once each; `add` returns a value's line number."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}

    def add(self, value: object) -> int:
        """Number of the line that holds this plain value."""
        text = json.dumps(value, sort_keys=True, ensure_ascii=False)
        return self.lines.setdefault(text, len(self.lines))

    def text(self) -> str:
        """All lines."""
        return "".join(f"{line}\n" for line in self.lines)


def write_pack(data: Collection, facts: Mapping[str, Facts], out: Path) -> Path:
    """Write the pack; an earlier pack at `out` is replaced, any other content is refused."""
    if data.runs.empty:
        raise InputError("nothing to pack: no finished run", hint="python run.py first")
    if out.is_dir() and any(out.iterdir()) and not (out / INDEX).is_file():
        raise InputError("folder is neither empty nor a pack", seen=out, hint="name another one")
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    _write_runs(data, facts, out)
    for name, small in SMALL.items():
        frame = getattr(data, name)
        if len(frame):
            write_table(small(frame), out / f"{name}.parquet")
    files = {file.name: sha256(file) for file in sorted(out.iterdir())}
    index = {"schema_version": SCHEMA_VERSION, "left_out": data.left_out, "files": files}
    (out / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return out


def _write_runs(data: Collection, facts: Mapping[str, Facts], out: Path) -> None:
    costs, configs, provenance, rows = Distinct(), Distinct(), Distinct(), []
    for row in data.runs.to_dict("records"):
        run, known = str(row["run"]), facts.get(str(row["run"]), Facts())
        links = {
            "cost": costs.add(data.costs[run].to_dict()) if run in data.costs else None,
            "config": [configs.add([key, value]) for key, value in known.config.items()],
            "provenance": [provenance.add(part) for part in known.parts],
        }
        values = {key: None if value != value else value for key, value in row.items()}
        rows.append(json.dumps({"values": values, "links": links}, ensure_ascii=False))
    tables = [json.loads(line) for line in costs.lines]
    (out / "costs.json").write_text(json.dumps(tables) + "\n", encoding="utf-8")
    (out / "configs.jsonl").write_text(configs.text(), encoding="utf-8")
    (out / "provenance.jsonl").write_text(provenance.text(), encoding="utf-8")
    (out / "runs.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Command line; 2 for input that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m harness.pack", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    try:
        if not options.results.is_dir():
            raise InputError("no such folder", seen=options.results, hint="python run.py first")
        data = collect(options.results)
        runs = list(data.runs["run"]) if len(data.runs) else []
        write_pack(data, collect_facts(options.results, runs), options.out)
    except InputError as error:
        print(error, file=sys.stderr)
        return EXIT_INPUT
    size = sum(file.stat().st_size for file in options.out.iterdir())
    print(f"{len(data.runs)} runs, {size / 1e6:.2f} MB: {options.out}")
    for run, reason in data.left_out.items():
        print(f"left out: {run}: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m harness.prepare [gsm8k ..]`: public question sets into the cache, for use offline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import cast

from omegaconf import DictConfig, OmegaConf

from evict.errors import InputError
from harness.benchmarks import load
from harness.config import CONF, BenchmarkConfig, known

GROUP = "benchmark"
EXIT_INPUT = 2


def sets(names: Sequence[str]) -> list[BenchmarkConfig]:
    """The sets of these names, all public ones for none. InputError for a name without one."""
    found = {config.name: config for config in map(_read, known(GROUP)) if config.hub is not None}
    if wrong := [name for name in names if name not in found]:
        raise InputError("no public question set", seen=", ".join(wrong), allowed=", ".join(found))
    return [found[name] for name in names] or list(found.values())


def fetch(config: BenchmarkConfig) -> str:
    """Load a set from the hub, which leaves it in the cache; a line about what came."""
    prompts = load(config, lab=False, limit=None)
    turns = sum(len(prompt.turns) for prompt in prompts)
    hub = config.hub
    origin = f", {hub.dataset} at {hub.revision}" if hub else ""
    return f"{config.name}: {len(prompts)} prompts, {turns} turns{origin}"


def _read(name: str) -> BenchmarkConfig:
    """A set without the members that a collection names."""
    file = OmegaConf.load(CONF / GROUP / f"{name}.yaml")
    keys = [key for key in BenchmarkConfig.__dataclass_fields__ if key in file]
    node = OmegaConf.masked_copy(cast(DictConfig, file), keys)
    return cast(
        BenchmarkConfig,
        OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(BenchmarkConfig), node)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 2 for an unknown set or one that cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m harness.prepare", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="benchmark", help="none: all of them")
    try:
        for config in sets(parser.parse_args(arguments).names):
            print(fetch(config))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What one command line consists of: one run, or the stages that an experiment file lists."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import hydra
from omegaconf import DictConfig

from harness import requirements
from harness.compose import arms, run_config
from harness.config import MethodConfig, RunConfig

EXPERIMENT = "+experiment="


@dataclass(frozen=True)
class Stage:
    """One run of a suite: the overrides that compose it, and what they compose to."""

    overrides: str
    config: RunConfig
    methods: list[MethodConfig]


def stages(task: Sequence[str]) -> list[Stage]:
    """The runs that a command line with these overrides consists of, checked; one without stages.

    A stage's words come before the command line's own, which therefore win. A stage that names an
    experiment of its own takes nothing from the file that lists it. InputError for any stage that
    cannot run here.
    """
    lead = [word for word in task if word.startswith(EXPERIMENT)]
    user = [word for word in task if not word.startswith(EXPERIMENT)]
    found = []
    for overrides, composed in _expand(lead, user):
        config = run_config(composed)
        requirements.check(config)
        found.append(Stage(" ".join(overrides), config, arms(config)))
    return found


def _expand(lead: list[str], user: list[str]) -> list[tuple[list[str], DictConfig]]:
    overrides = [*lead, *user]
    composed = hydra.compose("config", overrides=overrides)
    if not composed.stages:
        return [(overrides, composed)]
    found: list[tuple[list[str], DictConfig]] = []
    for stage in composed.stages:
        words = shlex.split(stage)
        if any(word.startswith(EXPERIMENT) for word in words):
            found += _expand(words, user)
        else:
            found += _expand([*lead, *words, "stages=[]"], user)
    return found

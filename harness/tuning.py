"""Settings chosen on calibration prompts: the fastest of a few values, kept with the run."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from harness.compose import build_method, with_parameter
from harness.config import MethodConfig, RunConfig
from harness.engines.base import Engine, Method, Request
from harness.identity import digest
from harness.plan import METHOD_KEYS
from harness.store import replace_text

log = logging.getLogger(__name__)
FILE = "tuning.json"


@dataclass(frozen=True)
class Tuning:
    """ms_per_token[i]: geometric mean over prompts of decode ms per token at values[i]."""

    method: str
    parameter: str
    values: list[Any]
    ms_per_token: list[float]
    chosen: Any
    prompts: int
    temperature: float
    fingerprint: dict[str, str]

    def save(self, file: Path) -> None:
        """Write it as JSON, completely or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, file: Path) -> Tuning:
        """Read what `save` wrote; InputError for anything else."""
        try:
            return cls(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise InputError("no usable tuning result", seen=f"{file}: {error}") from None

    def text(self) -> list[str]:
        """The values with their times, the chosen one marked."""
        lines = [f"{self.method}, {self.parameter}, T={self.temperature:g}, {self.prompts} prompts"]
        for value, time in zip(self.values, self.ms_per_token, strict=True):
            mark = "  <- chosen" if value == self.chosen else ""
            lines.append(f"  {value!s:>8}  {time:7.3f} ms/token{mark}")
        return lines


@dataclass(frozen=True)
class TuningSource:
    """Where tuned settings come from: below `results`, or measured on `calibration` texts.

    config.tune: "auto"; "never" raises InputError instead of measuring; "only" always measures.
    """

    engine: Engine
    config: RunConfig
    calibration: Sequence[str]
    use_cost: Callable[[Method], CostTable | None]
    progress: Callable[[str, float], None] | None = None

    def provide(self, method: MethodConfig) -> Tuning | None:
        """The result for this method here; None when it has nothing to tune."""
        if method.tune is None:
            return None
        facts = self._fingerprint(method)
        results = Path(self.config.results_dir)
        found = None if self.config.tune == "only" else find(results, facts)
        if found is not None:
            return found
        if self.config.tune == "never":
            raise InputError(
                f"no tuning result fits method {method.name} on this model, engine and machine",
                seen=str(results),
                hint="tune=auto, or tune=only to measure nothing else",
            )
        tuning = self._measure(method, facts)
        tuning.save(results / "tuning" / digest(facts)[:8] / FILE)
        return tuning

    def _measure(self, method: MethodConfig, facts: dict[str, str]) -> Tuning:
        assert method.tune is not None
        parameter, values = method.tune.parameter, list(method.tune.values)
        candidates = [build_method(with_parameter(method, parameter, one)) for one in values]
        prompts = self._prompts()
        logs: list[list[float]] = [[] for _ in values]
        parts = self.engine.together(candidates)
        done = 0
        for part in parts:
            self._time(candidates[part[0]], prompts[0])
            for turn, prompt in enumerate(prompts):
                for index in part if turn % 2 == 0 else reversed(part):
                    if (time := self._time(candidates[index], prompt)) > 0:
                        logs[index].append(math.log(time))
                done += len(part)
                if self.progress:
                    share = done / len(candidates) / len(prompts)
                    self.progress(f"tuning {parameter} of {method.name}", share)
        if not all(logs):
            raise InputError(f"tuning {parameter}: no calibration prompt gave a decode token")
        times = [math.exp(fmean(one)) for one in logs]
        return Tuning(
            method=method.name,
            parameter=parameter,
            values=values,
            ms_per_token=times,
            chosen=values[times.index(min(times))],
            prompts=len(prompts),
            temperature=self.config.temperature,
            fingerprint=facts,
        )

    def _time(self, method: Method, prompt: Sequence[int]) -> float:
        """Decode milliseconds per token of one generation; 0 where it ended at its first token."""
        self.use_cost(method)
        request = Request(
            "tuning", tuple(prompt), self.config.max_new_tokens, self.config.temperature
        )
        trace = self.engine.generate(request, method, self.config.seed)
        return trace.decode_ms / trace.decode_tokens if trace.decode_tokens else 0.0

    def _prompts(self) -> list[list[int]]:
        """Evenly spread over the calibration file, whose families follow one another."""
        texts = self.calibration
        count = min(self.config.tune_prompts, len(texts))
        if not count:
            raise InputError("no calibration prompts to tune on", hint="calibration=file.jsonl")
        chosen = [texts[index * len(texts) // count] for index in range(count)]
        encode = self.engine.encode_chat
        return [encode([{"role": "user", "content": text}]) for text in chosen]

    def _fingerprint(self, method: MethodConfig) -> dict[str, str]:
        """Everything the choice depends on."""
        settings = {key: asdict(method)[key] for key in METHOD_KEYS}
        return {
            **self.engine.describe().fingerprint(),
            "method": digest(settings),
            "prompts": digest([self.config.tune_prompts, list(self.calibration)]),
            "temperature": f"{self.config.temperature:g}",
            "max_new_tokens": str(self.config.max_new_tokens),
            "seed": str(self.config.seed),
        }


def find(results: Path, facts: dict[str, str]) -> Tuning | None:
    """The newest result below `results` that was measured here for the very same method."""
    files = sorted(results.glob(f"**/{FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files:
        try:
            tuning = Tuning.load(file)
        except InputError as error:
            log.info("%s", error)
            continue
        if tuning.fingerprint == facts:
            return tuning
    return None


def tuned(config: MethodConfig, tuning: Tuning | None) -> MethodConfig:
    """The method with its tuned setting."""
    if tuning is None:
        return config
    return with_parameter(config, tuning.parameter, tuning.chosen)

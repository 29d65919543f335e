"""What a step costs on one machine: C(k) for every verify length, and where it was measured."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evict.errors import InputError

if TYPE_CHECKING:
    from evict.calibration import ScoreMap

SCHEMA_VERSION = 1
STAGES = ("draft", "verify", "extend", "other")


@dataclass(frozen=True, slots=True)
class CostTable:
    """Measured times, all in milliseconds; position k - 1 of a tuple belongs to verify length k.

    step_ms: C(1)..C(N), whole steps. ar_ms: C_AR, a plain decode step.
    spread_ms: interquartile range of C(k). beta: factor on the draft logits, 1.0 = none.
    score_maps: draft score to acceptance rate, by temperature ("0", "1"), fitted while profiling.
    fingerprint: what the times depend on (machine, model, versions).
    stage_ms: parts of C(k) by stage. expert_union: mean distinct experts of a layer.
    Raises InputError that names the field and k of a value that is no usable time.
    """

    step_ms: tuple[float, ...]
    ar_ms: float
    spread_ms: tuple[float, ...]
    beta: float = 1.0
    fingerprint: dict[str, str] = field(default_factory=dict)
    stage_ms: dict[str, tuple[float, ...]] | None = None
    expert_union: tuple[float, ...] | None = None
    score_maps: dict[str, ScoreMap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_series("step_ms", self.step_ms, None, above_zero=True)
        _check_number("ar_ms", self.ar_ms, above_zero=True)
        _check_series("spread_ms", self.spread_ms, self.draft_tokens)
        _check_number("beta", self.beta, above_zero=True)
        _check_fingerprint(self.fingerprint)
        for stage, series in (self.stage_ms or {}).items():
            if stage not in STAGES:
                raise InputError("stage_ms: unknown stage", seen=stage, allowed=", ".join(STAGES))
            _check_series(f"stage_ms.{stage}", series, self.draft_tokens)
        if self.expert_union is not None:
            _check_series("expert_union", self.expert_union, self.draft_tokens)

    @property
    def draft_tokens(self) -> int:
        """N: the largest verify length measured."""
        return len(self.step_ms)

    def score_map(self, temperature: float) -> ScoreMap:
        """The map fitted at this temperature; InputError where there is none."""
        found = self.score_maps.get(f"{temperature:g}")
        if found is None:
            raise InputError(
                "no score map was fitted at this temperature",
                seen=f"{temperature:g}",
                allowed=", ".join(self.score_maps) or "none: the table holds no map",
                hint="profile again with profile=only, or use method.scores=beta",
            )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as JSON; the file appears complete or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=2)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CostTable:
        """Read a table that `save` wrote; InputError for any other content."""
        return cls.from_dict(_read_object(Path(path)), str(path))

    def to_dict(self) -> dict[str, Any]:
        """The table as plain data, as it stands in a file."""
        maps = {temperature: found.to_dict() for temperature, found in self.score_maps.items()}
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "score_maps": maps}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str = "cost table") -> CostTable:
        """Inverse of `to_dict`; `path` names the source in an error."""
        document = dict(values)
        version = document.pop("schema_version", None)
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{path}: unknown schema_version", seen=repr(version), allowed=SCHEMA_VERSION
            )
        _check_keys(path, document)
        for name in ("step_ms", "spread_ms", "expert_union"):
            document[name] = _as_tuple(document.get(name))
        if isinstance(document.get("stage_ms"), dict):
            stages = document["stage_ms"].items()
            document["stage_ms"] = {stage: _as_tuple(series) for stage, series in stages}
        document["score_maps"] = _score_maps(document.get("score_maps") or {})
        return cls(**document)

    def check(self, fingerprint: Mapping[str, str]) -> None:
        """InputError naming every field in which `fingerprint` differs from the table's own."""
        names = sorted(self.fingerprint.keys() | fingerprint.keys())
        differing = {
            name: (self.fingerprint.get(name), fingerprint.get(name))
            for name in names
            if self.fingerprint.get(name) != fingerprint.get(name)
        }
        if differing:
            raise InputError(
                "cost table measured elsewhere, differing in " + ", ".join(differing),
                seen="; ".join(f"{n}={_shown(table)}" for n, (table, _) in differing.items()),
                allowed="; ".join(f"{n}={_shown(here)}" for n, (_, here) in differing.items()),
                hint="profile a new table for this model on this machine",
            )


def _score_maps(values: Mapping[str, Any]) -> dict[str, ScoreMap]:
    if not values:
        return {}
    from evict.calibration import ScoreMap  # torch, which a table without maps does not need

    return {temperature: ScoreMap.from_dict(one) for temperature, one in values.items()}


def _check_number(name: str, value: object, *, above_zero: bool = False) -> None:
    allowed = "a finite number " + ("> 0" if above_zero else ">= 0")
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (math.isfinite(value) and (value > 0 or (value == 0 and not above_zero)))
    ):
        raise InputError(name, seen=repr(value), allowed=allowed)


def _check_series(name: str, series: Any, length: int | None, *, above_zero: bool = False) -> None:
    if not isinstance(series, tuple) or not series:
        raise InputError(
            f"{name} is no series", seen=repr(series), allowed="a tuple with one number per k"
        )
    if length is not None and len(series) != length:
        raise InputError(f"{name}: wrong length", seen=len(series), allowed=length)
    for k, value in enumerate(series, start=1):
        _check_number(f"{name} at k={k}", value, above_zero=above_zero)


def _check_fingerprint(fingerprint: object) -> None:
    if not isinstance(fingerprint, dict):
        raise InputError("fingerprint", seen=repr(fingerprint), allowed="names and texts")
    for name, value in fingerprint.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InputError(f"fingerprint.{name}", seen=repr(value), allowed="a text")


def _check_keys(path: str, document: dict[str, Any]) -> None:
    known = {item.name for item in fields(CostTable)}
    required = {"step_ms", "ar_ms", "spread_ms", "beta", "fingerprint"}
    if wrong := (document.keys() - known) | (required - document.keys()):
        raise InputError(
            f"{path}: unknown or missing fields",
            seen=", ".join(sorted(wrong)),
            allowed=", ".join(sorted(known)),
        )


def _read_object(path: Path) -> dict[str, Any]:
    hint = "profile this model on this machine to write one"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("no cost table", seen=str(path), hint=hint) from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON", seen=str(error), hint=hint) from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: not a cost table", seen=type(document).__name__, hint=hint)
    return document


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _shown(value: str | None) -> str:
    return "(absent)" if value is None else repr(value)

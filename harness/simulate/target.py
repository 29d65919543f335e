"""What a prediction is asked about: any model on any device, and what is known of its drafter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from evict.errors import InputError
from harness.simulate.architecture import FACTS, load_geometry, read_draft, read_object
from harness.simulate.cost import Calibration, Setting
from harness.simulate.fit import PaperFit
from harness.simulate.geometry import DraftGeometry, ModelGeometry
from harness.simulate.hardware import THIS, Hardware, from_document, known_hardware, measure_this
from harness.simulate.readable import FitView

ASSUMED_MLP, ASSUMED_VOCABULARY = 3, 32000


def find_hardware(document: Any) -> Hardware:
    """A node of conf/hardware as a device; InputError where none was chosen."""
    if not document:
        raise InputError(
            "a prediction needs a device",
            seen="no hardware",
            allowed=", ".join([*known_hardware(), THIS]),
            hint="hardware=a100_80",
        )
    if document.get("name") == THIS:
        return measure_this()
    return from_document(dict(document), f"hardware {document.get('name')}")


def find_geometry(model: Mapping[str, Any]) -> ModelGeometry:
    """The geometry of a node of conf/model.

    A local folder with a config.json wins over the facts shipped under the model's name. A target
    without a known head gets one of the usual shape: one layer of the target's attention, an MLP
    three times as wide as the hidden state, a vocabulary of 32,000.
    """
    source = Path(str(model["target"]))
    geometry = load_geometry(source if source.exists() else _facts_of(model))
    head = Path(str(model.get("draft")))
    if geometry.draft is None and (head / "config.json").is_file():
        found = read_draft(read_object(head / "config.json"), geometry.attention.hidden)
        geometry = replace(geometry, draft=found)
    return geometry if geometry.draft else replace(geometry, draft=assumed_head(geometry))


def assumed_head(model: ModelGeometry) -> DraftGeometry:
    """An EAGLE-3 head of the usual shape for a target whose own is not known."""
    hidden = model.attention.hidden
    attention = replace(model.attention, inputs=2 * hidden)
    vocabulary = min(ASSUMED_VOCABULARY, model.vocab_size)
    return DraftGeometry(attention, ASSUMED_MLP * hidden, vocabulary, hidden)


@dataclass(frozen=True)
class Drafter:
    """What the paper says of a model, or the mean over its models where it says nothing.

    donors: the models of the paper that the numbers come from; one, itself, for each of those.
    mats: EAGLE-3's Mat by temperature (0 or 1) and benchmark. given: a Mat that holds for every
    benchmark, in their place.
    """

    donors: tuple[str, ...]
    mats: Mapping[tuple[int, str], float]
    given: float | None = None

    @staticmethod
    def of(name: str, given: float | None = None) -> Drafter:
        """Of a model by name."""
        view = FitView.published()
        every = tuple(view.models())
        chosen = (name,) if name in every else every
        tables = [view.cells("mean_accepted_tokens", "eagle3", donor) for donor in chosen]
        mean = sum(tables[1:], start=tables[0]) / len(tables)
        keys = cast(list[tuple[int, str]], list(mean.index))
        mats = {(int(t), b): float(mat) for (t, b), mat in zip(keys, mean, strict=True)}
        return Drafter(chosen, mats, given)

    def mat(self, temperature: float, benchmark: str) -> float:
        """EAGLE-3's Mat; the mean over benchmarks for one that is not published."""
        if self.given is not None:
            return self.given
        rows = {b: mat for (t, b), mat in self.mats.items() if t == (temperature > 0)}
        return rows.get(benchmark, sum(rows.values()) / len(rows))

    def calibration(self, fit: PaperFit) -> Calibration:
        """The fitted remainders, the mean over the donors."""
        found = [fit.models[name].calibration for name in self.donors]
        names = ("rho", "target_ms", "tree_ms", "draft_ms")
        return Calibration(**{n: sum(getattr(c, n) for c in found) / len(found) for n in names})


def find_setting(
    model: Mapping[str, Any], hardware: Hardware, batch: int, draft_tokens: int, tree: Any
) -> Setting:
    """What is priced for a tree grown by `tree` (steps, topk); InputError for an impossible one."""
    setting = Setting(
        model=find_geometry(model),
        hardware=hardware,
        tensor_parallel=int(model.get("tensor_parallel") or 1),
        draft_tokens=draft_tokens,
        steps=tree.steps,
        topk=tree.topk,
        batch=batch,
    )
    setting.model.parts(setting.tensor_parallel)
    return setting


def fits(setting: Setting) -> tuple[float, float]:
    """GiB of weights per device, and GiB that one has."""
    each = 2.0 * setting.model.total_parameters() / setting.tensor_parallel / 2**30
    return each, setting.hardware.memory_gib


def _facts_of(model: Mapping[str, Any]) -> str:
    name = str(model.get("name"))
    if (FACTS / f"{name}.yaml").is_file():
        return name
    raise InputError(
        f"no architecture numbers for model {name}",
        seen=str(model["target"]),
        allowed="a folder with a config.json, or "
        + ", ".join(sorted(file.stem for file in FACTS.glob("*.yaml"))),
        hint="model.target=path/to/folder",
    )

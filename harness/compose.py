"""From YAML to objects: methods, engines, and the config of a run with everything resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from functools import cache, partial
from typing import Any, cast, get_args

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import InstantiationException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from evict.errors import InputError
from harness.config import ROOT, MethodConfig, ModelConfig, RunConfig, known
from harness.engines.base import Drafter, Engine, Method, Scores
from harness.engines.isolated.child import Limits
from harness.engines.isolated.engine import IsolatedEngine

CHOICES = {
    "profile": ("auto", "only", "never"),
    "tune": ("auto", "only", "never"),
    "history": ("own", "reference"),
    "truncate": ("error", "tail", "middle"),
    "machine": ("exclusive", "wait", "shared"),
    "foreign_gpu": ("warn", "refuse"),
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
}
VARIANT = ":"


@cache
def load_group(group: str, name: str, overrides: tuple[str, ...] = ()) -> DictConfig:
    """The node that `group=name group.override ..` would compose, defaults of its file included."""
    names = known(group)
    if name not in names:
        raise InputError(f"unknown {group}", seen=name, allowed=", ".join(names))
    if not GlobalHydra.instance().is_initialized():
        raise RuntimeError("load_group needs an initialised Hydra")
    changes = [f"{group}.{override}" for override in overrides]
    return cast(DictConfig, hydra.compose(f"{group}/{name}", overrides=changes)[group])


def run_config(composed: DictConfig) -> RunConfig:
    """The typed config of one command line; `engine: auto` is replaced by the model's engine."""
    try:
        config = cast(RunConfig, OmegaConf.to_object(composed))
    except OmegaConfBaseException as error:
        raise InputError(str(error).splitlines()[0]) from error
    if foreign := _foreign(composed):
        raise InputError(
            "unknown key, which would be recorded and change nothing", seen=", ".join(foreign)
        )
    name = config.engine["name"]
    if name == "auto":
        config.engine = _engine_node(config)
    _check(config)
    return config


def _foreign(node: DictConfig, path: str = "") -> list[str]:
    """Keys that +key=value has added to a part whose keys are all known, by dotted name."""
    kind = OmegaConf.get_type(node)
    own = {item.name for item in fields(kind)} if is_dataclass(kind) else None
    found = []
    for key in map(str, node):
        if own is not None and key not in own:
            found.append(path + key)
        elif isinstance(child := node._get_node(key), DictConfig) and not child._is_none():
            found += _foreign(child, f"{path}{key}.")
    return found


def _engine_node(config: RunConfig) -> dict[str, Any]:
    """The settings of the model's engine; only its name when this version does not ship it."""
    name = config.model.engine
    if name not in known("engine"):
        return {"name": name}
    around = {"results_dir": config.results_dir, "engine": load_group("engine", name)}
    node = OmegaConf.to_container(OmegaConf.create(around), resolve=True)
    return cast(dict[str, Any], cast(dict[str, Any], node)["engine"])


def arms(config: RunConfig) -> list[MethodConfig]:
    """The chosen method, then those in `compare`; InputError for one named twice or unknown.

    An entry is a method's name, or a variant: "coverage:selection.rho=0.4,growth.steps=3".
    """
    chosen = [config.method]
    for entry in config.compare:
        method = _variant(entry)
        if method in chosen:
            raise InputError("a method is compared with itself", seen=entry, hint="compare=[]")
        chosen.append(method)
    return chosen


def _variant(entry: str) -> MethodConfig:
    name, _, changes = entry.partition(VARIANT)
    node = load_group("method", name, tuple(change for change in changes.split(",") if change))
    merged = OmegaConf.merge(OmegaConf.structured(MethodConfig), node)
    return cast(MethodConfig, OmegaConf.to_object(merged))


def with_parameter(config: MethodConfig, parameter: str, value: Any) -> MethodConfig:
    """The same method with one dotted setting changed, `selection.k` say."""
    node = OmegaConf.create(asdict(config))
    if OmegaConf.select(node, parameter, default=MISSING) is MISSING:
        raise InputError(
            f"method {config.name} has no such setting",
            seen=parameter,
            allowed=", ".join(parameters(config)),
        )
    OmegaConf.update(node, parameter, value)
    merged = OmegaConf.merge(OmegaConf.structured(MethodConfig), node)
    return cast(MethodConfig, OmegaConf.to_object(merged))


def parameters(config: MethodConfig) -> dict[str, Any]:
    """The settings of growth and selection by dotted name, and the size of the tree."""
    found: dict[str, Any] = {"draft_tokens": config.draft_tokens}
    for part in ("growth", "selection"):
        node = getattr(config, part) or {}
        found |= {f"{part}.{key}": value for key, value in node.items()}
    return found


def build_method(config: MethodConfig) -> Method:
    """The method's growth and selection as objects, checked against each other.

    InputError when draft_tokens lies outside 1..capacity + 1 or a fixed k outside the tree.
    """
    for name, allowed in (("drafter", get_args(Drafter)), ("scores", get_args(Scores))):
        value = getattr(config, name)
        if value not in allowed:
            raise InputError(f"unknown {name}", seen=value, allowed=", ".join(allowed))
    growth, selection = _build(config.growth), _build(config.selection)
    largest = 1 if growth is None else growth.capacity + 1
    if not 1 <= config.draft_tokens <= largest:
        raise InputError(
            f"draft_tokens of method {config.name} (root included)",
            seen=config.draft_tokens,
            allowed=f"1..{largest}",
            hint="raise method.growth.steps or method.growth.topk for a larger tree",
        )
    if selection is not None and not selection.needs_cost:
        selection.bind(None, config.draft_tokens)
    return Method(
        name=config.name,
        drafter=cast(Any, config.drafter),
        growth=growth,
        selection=selection,
        draft_tokens=config.draft_tokens,
        lossless=config.lossless,
        scores=cast(Any, config.scores),
    )


def engine_opener(config: RunConfig) -> Callable[[], Engine]:
    """A function that loads the engine; nothing heavy is imported before it is called.

    With `process.isolated` among its settings, the engine is loaded in a process of its own.
    """
    model = absolute(config.model)
    process = config.engine.get("process") or {}

    def open_engine() -> Engine:
        node = {key: value for key, value in config.engine.items() if key != "name"}
        factory = _build({**node, "_partial_": True, "_convert_": "all"})
        load = partial(factory, model=asdict(model))
        if not process.get("isolated"):
            return cast(Engine, load())
        limits = {item.name: process[item.name] for item in fields(Limits) if item.name in process}
        return IsolatedEngine(load, Limits(**limits))

    return open_engine


def absolute(model: ModelConfig) -> ModelConfig:
    """The same model with local checkpoint paths resolved against the repository root."""
    values = {item.name: getattr(model, item.name) for item in fields(model)}
    for key in ("target", "draft"):
        if values[key] and (ROOT / values[key]).exists():
            values[key] = str(ROOT / values[key])
    return ModelConfig(**values)


def _build(node: Any) -> Any:
    if node is None:
        return None
    try:
        return hydra.utils.instantiate(node)
    except InstantiationException as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise InputError(str(error).splitlines()[0], seen=node.get("_target_")) from error


def _check(config: RunConfig) -> None:
    for key, allowed in CHOICES.items():
        value = getattr(config, key)
        if value not in allowed:
            raise InputError(f"{key}=", seen=value, allowed=", ".join(allowed))
    lowest = {"temperature": 0, "max_new_tokens": 1, "repeats": 1, "warmup_prompts": 0}
    for key, low in {**lowest, "warmup_tokens": 1, "tune_prompts": 1, "batch_size": 1}.items():
        if not getattr(config, key) >= low:
            raise InputError(f"{key}=", seen=getattr(config, key), allowed=f">= {low}")
    for key, plain in (("hardware", None), ("batch_size", 1)):
        if getattr(config, key) != plain and key not in config.engine:
            seen, hint = f"engine={config.engine['name']}", "engine=simulated"
            raise InputError(f"{key}= changes nothing on this engine", seen=seen, hint=hint)
    if config.limit is not None and config.limit < 1:
        raise InputError("limit=", seen=config.limit, allowed=">= 1, or null for all prompts")

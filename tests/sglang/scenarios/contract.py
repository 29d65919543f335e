"""SGLang's symbols as installed, beside those the plugin relies on."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

from evict.errors import InputError


def signatures() -> dict[str, Any]:
    """Symbols whose parameters differ, names used but not listed, and where globals are read."""
    from evict.sglang import compat, relied_on, version

    differing, checked = {}, 0
    for module, symbols in relied_on.RELIED_ON.items():
        for name, wanted in symbols.items():
            seen = parameters(_symbol(module, name))
            checked += 1
            if seen != wanted:
                differing[f"{module}:{name}"] = [wanted, seen]
    try:
        version.check("0.5.22")
        refusal = ""
    except InputError as error:
        refusal = str(error)
    return {
        "differing": differing,
        "checked": checked,
        "unlisted": _unlisted(compat, relied_on.RELIED_ON),
        "swapped": {name: _readers(name) for name in SWAPPED},
        "refusal": refusal,
    }


SWAPPED = (
    "EagleDraftWorker",
    "build_eagle_verify_input",
    "organize_draft_results",
    "select_top_k_tokens",
)
# Constants, plain classes and enumerations: nothing is called on them that has parameters.
PLAIN = {"Backend", "Phase", "ForwardContext", "TopK", "eagle_worker_v2"}


def parameters(symbol: Callable[..., Any]) -> str:
    """Names, kinds and defaults, without annotations."""
    signature = inspect.signature(symbol)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    text = str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return re.sub(r"<class '([^']*)'>", r"\1", text)


def _symbol(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = (
            inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
        )
    return found.__func__ if isinstance(found, classmethod | staticmethod) else found


def _unlisted(compat: Any, listed: dict[str, dict[str, str]]) -> list[str]:
    """Names that the plugin imports from SGLang and the list does not mention."""
    mentioned = {name.split(".")[0] for symbols in listed.values() for name in symbols}
    imported = set()
    for node in ast.walk(ast.parse(inspect.getsource(compat))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sglang"):
            imported |= {alias.name for alias in node.names}
    return sorted(imported - mentioned - PLAIN)


def _readers(name: str) -> list[str]:
    """Methods of SGLang's EAGLE classes that look this global up."""
    from sglang.srt.speculative import eagle_worker_v2 as module

    return [
        f"{cls.__name__}.{method}"
        for cls in (module.EagleDraftWorker, module.EAGLEWorkerV2)
        for method, function in vars(cls).items()
        if inspect.isfunction(function) and name in function.__code__.co_names
    ]

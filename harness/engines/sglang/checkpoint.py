"""Whether a draft checkpoint belongs to its target, told before a server loads either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from evict.errors import InputError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Sizes:
    """What the two configs say of the pair. aux: target states that the head fuses, in order.

    vocab_size and draft_vocab_size count ids; aux is a number of layers, layers the target's.
    """

    hidden_size: int
    vocab_size: int
    layers: int
    draft_hidden_size: int
    draft_vocab_size: int
    aux: int


def check_checkpoint(target: Path, draft: Path) -> Sizes:
    """Sizes of the pair in two local folders; InputError with the reason if they do not fit.

    Reads config.json, tokenizer.json, safetensors headers, and of the tensors only the vocabulary
    maps d2t and t2d.
    """
    sizes = _sizes(_config(target), _config(draft))
    shapes = _shapes(draft)
    _check_fusion(sizes, shapes)
    _check_vocabulary(draft, sizes, shapes)
    _check_tokenizers(target, draft, sizes.vocab_size)
    return sizes


def _config(folder: Path) -> dict[str, Any]:
    from harness.engines.torch.config import read_config

    config = read_config(folder)
    nested = config.get("text_config")
    return {**config, **nested} if isinstance(nested, dict) else config


def _sizes(target: Mapping[str, Any], draft: Mapping[str, Any]) -> Sizes:
    hidden, vocab, layers = (
        _need(target, name, "target") for name in ("hidden_size", "vocab_size", "num_hidden_layers")
    )
    draft_hidden = _need(draft, "hidden_size", "draft")
    expected = int(draft.get("target_hidden_size") or draft_hidden)
    _equal("hidden size of the target that the draft was made for", expected, hidden)
    draft_vocab = _need(draft, "vocab_size", "draft")
    _equal("vocabulary of the target that the draft was made for", draft_vocab, vocab)
    reduced = int(draft.get("draft_vocab_size") or vocab)
    return Sizes(hidden, vocab, layers, draft_hidden, reduced, _aux(draft, layers))


def _aux(draft: Mapping[str, Any], layers: int) -> int:
    """Number of captured layers: told, or the length of the list of ids, or SGLang's three."""
    ids = (draft.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
    # The state after layer i is taken where layer i + 1 begins, so the last one has none.
    if ids and not all(0 <= int(i) < layers - 1 for i in ids):
        raise InputError(
            "the draft captures layers that the target does not have",
            seen=ids,
            allowed=f"layers in 0..{layers - 2}",
        )
    told = draft.get("num_aux_hidden_states")
    if told is not None and ids and int(told) != len(ids):
        raise InputError("the draft's captured layers are counted twice", seen=told, allowed=ids)
    return int(told or len(ids or (2, layers // 2, layers - 3)))


def _shapes(folder: Path) -> dict[str, Shape]:
    """Tensor shapes by name without their `model.` prefix, from safetensors headers alone."""
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, Shape] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118  (a handle is no mapping)
                    shapes[name.removeprefix("model.")] = tuple(file.get_slice(name).get_shape())
        except SafetensorError as error:
            raise InputError(f"{path.name} is not a valid safetensors file", seen=error) from error
    if not shapes:
        raise InputError(
            f"draft checkpoint {folder.name} has no safetensors file",
            seen=sorted(path.name for path in folder.iterdir())[:8],
            allowed="*.safetensors (pickled weights are never loaded)",
        )
    return shapes


def _check_fusion(sizes: Sizes, shapes: Mapping[str, Shape]) -> None:
    fused = shapes.get("fc.weight")
    if fused is None:
        raise InputError(
            "the draft is no EAGLE-3 head: it has no fc.weight that fuses the target's states",
            seen=f"{len(shapes)} tensors",
            allowed="an EAGLE-3 checkpoint",
        )
    wanted = (sizes.draft_hidden_size, sizes.aux * sizes.hidden_size)
    if fused != wanted:
        raise InputError(
            f"fc.weight does not fuse {sizes.aux} states of {sizes.hidden_size} of the target",
            seen=fused,
            allowed=wanted,
        )
    own = "embed_tokens.weight" in shapes
    if sizes.draft_hidden_size != sizes.hidden_size and not own:
        raise InputError(
            "the draft has no embedding of its own and cannot share the target's",
            seen=sizes.draft_hidden_size,
            allowed=sizes.hidden_size,
        )


def _check_vocabulary(folder: Path, sizes: Sizes, shapes: Mapping[str, Shape]) -> None:
    """The maps between the vocabularies, as the embedded engine checks them when it loads."""
    from harness.engines.torch.config import HeadConfig
    from harness.engines.torch.eagle3 import draft_vocabulary
    from harness.engines.torch.weights import Checkpoint

    # A head without an output layer takes the target's, which has a row for every id.
    rows = shapes.get("lm_head.weight", (sizes.vocab_size,))[0]
    _equal("rows of the draft's lm_head.weight", rows, sizes.draft_vocab_size)
    # It reads the two vocabulary sizes alone.
    draft_vocabulary(Checkpoint(folder), cast(HeadConfig, sizes))


def _check_tokenizers(target: Path, draft: Path, vocab_size: int) -> None:
    ids, others = _token_ids(target), _token_ids(draft)
    most = max(ids.values(), default=-1)
    if most >= vocab_size:
        raise InputError(
            "the tokenizer has ids that the target does not embed",
            seen=most,
            allowed=f"0..{vocab_size - 1}",
        )
    moved = sorted(token for token in ids.keys() & others.keys() if ids[token] != others[token])
    if moved:
        raise InputError(
            "the draft's tokenizer is not the target's",
            seen=f"{len(moved)} tokens with another id, such as {moved[0]!r}",
            allowed="0 tokens",
        )


def _token_ids(folder: Path) -> dict[str, int]:
    """Token -> id of `tokenizer.json`, added tokens included; empty where there is none."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    vocab = document["model"].get("vocab", {})
    pairs = vocab if isinstance(vocab, dict) else {row[0]: i for i, row in enumerate(vocab)}
    added = {row["content"]: int(row["id"]) for row in document.get("added_tokens") or ()}
    return {**pairs, **added}


def _need(config: Mapping[str, Any], name: str, of: str) -> int:
    if config.get(name) is None:
        raise InputError(f"config.json of the {of} lacks {name!r}", seen=sorted(config)[:8])
    return int(config[name])


def _equal(what: str, seen: int, allowed: int) -> None:
    if seen != allowed:
        raise InputError(
            what,
            seen=seen,
            allowed=allowed,
            hint="model.draft=PATH of a head trained for this target",
        )

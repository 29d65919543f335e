"""Reproduce the lab model: `python -m harness.lab.train [tokenizer|target|head|all] --out DIR`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer

from harness.lab.corpus import FAMILIES, Dialogue, dialogues, fingerprint, mixture
from harness.lab.export import export_head, export_target, round_weights
from harness.lab.generate import own_rows
from harness.lab.recipe import Recipe
from harness.lab.rows import Batch, batches, mix, to_row
from harness.lab.target import LabTarget
from harness.lab.tokenizer import save_tokenizer, train_tokenizer
from harness.lab.train_head import draft_vocabulary, train_head
from harness.lab.train_target import train_target

WEIGHTS = Path(__file__).parent / "weights"


def build_tokenizer(recipe: Recipe, out: Path) -> None:
    """Train the vocabulary on the first dialogues of every family."""
    part = recipe.tokenizer

    def rows() -> Iterator[Dialogue]:
        for family in FAMILIES:
            source = dialogues(family, "train", part.seed)
            yield from islice(source, part.dialogues_per_family)

    sample = list(rows())
    print("corpus sha256", fingerprint(sample), flush=True)
    save_tokenizer(
        train_tokenizer(sample, part), out / "target", recipe.target.max_position_embeddings
    )


def load_tokenizer(out: Path) -> Tokenizer:
    """The tokenizer of the checkpoint under `out`."""
    return Tokenizer.from_file(str(out / "target" / "tokenizer.json"))


def corpus_batches(
    recipe: Recipe, tokenizer: Tokenizer, split: str, seed: int, tokens: int, weights: object = None
) -> Iterator[Batch]:
    """Endless batches of the mixture."""
    source = mixture(split, seed, weights or recipe.target_mixture)  # type: ignore[arg-type]
    return batches((to_row(d, tokenizer) for d in source), tokens, seed)


def build_target(recipe: Recipe, out: Path) -> None:
    """Train the target and leave its checkpoint beside the tokenizer."""
    tokenizer = load_tokenizer(out)
    part = recipe.target
    evaluation = list(
        islice(corpus_batches(recipe, tokenizer, "heldout", 99, part.tokens_per_step), 12)
    )
    source = corpus_batches(recipe, tokenizer, "train", part.seed, part.tokens_per_step)
    train_target(part, tokenizer.get_vocab_size(), source, evaluation, out / "target.ckpt")


def load_target(recipe: Recipe, out: Path) -> LabTarget:
    """The trained target, rounded to the weights that are shipped."""
    tokenizer = load_tokenizer(out)
    model = LabTarget(recipe.target, tokenizer.get_vocab_size())
    state = torch.load(out / "target.ckpt", weights_only=True)
    model.load_state_dict(state["model"])
    round_weights(model)
    return model.eval().requires_grad_(False)


def build_head(recipe: Recipe, out: Path) -> None:
    """Let the target answer, train the head on that and on corpus text, write its checkpoint."""
    tokenizer, target, part = load_tokenizer(out), load_target(recipe, out), recipe.head
    export_target(target, out / "target")
    prompts = mixture("train", part.seed, recipe.head_mixture)
    own = own_rows(target, tokenizer, prompts, part.own_output_dialogues, part.seed)
    corpus = (to_row(d, tokenizer) for d in mixture("train", part.seed + 1, recipe.head_mixture))
    ids_D = draft_vocabulary(own, part.draft_vocab_size, tokenizer.get_vocab_size())
    mixed = mix(own, corpus, part.own_output_share, part.seed)
    source = batches(mixed, part.tokens_per_step, part.seed)
    head = train_head(part, target, ids_D, source)
    export_head(head, target, part, out / "eagle3")


STAGES = {"tokenizer": build_tokenizer, "target": build_target, "head": build_head}


def main() -> None:
    """Run the named stages in order."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=[*STAGES, "all"], nargs="?", default="all")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True, exist_ok=True)
    recipe = Recipe()
    print(json.dumps({"threads": args.threads, "torch": torch.__version__}), flush=True)
    for name in STAGES if args.stage == "all" else (args.stage,):
        STAGES[name](recipe, args.out)


if __name__ == "__main__":
    main()

"""Reproduce the lab model: `python -m harness.lab.train [tokenizer|target|head|all] --out DIR`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
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
DEFAULT_OUT = Path("results/runs/lab_weights")


def corpus_sample(recipe: Recipe) -> list[Dialogue]:
    """The first training dialogues of every family: the tokenizer's text and the corpus' hash."""
    part = recipe.tokenizer
    return [
        dialogue
        for family in FAMILIES
        for dialogue in islice(dialogues(family, "train", part.seed), part.dialogues_per_family)
    ]


def build_tokenizer(recipe: Recipe, out: Path) -> None:
    """Train the vocabulary and note what the weights are made from."""
    sample = corpus_sample(recipe)
    context = recipe.target.max_position_embeddings
    save_tokenizer(train_tokenizer(sample, recipe.tokenizer), out / "target", context)
    made_from = {"corpus_sha256": fingerprint(sample), "recipe": asdict(recipe)}
    (out / "training.json").write_text(json.dumps(made_from, indent=2) + "\n")


def load_tokenizer(out: Path) -> Tokenizer:
    """The tokenizer of the checkpoint under `out`."""
    return Tokenizer.from_file(str(out / "target" / "tokenizer.json"))


def corpus_batches(
    weights: Mapping[str, float], tokenizer: Tokenizer, split: str, seed: int, tokens: int
) -> Iterator[Batch]:
    """Endless batches of a mixture of families."""
    source = mixture(split, seed, weights)
    return batches((to_row(d, tokenizer) for d in source), tokens, seed)


def build_target(recipe: Recipe, out: Path) -> None:
    """Train the target and leave its checkpoint beside the tokenizer."""
    tokenizer = load_tokenizer(out)
    part = recipe.target
    weights, size = recipe.target_mixture, part.tokens_per_step
    evaluation = list(islice(corpus_batches(weights, tokenizer, "heldout", 99, size), 12))
    source = corpus_batches(weights, tokenizer, "train", part.seed, size)
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
    own = own_rows(target, tokenizer, recipe.head_mixture, part.own_output_dialogues, part.seed)
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
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
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

"""Training of the lab target: next-token loss, router losses, AdamW with a cosine schedule."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.lab.recipe import TargetRecipe
from harness.lab.rows import Batch
from harness.lab.target import LabTarget, TargetOutput


def learning_rate(step: int, steps: int, peak: float, warmup: int) -> float:
    """Linear warm-up, then a cosine down to 3 % of the peak."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    return peak * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))


def optimiser(model: torch.nn.Module, peak: float, decay: float) -> torch.optim.AdamW:
    """AdamW; weight decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.95), fused=True)


def token_loss(output: TargetOutput, batch: Batch, prompt_weight: float) -> Tensor:
    """Weighted cross-entropy of the next token, per token of weight."""
    weight = batch.answer_BT.float() + prompt_weight * (batch.real_BT & ~batch.answer_BT).float()
    weight = weight[:, 1:].flatten()
    losses = F.cross_entropy(
        output.logits_BTV[:, :-1].flatten(0, 1), batch.ids_BT[:, 1:].flatten(), reduction="none"
    )
    return (losses * weight).sum() / weight.sum()


@torch.no_grad()
def held_out(model: LabTarget, batches: Iterable[Batch]) -> dict[str, tuple[float, float]]:
    """(answer loss in nats, teacher-forced accuracy) per family."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for batch in batches:
        logits = model(batch.ids_BT, batch.real_BT).logits_BTV[:, :-1]
        targets = batch.ids_BT[:, 1:]
        loss_BT = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none")
        hit_BT = (logits.argmax(-1) == targets).float()
        keep_BT = batch.answer_BT[:, 1:].float()
        for row, family in enumerate(batch.families):
            for slot, value in enumerate((loss_BT[row], hit_BT[row], torch.ones_like(hit_BT[row]))):
                sums[family][slot] += float((value * keep_BT[row]).sum())
    return {f: (s[0] / s[2], s[1] / s[2]) for f, s in sorted(sums.items())}


def train_target(
    recipe: TargetRecipe,
    vocab_size: int,
    source: Iterator[Batch],
    evaluation: list[Batch],
    checkpoint: Path,
) -> LabTarget:
    """Run every step of the recipe; a checkpoint is kept every 100 steps and resumed from."""
    torch.manual_seed(recipe.seed)
    model = LabTarget(recipe, vocab_size)
    adam = optimiser(model, recipe.learning_rate, recipe.weight_decay)
    first = _resume(checkpoint, model, adam)
    started, seen = time.perf_counter(), 0
    for step in range(recipe.steps):
        batch = next(source)
        if step < first:
            continue
        loss, output = _step(model, adam, batch, recipe, step)
        seen += int(batch.real_BT.sum())
        if (step + 1) % 25 == 0:
            rate = seen / (time.perf_counter() - started)
            load = float(output.load_LE.max())
            dead = int((output.load_LE == 0).sum())
            print(
                f"target step {step + 1}/{recipe.steps} loss {loss:.3f} "
                f"max load {load:.3f} dead {dead} tokens/s {rate:.0f}",
                flush=True,
            )
        if (step + 1) % 100 == 0:
            torch.save(
                {"step": step + 1, "model": model.state_dict(), "adam": adam.state_dict()},
                checkpoint,
            )
        if (step + 1) % 300 == 0 or step + 1 == recipe.steps:
            print(
                "held out",
                {
                    k: (round(a, 3), round(b, 3))
                    for k, (a, b) in held_out(model, evaluation).items()
                },
                flush=True,
            )
    return model


def _step(
    model: LabTarget, adam: torch.optim.AdamW, batch: Batch, recipe: TargetRecipe, step: int
) -> tuple[float, TargetOutput]:
    rate = learning_rate(step, recipe.steps, recipe.learning_rate, recipe.warmup_steps)
    for group in adam.param_groups:
        group["lr"] = rate
    output = model(batch.ids_BT, batch.real_BT)
    loss = token_loss(output, batch, recipe.prompt_loss_weight)
    total = loss + recipe.balance_loss * output.balance_loss
    total = total + recipe.router_z_loss * output.z_loss
    adam.zero_grad(set_to_none=True)
    total.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    return float(loss.detach()), output


def _resume(checkpoint: Path, model: LabTarget, adam: torch.optim.AdamW) -> int:
    if not checkpoint.exists():
        return 0
    state = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(state["model"])
    adam.load_state_dict(state["adam"])
    return int(state["step"])

"""Training of the EAGLE-3 head on the target's own answers and on corpus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from harness.lab.head import LabHead
from harness.lab.recipe import HeadRecipe
from harness.lab.rows import Batch, Row
from harness.lab.target import LabTarget
from harness.lab.train_target import learning_rate, optimiser


def draft_vocabulary(rows: Iterable[Row], size: int, vocab_size: int) -> Tensor:
    """The `size` most frequent assistant tokens, ascending target ids [D]."""
    counts: Counter[int] = Counter()
    for row in rows:
        counts.update(token for token, answer in zip(row.ids, row.answer, strict=True) if answer)
    ranked = sorted(range(vocab_size), key=lambda token: (-counts[token], token))
    return torch.tensor(sorted(ranked[:size]))


def train_head(
    recipe: HeadRecipe, target: LabTarget, ids_D: Tensor, source: Iterator[Batch]
) -> LabHead:
    """Soft cross-entropy to the target over the draft vocabulary, discounted per unroll step."""
    torch.manual_seed(recipe.seed)
    embedding = target.embed_tokens.weight.detach().clone()
    head = LabHead(target.recipe, recipe, embedding, ids_D)
    adam = optimiser(head, recipe.learning_rate, 0.01)
    for step in range(recipe.steps):
        for group in adam.param_groups:
            group["lr"] = learning_rate(
                step, recipe.steps, recipe.learning_rate, recipe.warmup_steps
            )
        batch = next(source)
        with torch.no_grad():
            output = target(batch.ids_BT)
        logits = head.unroll(batch.ids_BT, output.states_BTF, recipe.unroll_steps)
        loss, hits = _losses(logits, output.logits_BTV, batch, ids_D, recipe.unroll_decay)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        adam.step()
        if (step + 1) % 25 == 0:
            shown = " ".join(f"{hit:.3f}" for hit in hits)
            print(
                f"head step {step + 1}/{recipe.steps} loss {float(loss.detach()):.3f} "
                f"top-1 by depth {shown}",
                flush=True,
            )
    return head


def _losses(
    logits: list[Tensor], target_BTV: Tensor, batch: Batch, ids_D: Tensor, decay: float
) -> tuple[Tensor, list[float]]:
    """Total loss and top-1 agreement per unroll step.

    Counted are positions whose predicted token is the assistant's and whose target argmax lies in
    the draft vocabulary.
    """
    wanted = target_BTV[..., ids_D].softmax(-1)
    best = target_BTV.argmax(-1)
    covered = torch.isin(best, ids_D)
    total, hits = torch.zeros(()), []
    for step, draft in enumerate(logits):
        ahead = step + 1
        log_q = draft[:, : -ahead - 1].log_softmax(-1)
        keep = (batch.answer_BT[:, ahead + 1 :] & covered[:, ahead:-1]).float()
        loss_BT = -(wanted[:, ahead:-1] * log_q).sum(-1)
        total = total + decay**step * (loss_BT * keep).sum() / keep.sum()
        match = ids_D[log_q.argmax(-1)] == best[:, ahead:-1]
        hits.append(float((match * keep).sum() / keep.sum()))
    return total, hits

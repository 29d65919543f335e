"""Recorded draft trees: what a step drafted, what the target said of every node, what it cost."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

NODE_COLUMNS = ("tokens", "parents", "depths")


@dataclass(frozen=True, slots=True, eq=False)
class TreeRecord:
    """One step's full tree of N nodes in score order, the root first.

    tokens, parents, depths: int [N]; parents[0] is -1. scores: float32 [N], raw draft scores.
    path: node indices that the target accepts when all N are verified, the root first.
    verified: the live policy's k. experts: int16 [N, L, K], ids chosen in each MoE layer.
    committed: tokens that the live step committed, less than accepted + 1 where a stop rule cut.
    """

    step: int
    tokens: np.ndarray
    parents: np.ndarray
    depths: np.ndarray
    scores: np.ndarray
    path: tuple[int, ...]
    verified: int
    committed: int
    experts: np.ndarray

    @property
    def size(self) -> int:
        """N, the root included."""
        return len(self.tokens)

    def accepted(self) -> np.ndarray:
        """Draft nodes kept when the first k nodes are verified, int [N], k = 1..N.

        Children are offered in score order, so a prefix keeps the full path's part inside it.
        """
        on_path = np.zeros(self.size, dtype=np.int64)
        on_path[list(self.path[1:])] = 1
        return np.asarray(np.cumsum(on_path))

    def tokens_committed(self) -> np.ndarray:
        """Tokens that a step of each k commits, int [N]: accepted + 1, cut where the live step was.

        A cut step ends the request, so no policy could have committed more than it did.
        """
        found = np.asarray(self.accepted() + 1)
        live = int(found[self.verified - 1])
        return np.asarray(np.minimum(found, self.committed)) if self.committed < live else found

    def union(self) -> np.ndarray:
        """Distinct experts per layer when the first k nodes are verified, float [N], layer mean."""
        return np.asarray(self.union_layers().mean(axis=1))

    def union_layers(self) -> np.ndarray:
        """The same per layer: int [N, L]."""
        nodes, layers, _ = self.experts.shape
        seen = np.zeros((nodes, layers, int(self.experts.max()) + 1), dtype=bool)
        np.put_along_axis(seen, self.experts.astype(np.int64), True, axis=2)
        return np.asarray(np.logical_or.accumulate(seen, axis=0).sum(axis=2))

    def to_row(self) -> dict[str, Any]:
        """Plain data for one line of trees.jsonl; expert ids as little-endian base64 int16."""
        return {
            "step": self.step,
            **{name: getattr(self, name).tolist() for name in NODE_COLUMNS},
            "scores": [float(score) for score in self.scores],
            "path": list(self.path),
            "verified": self.verified,
            "committed": self.committed,
            "experts": base64.b64encode(self.experts.astype("<i2").tobytes()).decode(),
            "experts_shape": list(self.experts.shape),
        }

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Self:
        """Inverse of `to_row`; also takes a row of trees.parquet, whose experts are bytes."""
        raw = row["experts"]
        ids = np.frombuffer(base64.b64decode(raw) if isinstance(raw, str) else raw, dtype="<i2")
        return cls(
            step=int(row["step"]),
            **{name: np.asarray(row[name], dtype=np.int64) for name in NODE_COLUMNS},
            scores=np.asarray(row["scores"], dtype=np.float32),
            path=tuple(int(node) for node in row["path"]),
            verified=int(row["verified"]),
            committed=int(row["committed"]),
            experts=ids.reshape(tuple(int(size) for size in row["experts_shape"])),
        )


def packed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A line of trees.jsonl as a row of trees.parquet: expert ids as bytes."""
    return {**row, "experts": base64.b64decode(row["experts"])}


def unpacked(row: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `packed`."""
    return {**row, "experts": base64.b64encode(row["experts"]).decode()}


def node_verdicts(trees: Sequence[TreeRecord]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(scores, depths, accepted) of every drafted node of these trees, roots left out."""
    scores = [tree.scores[1:] for tree in trees]
    depths = [tree.depths[1:] for tree in trees]
    accepted = []
    for tree in trees:
        kept = np.zeros(tree.size, dtype=bool)
        kept[list(tree.path)] = True
        accepted.append(kept[1:])
    if not trees:
        return np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    return np.concatenate(scores), np.concatenate(depths), np.concatenate(accepted)

"""The bundled lab prompt sets: `python -m harness.lab.prompts` rewrites datasets/lab/*.jsonl.

All prompts come from the corpus' held-out split, whose keys no training dialogue has. Calibration
prompts (warm-up, C(k), beta) are drawn from the same split and share no text with measured ones.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from harness.lab.corpus import FAMILIES, Dialogue, dialogues

MEASURED = 64
CALIBRATION = 8
SEED = 2026
FOLDER = Path(__file__).resolve().parents[2] / "datasets" / "lab"


def held_out(family: str, count: int) -> list[Dialogue]:
    """The first `count` held-out dialogues of a family with distinct first questions."""
    seen: set[str] = set()
    found: list[Dialogue] = []
    source: Iterator[Dialogue] = dialogues(family, "heldout", SEED)
    while len(found) < count:
        dialogue = next(source)
        if dialogue.turns[0][0] not in seen:
            seen.add(dialogue.turns[0][0])
            found.append(dialogue)
    return found


def to_line(number: int, dialogue: Dialogue) -> str:
    """One JSONL line in the layout of the public question files."""
    return json.dumps(
        {
            "question_id": number,
            "category": dialogue.family,
            "turns": [user for user, _ in dialogue.turns],
            "reference": [assistant for _, assistant in dialogue.turns],
        },
        ensure_ascii=False,
    )


def write_sets(folder: Path) -> None:
    """Write one measured file per family and one calibration file."""
    folder.mkdir(parents=True, exist_ok=True)
    calibration: list[str] = []
    for family in FAMILIES:
        drawn = held_out(family, MEASURED + CALIBRATION)
        lines = [to_line(i, d) for i, d in enumerate(drawn[:MEASURED])]
        (folder / f"{family}.jsonl").write_text("\n".join(lines) + "\n")
        calibration += [to_line(len(calibration) + i, d) for i, d in enumerate(drawn[MEASURED:])]
    (folder / "calibration.jsonl").write_text("\n".join(calibration) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    write_sets(parser.parse_args().out)


if __name__ == "__main__":
    main()

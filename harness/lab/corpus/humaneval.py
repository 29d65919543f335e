"""Functions to complete: the body follows from the signature, the docstring and the example."""

from __future__ import annotations

import random

from .archetypes import ARCHETYPES, Archetype
from .dialogue import Dialogue
from .stable import pick

_OPENINGS = (
    "Complete the code I provided.",
    "Complete the code I provided. Only return the body.",
    "Complete the code I provided and add a short check.",
    "Please finish this Python function for me.",
    "Fill in the missing body of the function below.",
    "Here is a function without a body. Complete it.",
    "Complete the code I provided, with an explicit loop.",
    "Write the rest of this function and one check.",
    "I need the body of this function. Complete the code.",
)
_LISTS = ("values", "numbers", "scores", "prices", "weights", "levels", "ages", "heights", "points",
          "costs", "sizes", "rates", "marks", "counts", "sums", "temps", "steps", "grades")  # fmt: skip
_TEXTS = ("words", "names", "labels", "tags", "cities", "titles", "lines", "keys", "fruits",
          "colors", "rows", "notes", "tokens", "terms", "parts", "codes")  # fmt: skip
_WORDS = ("apple", "river", "stone", "cloud", "tiger", "bread", "lamp", "ocean", "tree", "cat",
          "sun", "violin", "map", "garden", "owl", "ink")  # fmt: skip
_COMPARE = {">": "greater than", "<": "less than", ">=": "at least", "<=": "at most"}


def _slots(kind: Archetype, rng: random.Random) -> dict[str, str]:
    operator = rng.choice(tuple(_COMPARE))
    param = rng.choice(_TEXTS if kind.text else _LISTS)
    data: list[str] | list[int]
    if kind.text:
        data = [rng.choice(_WORDS) for _ in range(4)]
    else:
        data = [rng.randrange(1, 20) for _ in range(4)]
    k = rng.randrange(2, 6) if kind.text else rng.randrange(2, 13)
    return {
        "p": param, "op": operator, "cmp": _COMPARE[operator], "k": str(k), "data": repr(data),
        "fn": rng.choice(kind.names).format(p=param),
        "v": {"values": "value"}.get(param, "item" if param == "keys" else param[:-1]),
    }  # fmt: skip


def _result(code: str, call: str) -> str:
    scope: dict[str, object] = {}
    exec(code, scope)
    return repr(eval(call, scope))


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One task; its key is the function name with its constant, operator and archetype."""
    kind = rng.choice(ARCHETYPES)
    s = _slots(kind, rng)
    s["v"] = "city" if s["p"] == "cities" else s["v"]
    doc, body = kind.doc.format(**s), kind.body.strip("\n").format(**s)
    call = "{fn}({data})".format(**s)
    head = "def {fn}({p}):".format(**s)
    result = _result(f"{head}\n{body}\n", call)
    opening = pick(_OPENINGS, rng.randrange(len(_OPENINGS)))
    prompt = f'{opening}\n\n{head}\n    """{doc}\n    >>> {call}\n    {result}\n    """\n'
    check = f"\n\ndef check_{s['fn']}():\n    data = {s['data']}\n    assert {s['fn']}(data) == {result}\n"
    key = "|".join((doc, s["fn"], s["p"]))
    return key, Dialogue("humaneval", ((prompt, body + check),))

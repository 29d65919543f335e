"""Function archetypes: possible names, a docstring and a body with slots.

Slots: {p} parameter, {v} loop variable, {k} constant, {op} operator, {cmp} its words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Archetype:
    """One kind of function; `text` says whether its list holds words or whole numbers."""

    names: tuple[str, ...]
    doc: str
    body: str
    text: bool = False


def _loop(start: str, lines: str, end: str) -> str:
    inner = "\n".join(" " * 8 + line for line in lines.split("\n"))
    return f"    {start}\n    for {{v}} in {{p}}:\n{inner}\n    return {end}"


def _make(names: str, doc: str, start: str, lines: str, end: str, text: bool = False) -> Archetype:
    return Archetype(tuple(names.split()), doc, _loop(start, lines, end), text)


ARCHETYPES: tuple[Archetype, ...] = (
    _make("filter_{p} keep_{p} select_{p}", "Keep the {p} that are {cmp} {k}.",
          "result = []", "if {v} {op} {k}:\n    result.append({v})", "result"),
    _make("count_{p} how_many_{p} tally_{p}", "Count the {p} that are {cmp} {k}.",
          "count = 0", "if {v} {op} {k}:\n    count += 1", "count"),
    _make("sum_{p} add_{p} total_{p}", "Add up the {p} that are {cmp} {k}.",
          "total = 0", "if {v} {op} {k}:\n    total += {v}", "total"),
    _make("running_{p} running_sum_{p} prefix_{p}", "Return the running sums of {p}, starting at {k}.",
          "total = {k}\n    sums_so_far = []", "total += {v}\nsums_so_far.append(total)", "sums_so_far"),
    _make("scale_{p} multiply_{p} times_{p}", "Multiply each of the {p} by {k}.",
          "result = []", "scaled = {v} * {k}\nresult.append(scaled)", "result"),
    _make("shift_{p} raise_{p} move_{p}", "Add {k} to each of the {p}.",
          "shifted = []", "new_item = {v} + {k}\nshifted.append(new_item)", "shifted"),
    _make("clip_{p} cap_{p} limit_{p}", "Replace the {p} above {k} by {k}.",
          "clipped = []", "if {v} > {k}:\n    clipped.append({k})\nelse:\n    clipped.append({v})",
          "clipped"),
    _make("divisible_{p} multiples_in_{p}", "Return the {p} that can be divided by {k}.",
          "found = []", "if {v} % {k} == 0:\n    found.append({v})", "found"),
    _make("remainder_{p} mod_{p}", "Return each of the {p} modulo {k}.",
          "rests = []", "rest = {v} % {k}\nrests.append(rest)", "rests"),
    _make("largest_{p} max_{p} highest_{p}", "Return the largest of the {p}, but at least {k}.",
          "best = {k}", "if {v} > best:\n    best = {v}", "best"),
    _make("smallest_{p} min_{p} lowest_{p}", "Return the smallest of the {p}, but at most {k}.",
          "best = {k}", "if {v} < best:\n    best = {v}", "best"),
    _make("square_{p} squares_of_{p}", "Return the squares of the {p} that are {cmp} {k}.",
          "squares = []", "if {v} {op} {k}:\n    squares.append({v} * {v})", "squares"),
    _make("reverse_{p} backwards_{p}", "Return the {p} that are {cmp} {k} in reverse order.",
          "result = []", "if {v} {op} {k}:\n    result.insert(0, {v})", "result"),
    _make("histogram_{p} frequency_{p}", "Count how often each of the {p} {cmp} {k} occurs.",
          "counts_by = {{}}", "if {v} {op} {k}:\n    counts_by[{v}] = counts_by.get({v}, 0) + 1",
          "counts_by"),
    _make("split_{p} divide_{p} partition_{p}", "Split the {p} into those {cmp} {k} and the others.",
          "first = []\n    second = []",
          "if {v} {op} {k}:\n    first.append({v})\nelse:\n    second.append({v})", "first, second"),
    _make("any_{p} some_{p} exists_{p}", "Say whether any of the {p} is {cmp} {k}.",
          "found = False", "if {v} {op} {k}:\n    found = True\n    break", "found"),
    _make("all_{p} every_{p} check_all_{p}", "Say whether all of the {p} are {cmp} {k}.",
          "ok = True", "if not {v} {op} {k}:\n    ok = False\n    break", "ok"),
    _make("mean_{p} average_{p}", "Return the whole mean of the {p}, with {k} as first element.",
          "total = {k}\n    count = 1", "total += {v}\ncount += 1", "total // count"),
    _make("product_{p} multiply_all_{p}", "Multiply all {p} modulo {k}.",
          "product = 1", "product = product * {v}\nproduct = product % {k}", "product"),
    _make("differences_{p} deltas_{p}", "Return the differences of neighbours in {p}, starting from {k}.",
          "last = {k}\n    deltas = []", "deltas.append({v} - last)\nlast = {v}", "deltas"),
    _make("unique_{p} distinct_{p}", "Return the distinct {p} that are {cmp} {k}.",
          "seen = []", "if {v} {op} {k} and {v} not in seen:\n    seen.append({v})", "seen"),
    _make("replace_{p} mask_{p}", "Replace the {p} that are {cmp} {k} by zero.",
          "result = []", "if {v} {op} {k}:\n    result.append(0)\nelse:\n    result.append({v})",
          "result"),
    _make("long_{p} filter_{p} keep_{p}", "Keep the {p} whose length is {cmp} {k}.",
          "result = []", "if len({v}) {op} {k}:\n    result.append({v})", "result", True),
    _make("count_{p} how_many_{p}", "Count the {p} whose length is {cmp} {k}.",
          "count = 0", "if len({v}) {op} {k}:\n    count += 1", "count", True),
    _make("lengths_{p} length_map_{p}", "Map each of the {p} to its length plus {k}.",
          "mapping = {{}}", "mapping[{v}] = len({v}) + {k}", "mapping", True),
    _make("upper_{p} shout_{p}", "Write the {p} of length {cmp} {k} in capitals.",
          "result = []",
          "if len({v}) {op} {k}:\n    result.append({v}.upper())\nelse:\n    result.append({v})",
          "result", True),
    _make("join_{p} concat_{p} chain_{p}", "Join the first {k} letters of the {p} with dashes.",
          "text = ''", "if text:\n    text += '-'\ntext += {v}[:{k}]", "text", True),
    _make("initials_{p} letters_{p}", "Collect the first letters of the {p} with length {cmp} {k}.",
          "text = ''", "if len({v}) {op} {k}:\n    text += {v}[0]", "text", True),
    _make("group_{p} bucket_{p}", "Group the {p} by their length modulo {k}.",
          "groups = {{}}",
          "size = len({v}) % {k}\nif size not in groups:\n    groups[size] = []\n"
          "groups[size].append({v})", "groups", True),
    _make("repeat_{p} stretch_{p}", "Repeat the first letter of each of the {p} {k} times.",
          "result = []", "letter = {v}[0]\nresult.append(letter * {k})", "result", True),
)  # fmt: skip

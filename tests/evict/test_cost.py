"""A cost table survives a file, refuses numbers that are no times, and knows its machine."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from evict.cost import SCHEMA_VERSION, CostTable
from evict.errors import InputError

FINGERPRINT = {"device": "cpu", "model": "lab", "torch": "2.13.0"}


def values(**changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "step_ms": (1.0, 1.25, 1.1),
        "ar_ms": 0.9,
        "spread_ms": (0.0, 0.02, 0.03),
        "beta": 1.5,
        "fingerprint": dict(FINGERPRINT),
        "stage_ms": {"draft": (0.1, 0.1, 0.1), "verify": (0.9, 1.1, 1.0)},
        "expert_union": (8.0, 12.5, 17.0),
    }
    return whole | changes


def test_a_table_is_the_same_after_a_file(tmp_path: Path) -> None:
    table = CostTable(**values())
    path = tmp_path / "deeper" / "cost_table.json"
    table.save(path)
    assert CostTable.load(path) == table
    assert table.draft_tokens == 3
    assert json.loads(path.read_text())["schema_version"] == SCHEMA_VERSION
    assert [item.name for item in path.parent.iterdir()] == ["cost_table.json"]


def test_optional_parts_stay_absent(tmp_path: Path) -> None:
    table = CostTable(step_ms=(1.0,), ar_ms=1.0, spread_ms=(0.0,))
    table.save(tmp_path / "table.json")
    loaded = CostTable.load(str(tmp_path / "table.json"))
    assert loaded == table
    assert (loaded.beta, loaded.stage_ms, loaded.expert_union) == (1.0, None, None)


def test_a_failed_save_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.json"
    CostTable(**values()).save(path)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space"):
        CostTable(**values(ar_ms=5.0)).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_is_replaced_not_rewritten(tmp_path: Path) -> None:
    """Whoever is reading the old table goes on reading all of it."""
    path = tmp_path / "table.json"
    CostTable(**values()).save(path)
    before = path.read_text()
    with path.open() as reader:
        CostTable(**values(ar_ms=5.0)).save(path)
        assert reader.read() == before
    assert CostTable.load(path).ar_ms == 5.0


@pytest.mark.parametrize("bad", [math.nan, 0.0, -1.0, math.inf, "1.0", None, True])
def test_a_step_time_that_is_no_time_is_named(bad: object) -> None:
    with pytest.raises(InputError, match=r"step_ms at k=2; seen: .*finite number > 0"):
        CostTable(**values(step_ms=(1.0, bad, 1.0)))
    with pytest.raises(InputError, match="ar_ms; seen"):
        CostTable(**values(ar_ms=bad))


@pytest.mark.parametrize("bad", [math.nan, -0.1, math.inf])
@pytest.mark.parametrize(
    ("field", "wrap", "name"),
    [
        ("spread_ms", lambda series: series, "spread_ms"),
        ("expert_union", lambda series: series, "expert_union"),
        ("stage_ms", lambda series: {"verify": series}, r"stage_ms\.verify"),
    ],
)
def test_a_bad_value_of_a_series_is_named(bad: float, field: str, wrap: Any, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} at k=3"):
        CostTable(**values(**{field: wrap((1.0, 1.0, bad))}))
    for length in (2, 4):
        with pytest.raises(InputError, match=f"{name}: wrong length; seen: {length}; allowed: 3"):
            CostTable(**values(**{field: wrap((1.0,) * length)}))


def test_other_malformed_fields_are_named() -> None:
    for changes, name in (
        ({"step_ms": ()}, "step_ms"),
        ({"beta": 0.0}, "beta"),
        ({"fingerprint": {"device": 3}}, "fingerprint.device"),
        ({"fingerprint": None}, "fingerprint"),
        ({"stage_ms": {"decode": (1.0, 1.0, 1.0)}}, "decode"),
    ):
        with pytest.raises(InputError, match=name):
            CostTable(**values(**changes))


def test_a_table_from_elsewhere_is_refused_field_by_field() -> None:
    table = CostTable(**values())
    table.check(dict(FINGERPRINT))
    here = {"device": "cuda", "model": "lab", "threads": "2"}
    with pytest.raises(InputError) as caught:
        table.check(here)
    message = str(caught.value)
    assert "differing in device, threads, torch" in message
    assert "seen: device='cpu'; threads=(absent); torch='2.13.0'" in message
    assert "allowed: device='cuda'; threads='2'; torch=(absent)" in message
    assert "model" not in message.split("try:")[0]


def document(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "table.json"
    CostTable(**values()).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, None, "1"])
def test_an_unknown_schema_is_refused(tmp_path: Path, version: object) -> None:
    path = document(tmp_path, schema_version=version)
    with pytest.raises(InputError, match=f"unknown schema_version; seen: {version!r}; allowed: 1"):
        CostTable.load(path)


def test_a_file_is_validated_like_an_object(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="step_ms at k=1"):
        CostTable.load(document(tmp_path, step_ms=[math.nan, 1.0, 1.0]))
    with pytest.raises(InputError, match="spread_ms: wrong length"):
        CostTable.load(document(tmp_path, spread_ms=[0.1]))
    with pytest.raises(InputError, match="unknown or missing fields; seen: extra"):
        CostTable.load(document(tmp_path, extra=1))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"schema_version": 1}'])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"table\.json"):
        CostTable.load(path)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no cost table; seen: .*none\.json; try: profile"):
        CostTable.load(tmp_path / "none.json")

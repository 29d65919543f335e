"""Frames of a Collection as small parquet tables: whole microseconds, expert ids by layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

LEVEL = 19
TIME = "_ms"
EXPERTS = "experts"
LISTS = ("tokens", "parents", "depths")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """One zstd file; the bytes follow from the frame alone."""
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    words = [item.name for item in table.schema if pa.types.is_large_string(item.type)]
    singles = [item.name for item in table.schema if pa.types.is_float32(item.type)]
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=[*words, *_integers(table)] or False,
        use_byte_stream_split=singles or False,
        row_group_size=1 << 20,
        data_page_size=1 << 20,
    )


def _integers(table: pa.Table) -> list[str]:
    return [item.name for item in table.schema if pa.types.is_integer(item.type)]


def read_rows(path: Path) -> pd.DataFrame:
    """A table as the frame that its rows as plain Python values would give."""
    return pd.DataFrame(pq.read_table(path).to_pylist())


def small_steps(steps: pd.DataFrame) -> pd.DataFrame:
    """Times as whole microseconds, other numbers as float32 or the smallest whole type."""
    columns: dict[str, Any] = {}
    for name in map(str, steps.columns):
        if name.endswith(TIME):
            number = pd.to_numeric(steps[name]).astype("Float64") * 1e3
            columns[f"{name[: -len(TIME)]}_us"] = number.round().astype("Int32")
        else:
            columns[name] = _smaller(steps[name])
    return pd.DataFrame(columns)


def large_steps(path: Path) -> pd.DataFrame:
    """Inverse of `small_steps`, times rounded to 1 us, missing numbers NaN."""
    frame = pq.read_table(path).to_pandas()
    columns: dict[str, Any] = {}
    for name in map(str, frame.columns):
        values = frame[name]
        if name.endswith("_us"):
            columns[f"{name[:-3]}{TIME}"] = values.astype("float64") / 1e3
        elif pd.api.types.is_float_dtype(values):
            columns[name] = values.astype("float64")
        else:
            columns[name] = values.astype("int64") if _whole(values) else values
    return pd.DataFrame(columns)


def _smaller(values: pd.Series) -> pd.Series:
    if _whole(values):
        return pd.to_numeric(values, downcast="integer")
    if values.dtype == object and not values.map(lambda one: isinstance(one, str)).any():
        values = pd.to_numeric(values)
    return values.astype("float32") if pd.api.types.is_float_dtype(values) else values


def _whole(values: pd.Series) -> bool:
    return pd.api.types.is_integer_dtype(values.dtype)


def small_trees(trees: pd.DataFrame) -> pd.DataFrame:
    """Expert ids as one column of bytes per layer (ids of all nodes, choice by choice)."""
    rows = [_split(row) for row in trees.to_dict("records")]
    frame = pd.DataFrame(rows)
    for name in ("turn", "repeat", "step", "verified", "committed"):
        frame[name] = pd.to_numeric(frame[name], downcast="integer")
    return frame


def _split(row: dict[Any, Any]) -> dict[str, Any]:
    nodes, layers, top_k = (int(size) for size in row[f"{EXPERTS}_shape"])
    ids = np.frombuffer(row[EXPERTS], dtype="<i2").reshape(nodes, layers, top_k)
    small = ids.astype("u1") if ids.size and ids.min() >= 0 and ids.max() < 256 else ids
    kept = {str(name): value for name, value in row.items() if name != EXPERTS}
    kept |= {name: np.asarray(row[name], dtype=np.int32) for name in LISTS}
    kept |= {"path": np.asarray(row["path"], dtype=np.int32), "experts_bytes": small.itemsize}
    kept |= {"scores": np.asarray(row["scores"], dtype=np.float32)}
    shape = np.array([nodes, layers, top_k], dtype=np.int32)
    by_layer = {f"{EXPERTS}_{i:03d}": small[:, i].T.tobytes() for i in range(layers)}
    return kept | {f"{EXPERTS}_shape": shape} | by_layer


def large_trees(path: Path) -> pd.DataFrame:
    """Inverse of `small_trees`: rows as in trees.parquet."""
    return pd.DataFrame([_join(row) for row in pq.read_table(path).to_pylist()])


def _join(row: dict[str, Any]) -> dict[str, Any]:
    nodes, layers, top_k = row[f"{EXPERTS}_shape"]
    kind = "u1" if row.pop("experts_bytes") == 1 else "<i2"
    parts = [row.pop(f"{EXPERTS}_{i:03d}") for i in range(layers)]
    rest = {name: value for name, value in row.items() if not _is_layer(name)}
    ids = [np.frombuffer(part, dtype=kind).reshape(top_k, nodes).T for part in parts]
    return rest | {EXPERTS: np.stack(ids, axis=1).astype("<i2").tobytes()}


def _is_layer(name: str) -> bool:
    return name.startswith(f"{EXPERTS}_") and name != f"{EXPERTS}_shape"

"""What a table and a figure are: a function from collected runs to numbers, with its words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from harness.collection import Collection

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Missing(Exception):
    """The data of a table or figure are not there; the text says why and what to type."""


@dataclass(frozen=True)
class TableSpec:
    """`build` gets the runs of one model and returns numbers, or raises Missing."""

    name: str
    title: str
    caption: str
    build: Callable[[Collection], pd.DataFrame]


@dataclass(frozen=True)
class FigureSpec:
    """`frame` gets the runs of one model; `draw` sees nothing but that frame, the CSV beside it."""

    name: str
    title: str
    caption: str
    frame: Callable[[Collection], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Figure]

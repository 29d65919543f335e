"""The interpolation modes; values as Pillow names them."""

from __future__ import annotations

from enum import Enum


class InterpolationMode(Enum):
    """How an image would be resampled."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"

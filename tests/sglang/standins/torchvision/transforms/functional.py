"""Names only."""

from ..names import empty_classes
from .interpolation import InterpolationMode

__all__ = ["InterpolationMode"]
__getattr__ = empty_classes(__name__)

"""Names only, but for the interpolation modes, whose values are read at import."""

from ..names import empty_classes
from . import functional, v2
from .interpolation import InterpolationMode

__all__ = ["InterpolationMode", "functional", "v2"]
__getattr__ = empty_classes(__name__)

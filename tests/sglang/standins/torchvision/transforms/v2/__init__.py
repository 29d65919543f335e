"""Names only."""

from ...names import empty_classes
from . import functional

__all__ = ["functional"]
__getattr__ = empty_classes(__name__)

"""Names only."""

from ..names import empty_classes

__getattr__ = empty_classes(__name__)

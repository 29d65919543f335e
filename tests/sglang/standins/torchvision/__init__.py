"""Import-only stand-in for torchvision, tests only: SGLang and transformers read its names.

The published wheel does not load beside a CPU build of torch. No operator works here.
"""

from . import io, transforms
from .names import empty_classes

__version__ = "0.28.0"
__all__ = ["io", "transforms"]
__getattr__ = empty_classes(__name__)

"""Locant: position-aware attention for CPUs.

`attention` runs any position scheme of `locant.position` in one fused kernel, forward and backward,
in memory that grows with the length and not with its square.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from . import (
    _fork,  # noqa: F401 - it prepares for children
    _library,  # noqa: F401 - first: it says what is missing
    nn,
    position,
)
from ._attention import attention, composed_attention
from ._cache import KVCache
from ._decode import decode
from .hf import accelerate, restore
from .position import Scheme, Terms

try:
    __version__ = version("locant")
except PackageNotFoundError:  # pragma: no cover - run from the source tree
    __version__ = "0"


def instruction_set() -> str:
    """The instruction set in use: "avx512bf16", "avx2", ... (LOCANT_ISA forces one)."""
    import torch

    return torch.ops.locant.instruction_set()


__all__ = [
    "KVCache",
    "Scheme",
    "Terms",
    "__version__",
    "accelerate",
    "attention",
    "composed_attention",
    "decode",
    "instruction_set",
    "nn",
    "position",
    "restore",
]

"""Modules shaped like torch.nn's, with a `position=`: same parameters, same names, same calls."""

from __future__ import annotations

from .multihead import MultiheadAttention
from .transformer import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = ["MultiheadAttention", "TransformerDecoderLayer", "TransformerEncoderLayer"]

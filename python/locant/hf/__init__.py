"""Hugging Face models on Locant's kernel: `accelerate(model)` and `restore(model)`.

transformers is imported by the model, never by this package: without it there is nothing to do.
"""

from __future__ import annotations

from ._accelerate import accelerate, restore
from ._report import Report

__all__ = ["Report", "accelerate", "restore"]

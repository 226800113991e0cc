"""What is added to embeddings: attention has nothing to do, and says so where nobody added it."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from .built_in import BuiltIn
from .scheme import Call
from .terms import Terms


class _Asked:
    """Whether somebody has asked for a scheme's rows, or was told; one for all of its copies."""

    def __init__(self) -> None:
        self.yes = False

    def __deepcopy__(self, memo: Any) -> _Asked:
        return self


class Embedded(BuiltIn):
    """A scheme that adds a row to every embedding: x + scheme.embed(positions)."""

    def __init__(self, specification: str, **sizes: Any) -> None:
        super().__init__(specification, **sizes)
        self._asked = _Asked()

    def terms(self, call: Call) -> Terms:
        """No terms: attention itself sees nothing."""
        del call
        return Terms()

    def embed(self, positions: Tensor) -> Tensor:
        """Rows [..., width] at int64 positions [...]."""
        rows = self._rows(positions)
        self._asked.yes = True
        return rows

    def _rows(self, positions: Tensor) -> Tensor:
        raise NotImplementedError

    def warn_unless_asked(self, stacklevel: int) -> None:
        """A UserWarning, once, where attention gets a scheme whose rows nobody has asked for."""
        if self._asked.yes or torch.compiler.is_compiling():
            return
        self._asked.yes = True
        warnings.warn(
            f"locant: {type(self).__name__} is added to embeddings, x + scheme.embed(positions), "
            "not in attention. Nobody has asked this one for its rows: without them tokens have no "
            "order",
            stacklevel=stacklevel + 1,
        )

"""What is added to embeddings: attention has nothing to do, and says so where nobody added it."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from .built_in import BuiltIn
from .scheme import Call
from .terms import Terms


class Embedded(BuiltIn):
    """A scheme that adds a row to every embedding: x + scheme.embed(positions)."""

    _asked = False

    def terms(self, call: Call) -> Terms:
        """No terms; a UserWarning, once, when nobody has asked for the rows."""
        del call
        if not self._asked and not torch.compiler.is_compiling():
            self._asked = True
            warnings.warn(
                f"locant: {type(self).__name__} is added to embeddings, x + scheme.embed(positions)"
                ", not in attention. Nobody has asked this one for its rows: without them tokens "
                "have no order",
                stacklevel=7,
            )
        return Terms()

    def embed(self, positions: Tensor) -> Tensor:
        """Rows [..., width] at int64 positions [...]."""
        if not torch.compiler.is_compiling():
            self._asked = True
        return self._rows(positions)

    def _rows(self, positions: Tensor) -> Tensor:
        raise NotImplementedError

"""NoPE: no positions at all (Kazemnejad et al. 2023, arXiv 2305.19466)."""

from __future__ import annotations

from .built_in import BuiltIn
from .scheme import Call
from .terms import Terms


class Nope(BuiltIn):
    """Nothing is added; only a causal mask tells order."""

    def __init__(self) -> None:
        super().__init__("nope")

    def terms(self, call: Call) -> Terms:
        """No terms."""
        del call
        return Terms()

"""A learned number for each clipped distance: the plainest learned bias."""

from __future__ import annotations

import torch

from .built_in import BuiltIn, specification_of
from .scheme import Call
from .terms import NumberPerDistance, Terms


class ScalarTable(BuiltIn):
    """score_ij += table[clip(j - i, -clip, clip) + clip][head] outside the scale.

    clip: distances on each side with a number of their own. order: "j-i" (row 0 is the farthest key
    to the left) or "i-j". heads: "each" or "shared".
    Parameter: relative_position_bias_table [2 clip + 1, num_heads], zeros at first.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        clip: int = 128,
        order: str = "j-i",
        heads: str = "each",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"clip": clip, "order": order, "heads": heads}
        super().__init__(
            specification_of("scalar_table", options),
            num_heads=num_heads,
            device=device,
            dtype=dtype,
        )
        self._map = self.structure()[3]

    def terms(self, call: Call) -> Terms:
        """One number for each clipped distance and head."""
        table = self.array("relative_position_bias_table").t()
        if table.shape[0] != 1:
            self.check_heads(call)
        return Terms(number=NumberPerDistance(table, self._map))

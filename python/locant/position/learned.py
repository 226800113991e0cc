"""Learned absolute positions (BERT, arXiv 1810.04805; GPT-2, RoBERTa, OPT)."""

from __future__ import annotations

import torch
from torch import Tensor

from .built_in import InvalidScheme, specification_of
from .embedded import Embedded
from .scheme import check_whole


class Learned(Embedded):
    """A learned row for each position, added to the embeddings by `embed`.

    width: of the embeddings; rows: of the table. first_row: row of position 0 (2 in RoBERTa and
    OPT). beyond: "error" past the table, or "repeat" its last row. deviation: of the initial rows.
    Parameter: position_embeddings.weight [rows, width].
    """

    def __init__(
        self,
        width: int,
        *,
        rows: int = 512,
        first_row: int = 0,
        beyond: str = "error",
        deviation: float = 0.02,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"rows": rows, "first_row": first_row, "beyond": beyond, "deviation": deviation}
        super().__init__(
            specification_of("learned", options), width=width, device=device, dtype=dtype
        )
        self.rows, self.first_row, self.beyond = rows, first_row, beyond

    def embed(self, positions: Tensor) -> Tensor:
        """Rows [..., width] at int64 positions [...].

        A position past the table is a ValueError naming both lengths (beyond="error"), a negative
        one a ValueError always.
        """
        return super().embed(positions)

    def _rows(self, positions: Tensor) -> Tensor:
        check_whole("Learned.embed", "positions", positions)
        end = self.rows - self.first_row
        if not torch.compiler.is_compiling() and positions.numel():
            low, high = (int(x) for x in torch.aminmax(positions))
            if low < 0:
                raise InvalidScheme(f"[learned] positions must be 0 or more, got {low}")
            if high >= end and self.beyond != "repeat":
                raise InvalidScheme(
                    f"[learned] position {high} needs length {high + 1}, the table has rows for "
                    f"{end}; longer texts need another scheme, or beyond='repeat'"
                )
        if self.beyond == "repeat":
            positions = positions.clamp(max=end - 1)
        weight = self.array("position_embeddings.weight")
        return torch.nn.functional.embedding(positions + self.first_row, weight)

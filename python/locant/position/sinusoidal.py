"""Sinusoidal positions (Vaswani et al. 2017, arXiv 1706.03762), added to embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from .built_in import embed, specification_of
from .embedded import Embedded


class Sinusoidal(Embedded):
    """Rows of sines and cosines of p / base^(2t/width), added to the embeddings by `embed`.

    width: of the embeddings. layout: "interleaved" (the paper), "concatenated" (Transformer-XL,
    XLNet, RoFormer) or "tensor2tensor" (also fairseq; its frequencies differ). amplitude multiplies
    the rows. The terms are empty: attention itself sees nothing.
    """

    def __init__(
        self,
        width: int,
        *,
        layout: str = "interleaved",
        base: float = 10000.0,
        amplitude: float = 1.0,
    ) -> None:
        options = {"layout": layout, "base": base, "amplitude": amplitude}
        super().__init__(specification_of("sinusoidal", options), width=width)

    def embed(self, positions: Tensor) -> Tensor:
        """Rows [..., width] in the default dtype at int64 positions [...]; negative: ValueError."""
        return super().embed(positions)

    def _rows(self, positions: Tensor) -> Tensor:
        return embed(self, positions).to(torch.get_default_dtype())

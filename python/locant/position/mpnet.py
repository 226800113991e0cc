"""MPNet's biases (Song et al. 2020, arXiv 2004.09297)."""

from __future__ import annotations

import torch

from .t5 import T5


class Mpnet(T5):
    """T5's biases in an encoder: always on both sides, after the usual 1/sqrt(D).

    Arguments and parameter as in `T5`. The model has learned absolute positions too (`Learned`).
    """

    _name = "mpnet"

    def __init__(
        self,
        num_heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: str = "yes",
        rounding: str = "exact",
        heads: str = "each",
        width: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            num_heads,
            buckets=buckets,
            max_distance=max_distance,
            bidirectional=bidirectional,
            rounding=rounding,
            heads=heads,
            width=width,
            device=device,
            dtype=dtype,
        )

"""T5's bucketed biases (Raffel et al. 2019, arXiv 1910.10683)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .built_in import BuiltIn, InvalidScheme, check_size, specification_of
from .scheme import Call
from .terms import NumberPerDistance, Terms


class T5(BuiltIn):
    """score_ij += table[bucket(j - i)][head] outside the scale.

    T5 itself runs with scale=1, which is the call's business. buckets: rows of the table;
    max_distance: the logarithmic buckets reach to here. bidirectional: "yes" (half of the buckets
    for keys to the right), "no", or "auto": unless the call is causal. rounding: "exact", or
    "float32" as PyTorch finds the boundaries. heads: "each" or "shared". width: of the model, for
    the initial numbers alone (deviation width^-0.5; default 64 a head).
    Parameter: relative_attention_bias.weight [buckets, num_heads].
    """

    _name = "t5"

    def __init__(
        self,
        num_heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: str = "auto",
        rounding: str = "exact",
        heads: str = "each",
        width: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_size(type(self).__name__, "num_heads", num_heads)
        options = {
            "buckets": buckets,
            "max_distance": max_distance,
            "bidirectional": bidirectional,
            "rounding": rounding,
            "heads": heads,
        }
        super().__init__(
            specification_of(self._name, options),
            num_heads=num_heads,
            width=64 * num_heads if width is None else width,
            device=device,
            dtype=dtype,
        )
        self._maps: list[Tensor | str] = []
        for causal in (False, True):
            try:
                self._maps.append(self.structure(causal)[3])
            except InvalidScheme as error:  # one of the two may be impossible
                self._maps.append(str(error))

    def bucket_map(self, causal: bool = False) -> Tensor:
        """The bucket of a distance, an index map."""
        index = self._maps[int(causal)]
        if isinstance(index, str):
            raise InvalidScheme(index)
        return index

    def terms(self, call: Call) -> Terms:
        """One number for each bucket and head."""
        module: Any = self.relative_attention_bias
        table = module.weight.t()
        if table.shape[0] != 1:
            self.check_heads(call)
        return Terms(number=NumberPerDistance(table, self.bucket_map(call.causal)))

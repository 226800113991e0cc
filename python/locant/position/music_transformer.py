"""Music Transformer's relative rows (Huang et al. 2018, arXiv 1809.04281)."""

from __future__ import annotations

import torch
from torch import Tensor

from .built_in import BuiltIn, InvalidScheme, specification_of
from .scheme import Call
from .terms import RowPerDistance, Terms, ValuePerDistance


class MusicTransformer(BuiltIn):
    """score_ij = q_i . (k_j + E[rows - 1 - (i - j)]) / sqrt(D) for j <= i; causal calls only.

    rows: distances with a row; beyond them nothing is added. values: rows on values too. heads:
    "shared" or "each".
    Parameters: relative_embeddings_keys (and _values), [rows, head_size] or
    [num_heads, rows, head_size].
    """

    def __init__(
        self,
        head_size: int,
        num_heads: int = 1,
        *,
        rows: int = 1024,
        values: bool = False,
        heads: str = "shared",
        value_size: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"rows": rows, "values": values, "heads": heads}
        super().__init__(
            specification_of("music_transformer", options),
            num_heads=num_heads,
            head_size=head_size,
            value_size=value_size,
            device=device,
            dtype=dtype,
        )
        self.values = values
        self._map = self.structure(causal=True)[5]

    def _rows(self, name: str) -> Tensor:
        rows = self.array(name)
        return rows if rows.dim() == 3 else rows[None]

    def terms(self, call: Call) -> Terms:
        """Rows on keys; a call without a causal mask is a ValueError."""
        if not call.causal:
            raise InvalidScheme(
                "[music_transformer] needs a causal mask: the skewed product has left-overs and no "
                "rows for keys to the right of the query, got a call without one"
            )
        values = None
        if self.values:
            values = ValuePerDistance(self._rows("relative_embeddings_values"), self._map)
        return Terms(
            query_rows=RowPerDistance(self._rows("relative_embeddings_keys"), self._map),
            value_rows=values,
        )

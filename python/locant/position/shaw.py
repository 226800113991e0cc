"""Shaw's relative representations (Shaw et al. 2018, arXiv 1803.02155) and their relatives."""

from __future__ import annotations

import torch
from torch import Tensor

from .built_in import BuiltIn, InvalidScheme, specification_of
from .scheme import Call
from .terms import RowPerDistance, Terms, ValuePerDistance


class Shaw(BuiltIn):
    """score_ij = q_i . (k_j + aK[r]) / sqrt(D), out_i = sum_j p_ij (v_j + aV[r]).

    r = clip(j - i, -k, k) + k. on: "keys", "values" or "both". times_key: the rows of the keys also
    multiply k_j (BERT's relative_key_query). left, right: other limits than k on one side.
    outside: "clip", "zero" (VITS) or "refuse" (BERT). order: "j-i", or "i-j" (SpeechT5, BERT).
    heads: "shared" rows, or "each" head its own.
    Parameters: relative_positions_keys and relative_positions_values, [rows, head_size] or
    [num_heads, rows, head_size].
    """

    def __init__(
        self,
        head_size: int,
        num_heads: int = 1,
        *,
        on: str = "both",
        times_key: bool = False,
        k: int = 16,
        left: int = -1,
        right: int = -1,
        outside: str = "clip",
        order: str = "j-i",
        heads: str = "shared",
        value_size: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {
            "on": on,
            "times_key": times_key,
            "k": k,
            "left": left,
            "right": right,
            "outside": outside,
            "order": order,
            "heads": heads,
        }
        super().__init__(
            specification_of("shaw", options),
            num_heads=num_heads,
            head_size=head_size,
            value_size=value_size,
            device=device,
            dtype=dtype,
        )
        self.on, self.times_key, self.outside = on, times_key, outside
        self.window = (k if left < 0 else left, k if right < 0 else right)
        lowered = self.structure(length=1)
        self._map = lowered[9 if on == "values" else 5]

    def _rows(self, name: str) -> Tensor:
        rows = self.array(name)
        return rows if rows.dim() == 3 else rows[None]

    def terms(self, call: Call) -> Terms:
        """Rows on keys and on values."""
        left, right = self.window
        if self.outside == "refuse":
            if call.is_unread():
                return self.by_registry()
            first, last, _ = call.span()
            if first < -left or last > right:
                raise InvalidScheme(
                    f"[shaw] the table has rows for the distances {-left} to {right}, got "
                    f"distances {first} to {last} (outside=refuse)"
                )
        rows = None
        if self.on != "values":
            rows = RowPerDistance(self._rows("relative_positions_keys"), self._map)
        values = None
        if self.on != "keys":
            values = ValuePerDistance(self._rows("relative_positions_values"), self._map)
        return Terms(query_rows=rows, key_rows=rows if self.times_key else None, value_rows=values)

"""DeBERTa's disentangled attention (He et al. 2020, arXiv 2006.03654; v3: 2111.09543)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._lasting import lasting
from .built_in import BuiltIn, scheme_info, specification_of
from .scheme import Call
from .terms import RowPerDistance, Terms, index_map

_MAP_OPTIONS = ("version", "buckets", "max_positions", "rounding", "edge")


@lasting()
def distance_map(options: dict[str, Any], reach: int) -> Tensor:
    """Rows of the whole table by distance, as an index map; options as of `Deberta`.

    The registry's scheme keeps only the rows that a call reaches and renumbers them. A table that
    holds its own row numbers tells which they were.
    """
    specification = specification_of("deberta", {**options, "pos_att_type": "c2p"})
    parameters = []
    for spec in scheme_info(specification, [1, 1, 1, 1])["parameters"]:
        if spec["name"] == "rel_embeddings.weight":
            parameters.append(torch.arange(spec["shape"][0], dtype=torch.float64)[:, None])
        elif spec["name"].endswith("weight"):
            parameters.append(torch.ones(spec["shape"], dtype=torch.float64))
        else:
            parameters.append(torch.zeros(spec["shape"], dtype=torch.float64))
    call = [1, 1, 1, 1, 0, 0, -reach, reach, reach + 1]
    lowered = torch.ops.locant.scheme_lower(specification, call, parameters)
    table, index = lowered[4][0, :, 0].round().to(torch.int32), lowered[5]
    rows = table[index[3:]]
    return index_map(int(index[0]), rows, int(rows[0]), int(rows[-1]))


class Deberta(BuiltIn):
    """score_ij = [q_i . k_j + q_i . Kr[r] + k_j . Qr[r]] / sqrt(D (1 + number of position terms)).

    r counts i - j in log buckets (version "v2", also v3) or as it is ("v1"); Kr and Qr are
    projections of one table. pos_att_type: "c2p", "p2c" or "both". buckets: v2's position_buckets.
    max_positions: v1's rows on each side; v2's max_relative_positions. rounding: "exact", "hf" or
    "microsoft". edge: "hf" or "microsoft". share_att_key: the rows go through the layer's own
    projections: give them as key_proj and query_proj (linear layers). norm_rel_ebd: "none" or
    "layer_norm".
    Parameters: rel_embeddings.weight [2S, width], LayerNorm.{weight, bias}, and pos_key_proj,
    pos_query_proj (v2) or pos_proj, pos_q_proj (v1).
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        width: int | None = None,
        *,
        version: str = "v2",
        pos_att_type: str = "both",
        buckets: int = 256,
        max_positions: int = 512,
        rounding: str = "exact",
        edge: str = "hf",
        share_att_key: bool = False,
        norm_rel_ebd: str = "none",
        key_proj: nn.Linear | None = None,
        query_proj: nn.Linear | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {
            "version": version,
            "pos_att_type": pos_att_type,
            "buckets": buckets,
            "max_positions": max_positions,
            "rounding": rounding,
            "edge": edge,
            "share_att_key": share_att_key,
            "norm_rel_ebd": norm_rel_ebd,
        }
        super().__init__(
            specification_of("deberta", options),
            num_heads=num_heads,
            head_size=head_size,
            width=width or num_heads * head_size,
            device=device,
            dtype=dtype,
        )
        if share_att_key:
            for name, given in (("key_proj", key_proj), ("query_proj", query_proj)):
                if given is not None and name in self._modules:
                    self._modules[name] = given
        self.norm = norm_rel_ebd == "layer_norm"
        self.c2p, self.p2c = pos_att_type != "p2c", pos_att_type != "c2p"
        prefix = "" if share_att_key else "pos_"
        self._key, self._query = (
            ("pos_proj", "pos_q_proj")
            if version == "v1"
            else (prefix + "key_proj", prefix + "query_proj")
        )
        self._map = distance_map({name: options[name] for name in _MAP_OPTIONS}, max_positions + 2)

    def _rows(self, table: Tensor, name: str) -> Tensor:
        bias = self.array(name + ".bias") if name != "pos_proj" else None
        rows = nn.functional.linear(table, self.array(name + ".weight"), bias)
        return rows.unflatten(1, (self.num_heads, self.head_size)).transpose(0, 1)

    def terms(self, call: Call) -> Terms:
        """Query rows (c2p) and key rows (p2c), inside the scale."""
        self.check_heads(call)
        table = self.array("rel_embeddings.weight")
        if self.norm:
            weight, bias = self.array("LayerNorm.weight"), self.array("LayerNorm.bias")
            table = nn.functional.layer_norm(table, (self.width,), weight, bias, eps=1e-7)
        query = RowPerDistance(self._rows(table, self._key), self._map) if self.c2p else None
        key = RowPerDistance(self._rows(table, self._query), self._map) if self.p2c else None
        return Terms(query_rows=query, key_rows=key, scale_factor=(1 + self.c2p + self.p2c) ** -0.5)

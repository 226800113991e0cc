"""Transformer-XL's relative attention (Dai et al. 2019, arXiv 1901.02860), XLNet's, conformers'."""

from __future__ import annotations

import torch
from torch import Tensor

from .built_in import BuiltIn, InvalidScheme, specification_of
from .scheme import Call, check_span
from .terms import NumberPerDistance, RowPerDistance, Terms, index_map


class TransformerXl(BuiltIn):
    """score_ij = [(q_i + u) . k_j + (q_i + v) . (W_R R_{i-j})] / sqrt(D), R sinusoids of i - j.

    style: "xl" (causal only), "xlnet" or "conformer" (wav2vec2-conformer): sinusoids, sides and
    names. clamp_len: farther distances count as this one, 0: none. base: of the sinusoids.
    Parameters: xl: r_w_bias (u), r_r_bias (v) [num_heads, head_size], r_net.weight
    [num_heads * head_size, width]; xlnet: r [width, num_heads, head_size] instead of r_net;
    conformer: pos_bias_u, pos_bias_v, linear_pos.weight.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        width: int | None = None,
        *,
        style: str = "xl",
        clamp_len: int = 0,
        base: float = 10000.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"style": style, "clamp_len": clamp_len, "base": base}
        super().__init__(
            specification_of("transformer_xl", options),
            num_heads=num_heads,
            head_size=head_size,
            width=width or num_heads * head_size,
            device=device,
            dtype=dtype,
        )
        self.style, self.clamp_len, self.base = style, clamp_len, base
        names = {
            "xl": ("r_w_bias", "r_r_bias", "r_net.weight"),
            "xlnet": ("r_w_bias", "r_r_bias", "r"),
            "conformer": ("pos_bias_u", "pos_bias_v", "linear_pos.weight"),
        }
        self._names = names[style]

    def sinusoids(self, low: int, high: int) -> Tensor:
        """R for the distances j - i = low ... high: float64 [high - low + 1, width]."""
        width = self.width
        pairs = (width + 1) // 2
        t = torch.arange(pairs, dtype=torch.float64)
        frequency = self.base ** (-2 * t / width)
        distance = -torch.arange(low, high + 1, dtype=torch.float64)  # i - j
        angle = distance[:, None] * frequency
        if self.style == "conformer":
            both = torch.stack([angle.sin(), angle.cos()], 2).flatten(1)
            return both[:, :width]
        return torch.cat([angle.sin(), angle.cos()[:, : width - pairs]], 1)

    def terms(self, call: Call) -> Terms:
        """Query rows, a number for each distance and a content bias, all inside the scale."""
        self.check_heads(call)
        if self.style == "xl" and not call.causal:
            raise InvalidScheme(
                "[transformer_xl] style=xl needs a causal mask: its shifted product has left-overs "
                "for keys to the right of the query; styles xlnet and conformer are defined on "
                "both sides"
            )
        if call.is_unread():
            return self.by_registry()
        low, high, _ = call.span()
        high = max(low, high)
        if self.style == "xl":
            high = min(high, 0)
            low = min(low, high)
        before = after = -1
        if (limit := self.clamp_len) > 0:
            low, high = max(-limit, min(low, limit)), max(-limit, min(high, limit))
            before = 0 if low == -limit else -1
            after = high - low if high == limit else -1
        check_span("transformer_xl", low, high)
        u, v, projection = (self.array(name) for name in self._names)
        sinusoids = self.sinusoids(low, high).to(projection)
        if self.style == "xlnet":
            rows = torch.einsum("nw,whd->hnd", sinusoids, projection)
        else:
            rows = torch.nn.functional.linear(sinusoids, projection)
            rows = rows.unflatten(1, (self.num_heads, self.head_size)).transpose(0, 1)
        number = (rows @ v[:, :, None]).squeeze(2)
        index = index_map(low, torch.arange(high - low + 1), before, after)
        return Terms(
            number=NumberPerDistance(number, index, scaled=True),
            query_rows=RowPerDistance(rows, index),
            content_bias=u,
        )

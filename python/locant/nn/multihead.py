"""Multi-head attention with positions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._attention import Positions, Window, attention
from ..position.scheme import Scheme, check_position


class MultiheadAttention(nn.Module):
    """torch.nn.MultiheadAttention with a `position=`; its state_dict loads here and the other way.

    embed_dim: width of the inputs and outputs. num_heads divides it. dropout: on the probabilities,
    in training. kdim, vdim: widths of keys and
    values, default embed_dim. batch_first: [B, L, E] and not [L, B, E]. position: a module of
    `locant.position`; give several layers one instance and they share it. In cross attention
    (`key` is not `query`) no distance exists unless `positions` says so: the position stays out.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        position: Scheme | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: num_heads must divide embed_dim, got {num_heads} and "
                f"{embed_dim}"
            )
        check_position(type(self).__name__, position, num_heads)
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.batch_first = batch_first
        self.dropout = dropout

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.packed = self.kdim == embed_dim and self.vdim == embed_dim
        if self.packed:
            self.in_proj_weight = weight(3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight = weight(embed_dim, embed_dim)
            self.k_proj_weight = weight(embed_dim, self.kdim)
            self.v_proj_weight = weight(embed_dim, self.vdim)
        self.in_proj_bias = weight(3 * embed_dim) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.position = position
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights as torch.nn.MultiheadAttention does."""
        if self.packed:
            nn.init.xavier_uniform_(self.in_proj_weight)
        else:
            for matrix in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                nn.init.xavier_uniform_(matrix)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
            nn.init.zeros_(self.out_proj.bias)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q, k, v as [B, L, E]."""
        linear = nn.functional.linear
        bias = self.in_proj_bias
        if self.packed and key is query and value is query:
            return list(linear(query, self.in_proj_weight, bias).chunk(3, -1))
        if self.packed:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        sides = (query, key, value)
        return [linear(x, w, b) for x, w, b in zip(sides, weights, biases, strict=True)]

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        window: Window | None = None,
        positions: Positions | None = None,
    ) -> tuple[Tensor, None]:
        """(output, None): the weights are never made.

        query: [L, B, E], [B, L, E] with batch_first, or [L, E]. key and value default to it.
        key_padding_mask: [B, K] ([K] without a batch), bool (True: ignored) or floating (added).
        window, positions: as in `locant.attention`; positions are [L] or [B, L].
        need_weights or a dense attn_mask is a ValueError.
        """
        if need_weights:
            raise ValueError(
                "MultiheadAttention: need_weights=True asks for the Q x K weights, which are never "
                "made; locant.composed_attention shows how to get them"
            )
        if attn_mask is not None:
            raise ValueError(
                "MultiheadAttention: a dense attn_mask is not taken; use is_causal, window, "
                "key_padding_mask and positions"
            )
        cross = key is not None and key is not query
        key = query if key is None else key
        value = key if value is None else value
        batched = query.dim() == 3
        if query.dim() not in (2, 3):
            raise ValueError(
                f"MultiheadAttention: query must have 2 or 3 dimensions, got {query.dim()}"
            )
        same_key, same_value = key is query, value is query
        if not batched:
            query, key, value = query[None], key[None], value[None]
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        if same_key:
            key = query
        if same_value:
            value = query
        q, k, v = (
            x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for x in self._project(query, key, value)
        )
        position = None if cross and positions is None else self.position
        out = attention(
            q,
            k,
            v,
            position,
            causal=is_causal,
            window=window,
            dropout=self.dropout if self.training else 0.0,
            key_padding_mask=key_padding_mask,
            positions=positions,
        )
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if not batched:
            out = out[0]
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return out, None

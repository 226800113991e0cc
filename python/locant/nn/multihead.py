"""Multi-head attention with positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .._attention import attention
from .._check import Positions, Window
from ..position.scheme import Scheme, check_position

FAILURES = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
"""What wrong inputs raise somewhere inside; what is wrong is looked for afterwards."""


def check_tokens(operation: str, name: str, tokens: Any, width: int, weight: Tensor) -> None:
    """Raises unless `tokens` is [.., .., width] or [.., width], as `weight` can multiply it."""
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{operation}: {name} must be a tensor, got {type(tokens).__name__}")
    if tokens.dim() not in (2, 3):
        raise ValueError(f"{operation}: {name} must have 2 or 3 dimensions, got {tokens.dim()}")
    if tokens.shape[-1] != width:
        raise ValueError(
            f"{operation}: {name} must have {width} channels, its last dimension, got "
            f"{list(tokens.shape)}"
        )
    device = weight.device
    if tokens.device != device:
        raise ValueError(
            f"{operation}: {name} must be on the device of the weights, {device}, got "
            f"{tokens.device}"
        )
    casts = torch.is_autocast_enabled(device.type) and tokens.is_floating_point()
    if tokens.dtype != weight.dtype and not casts:
        raise TypeError(
            f"{operation}: {name} must have the dtype of the weights, {weight.dtype}, got "
            f"{tokens.dtype}"
        )


def check_alike(
    operation: str, name: str, tokens: Tensor, like: str, other: Tensor, batch_first: bool
) -> None:
    """ValueError unless both are tokens of the same number of sequences."""
    if tokens.dim() != other.dim():
        raise ValueError(
            f"{operation}: {name} must have the {other.dim()} dimensions of {like}, got "
            f"{tokens.dim()}"
        )
    at = 0 if batch_first else 1
    if tokens.dim() == 3 and tokens.shape[at] != other.shape[at]:
        raise ValueError(
            f"{operation}: {name} must have the batch of {like}, {other.shape[at]}, got "
            f"{tokens.shape[at]}"
        )


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
        given = query, key, value
        try:
            cross = key is not None and key is not query
            key = query if key is None else key
            value = key if value is None else value
            batched = query.dim() == 3
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
        except FAILURES:
            if not torch.compiler.is_compiling():
                self._explain(*given)
            raise

    def _explain(self, query: Any, key: Any, value: Any) -> None:
        """Raises what is wrong with the inputs of a call that failed."""
        operation, weight = "MultiheadAttention", self.out_proj.weight
        key = query if key is None else key
        value = key if value is None else value
        check_tokens(operation, "query", query, self.embed_dim, weight)
        check_tokens(operation, "key", key, self.kdim, weight)
        check_tokens(operation, "value", value, self.vdim, weight)
        check_alike(operation, "key", key, "query", query, self.batch_first)
        if value.shape[:-1] != key.shape[:-1]:
            raise ValueError(
                f"{operation}: value must have the batch and length of key, got "
                f"{list(value.shape)} and {list(key.shape)}"
            )

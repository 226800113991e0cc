"""Transformer layers with positions, shaped like torch.nn's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._check import Positions
from ..position.scheme import Scheme
from .multihead import FAILURES, MultiheadAttention, check_alike, check_tokens

Activation = str | Callable[[Tensor], Tensor]


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if callable(activation):
        return activation
    known: dict[str, Callable[[Tensor], Tensor]] = {
        "relu": nn.functional.relu,
        "gelu": nn.functional.gelu,
    }
    if activation not in known:
        raise ValueError(f"activation must be 'relu', 'gelu' or a callable, got {activation!r}")
    return known[activation]


class _Layer(nn.Module):
    """What both layers have: self-attention, a feed-forward part, dropout."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        position: Scheme | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        kwargs: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, position=position, **kwargs
        )
        self.linear1 = nn.Linear(d_model, dim_feedforward, bias=bias, **kwargs)
        self.dropout = nn.Dropout(dropout)
        self.linear2 = nn.Linear(dim_feedforward, d_model, bias=bias, **kwargs)
        self.norm1 = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kwargs)
        self.norm2 = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kwargs)
        self.dropout1 = nn.Dropout(dropout)
        self.dropout2 = nn.Dropout(dropout)
        self.norm_first = norm_first
        self.activation = _activation(activation)

    def _check(self, name: str, tokens: Any) -> None:
        """Raises what is wrong with an input of a call that failed."""
        width, weight = self.self_attn.embed_dim, self.linear1.weight
        check_tokens(type(self).__name__, name, tokens, width, weight)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """torch.nn.TransformerEncoderLayer with a `position=`; parameters of the same names.

    Arguments as there; dropout acts in the same places, on the attention's probabilities too.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        position: Scheme | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, position, device, dtype,
        )  # fmt: skip

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        *,
        positions: Positions | None = None,
    ) -> Tensor:
        """[L, B, E] (or [B, L, E], [L, E]) to the same shape. src_mask must be None."""

        def attend(x: Tensor) -> Tensor:
            out, _ = self.self_attn(
                x,
                key_padding_mask=src_key_padding_mask,
                attn_mask=src_mask,
                is_causal=is_causal,
                positions=positions,
            )
            return self.dropout1(out)

        try:
            x = src
            if self.norm_first:
                x = x + attend(self.norm1(x))
                return x + self.dropout2(self._feed_forward(self.norm2(x)))
            x = self.norm1(x + attend(x))
            return self.norm2(x + self.dropout2(self._feed_forward(x)))
        except FAILURES:
            if not torch.compiler.is_compiling():
                self._check("src", src)
            raise


class TransformerDecoderLayer(_Layer):
    """torch.nn.TransformerDecoderLayer with a `position=` in its self-attention.

    The attention to the encoder (multihead_attn) has no positions, as in T5.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        position: Scheme | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, position, device, dtype,
        )  # fmt: skip
        kwargs: dict[str, Any] = {"device": device, "dtype": dtype}
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **kwargs
        )
        self.norm3 = nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kwargs)
        self.dropout3 = nn.Dropout(dropout)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
        *,
        positions: Positions | None = None,
    ) -> Tensor:
        """[L, B, E] (or [B, L, E], [L, E]) to the same shape. Dense masks must be None."""

        def attend(x: Tensor) -> Tensor:
            out, _ = self.self_attn(
                x,
                key_padding_mask=tgt_key_padding_mask,
                attn_mask=tgt_mask,
                is_causal=tgt_is_causal,
                positions=positions,
            )
            return self.dropout1(out)

        def attend_to_memory(x: Tensor) -> Tensor:
            out, _ = self.multihead_attn(
                x,
                memory,
                memory,
                key_padding_mask=memory_key_padding_mask,
                attn_mask=memory_mask,
                is_causal=memory_is_causal,
            )
            return self.dropout2(out)

        try:
            if memory is None:  # which would be the queries themselves
                raise TypeError("TransformerDecoderLayer: memory must be a tensor, got NoneType")
            x = tgt
            if self.norm_first:
                x = x + attend(self.norm1(x))
                x = x + attend_to_memory(self.norm2(x))
                return x + self.dropout3(self._feed_forward(self.norm3(x)))
            x = self.norm1(x + attend(x))
            x = self.norm2(x + attend_to_memory(x))
            return self.norm3(x + self.dropout3(self._feed_forward(x)))
        except FAILURES:
            if not torch.compiler.is_compiling():
                self._check("tgt", tgt)
                self._check("memory", memory)
                batch_first = self.self_attn.batch_first
                check_alike(type(self).__name__, "memory", memory, "tgt", tgt, batch_first)
            raise

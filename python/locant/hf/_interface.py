"""Locant as an attention implementation of transformers: the function, its masks, its biases.

Masks of ours are bool, True for keys to see: [B, K] where every query sees a key, [B, 1, K] where
one may see none, or None; whether a call is causal is the module's business, and where its queries
stand the bias's. Masks of others have four dimensions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import (
    bidirectional_mask_function,
    causal_mask_function,
    prepare_padding_mask,
    sdpa_mask,
)

from .._attention import attention
from .._traced import is_traced
from ..position import NumberPerDistance, Terms
from ._blind import averaged, blind_rows
from ._family import NAME

WEIGHTS = "attention weights (output_attentions) are asked for"
DENSE = "the mask has something to say about every pair of tokens"
CHANGED = "a hook or an adapter may change the table of biases"
_SHORT = "_locant_short"  # attribute of a whole mask: what `shortened` made of it
_said: set[tuple[str, str]] = set()


def say_original(module: nn.Module, why: str) -> None:
    """Warns, once for each kind of module and reason, that a call runs as it did before."""
    kind = type(module).__name__
    if (kind, why) not in _said:
        _said.add((kind, why))
        warnings.warn(
            f"locant: {kind} uses transformers' own attention in this call, as in every one in "
            f"which {why}",
            stacklevel=3,
        )


class Bias:
    """The biases of a stack as its layers hand them on, where transformers has [1, H, Q, K].

    table: [buckets, H], or None where nothing is added (cross attention). index: the bucket of a
    distance. past: tokens before the first query, a tensor for static caches. dense: makes
    transformers' matrix, or is None.
    """

    def __init__(
        self,
        table: Tensor | None,
        index: Tensor | None,
        past: int | Tensor = 0,
        dense: Callable[[], Tensor] | None = None,
    ) -> None:
        self.table = table
        self.index = index
        self.past = past
        self.dense = dense

    def terms(self) -> Terms | None:
        """For `attention`."""
        if self.table is None or self.index is None:
            return None
        return Terms(number=NumberPerDistance(self.table.t(), self.index))

    def positions(self, queries: int, keys: int) -> tuple[Tensor, Tensor] | None:
        """None where the queries are the last of the keys, which needs no saying."""
        if self.table is None:
            return None
        if not isinstance(self.past, Tensor) and self.past + queries == keys:
            return None
        device = self.table.device
        return torch.arange(queries, device=device) + self.past, torch.arange(keys, device=device)


def key_mask(mask: Tensor | None) -> tuple[Tensor | None, bool]:
    """(key_padding_mask of `attention`, whether the mask is more than that)."""
    if mask is None:
        return None, False
    if mask.dim() == 4:
        if mask.shape[2] != 1:
            return None, True
        mask = mask[:, :, 0]
    elif mask.dim() == 3:
        mask = mask[:, 0]
    return (~mask if mask.dtype == torch.bool else mask), False


def whole_mask(
    mask: Tensor | None,
    causal: bool,
    past: int | Tensor,
    queries: int,
    keys: int,
    device: torch.device,
) -> Tensor | None:
    """[B or 1, 1, Q, K] bool, True to see, from a mask of ours; None when all see all."""
    if mask is not None and mask.dim() == 4:
        return mask
    seen = mask
    if mask is not None:
        seen = mask.reshape(mask.shape[0], 1, 1, -1).expand(-1, 1, queries, -1)
    if causal:
        i = torch.arange(queries, device=device)[:, None] + past
        before = torch.arange(keys, device=device) <= i
        seen = before[None, None] if seen is None else seen & before
    return seen


def shortened(mask: Tensor | None, past: int | Tensor) -> Tensor | None:
    """A mask of ours from [B, 1, Q, K] bool that holds causality and keys to ignore, no more."""
    if mask is None or mask.dim() != 4 or mask.shape[1] != 1 or mask.shape[2] < 2:
        return mask
    if mask.dtype != torch.bool or is_traced():
        return mask
    first = int(past)
    # All layers have the same mask; what has no version may have changed.
    stamp = None if mask.is_inference() else (first, mask._version, mask.data_ptr())
    held = getattr(mask, _SHORT, None)
    if held is None or held[0] != stamp or stamp is None:
        keys = mask[:, 0, -1]  # the last query sees most
        queries, places = mask.shape[2:]
        whole = whole_mask(keys, True, first, queries, places, mask.device)
        usual = whole is not None and torch.equal(mask, whole)
        short = keys if bool(mask[:, 0, 0].any(1).all()) else keys[:, None]
        held = (stamp, short if usual else None)
        setattr(mask, _SHORT, held)
    return mask if held[1] is None else held[1]


def additive(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """The mask as transformers' eager attention adds it to scores."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.zeros((), dtype=dtype, device=mask.device)
    return torch.where(mask, zero, torch.finfo(dtype).min)


def _eager_of(module: nn.Module) -> Any:
    """Attention that returns weights; also of a restored module whose config was not restored."""
    modeling = sys.modules.get(type(module).__module__)
    return getattr(module, "eager", getattr(modeling, "eager_attention_forward", None))


def locant_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Bias | Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """What transformers calls: [B, H, Q, D], [B, Hk, K, D] -> [B, Q, H, Dv], and no weights."""
    if is_causal is None:
        is_causal = bool(getattr(module, "is_causal", False))
    causal = is_causal and bool(getattr(getattr(module, "config", None), "is_causal", True))
    queries, keys = query.shape[2], key.shape[2]
    if causal and isinstance(position_bias, Bias) and position_bias.table is not None:
        attention_mask = shortened(attention_mask, position_bias.past)
    mask, dense = key_mask(attention_mask)
    weights = bool(kwargs.get("output_attentions", False))
    if weights or dense or isinstance(position_bias, Tensor):
        past: int | Tensor = keys - queries
        if isinstance(position_bias, Bias):
            say_original(module, WEIGHTS if weights else DENSE)
            past = position_bias.past if position_bias.table is not None else past
            position_bias = None if position_bias.dense is None else position_bias.dense()
        seen = whole_mask(attention_mask, causal, past, queries, keys, query.device)
        eager = _eager_of(module) if weights else None
        if eager is not None:
            return eager(
                module, query, key, value, additive(seen, query.dtype),
                scaling=scaling, dropout=dropout, position_bias=position_bias, **kwargs,
            )  # fmt: skip
        return sdpa_attention_forward(
            module, query, key, value, seen, dropout=dropout, scaling=scaling, is_causal=False,
            position_bias=position_bias, **kwargs,
        )  # fmt: skip
    terms, positions = None, None
    if position_bias is not None:
        terms, positions = position_bias.terms(), position_bias.positions(queries, keys)
    if attention_mask is not None and attention_mask.dim() == 4:
        causal = False  # such a mask says it all
    out = attention(
        query, key, value, terms, causal=causal, scale=scaling, dropout=dropout,
        key_padding_mask=mask, positions=positions,
    )  # fmt: skip
    if attention_mask is not None and attention_mask.dim() > 2:
        bias = position_bias
        past = keys - queries if bias is None or bias.table is None else bias.past
        out = averaged(out, value, blind_rows(attention_mask, causal, past, queries))
    return out.transpose(1, 2), None


def _usual_mask(mask: Tensor | None) -> Tensor | None:
    """A mask of one or three dimensions is a ValueError, unless it hides nothing."""
    if mask is None or mask.dim() in (2, 4):
        return mask
    if is_traced() or not bool(mask.all()):
        raise ValueError(
            "locant: attention_mask must be [batch, tokens], or [batch, 1, queries, keys], got "
            f"{list(mask.shape)}"
        )
    return None


def locant_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: Tensor | None = None,
    **kwargs: Any,
) -> Tensor | None:
    """A mask of ours where padding and causality are all there is to say, else transformers'."""
    plain = isinstance(kv_offset, int) and kv_offset == 0
    attention_mask = _usual_mask(attention_mask)
    causal = mask_function is causal_mask_function
    # A static cache: modules that are not ours cannot tell where the queries stand.
    static = causal and not (isinstance(q_offset, int) and q_offset + q_length == kv_length)
    if causal:
        plain = plain and kwargs.get("allow_is_causal_skip", True) and (q_length == 1 or not static)
    elif mask_function is bidirectional_mask_function:
        plain = plain and kwargs.get("allow_is_bidirectional_skip", False)
    else:
        plain = False
    if not plain:
        kwargs["allow_is_causal_skip"] = False
        first: Any = q_offset
        return sdpa_mask(
            batch_size, q_length, kv_length, first, kv_offset, mask_function, attention_mask,
            **kwargs,
        )  # fmt: skip
    short = _short_mask(attention_mask, kv_length, q_offset if causal else None)
    if not static:
        return short
    before = torch.arange(kv_length, device=kwargs.get("device")) <= q_offset
    return before.expand(batch_size, -1) if short is None else short & before


def _short_mask(
    attention_mask: Tensor | None, keys: int, first: int | Tensor | None
) -> Tensor | None:
    """A mask of ours; first: place of the first query of a causal call, which sees fewest."""
    padding = prepare_padding_mask(attention_mask, keys, 0)
    if padding is None:
        return None
    padding = padding[:, :keys]
    if is_traced():
        return padding[:, None]
    if bool(padding.all()):
        return None
    seen = padding if first is None else padding[:, : int(first) + 1]
    return padding if bool(seen.any(1).all()) else padding[:, None]


AttentionInterface.register(NAME, locant_attention)
AttentionMaskInterface.register(NAME, locant_mask)

"""`attention`: the call that everything else in this package leads to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _composed, _ops
from ._check import (
    Positions,
    Window,
    check_learns_nothing,
    check_number,
    check_options,
    check_terms,
    check_types,
    explain,
    explain_position,
    explain_terms,
    key_numbers,
    limits,
    pair,
    whole,
)
from .position.embedded import Embedded
from .position.scheme import Call, Scheme, check_position, low_high
from .position.terms import Terms

_NATIVE = (torch.float32, torch.float64, torch.bfloat16)
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # what autocast casts
_NO_TERMS: tuple[Any, ...] = (None,) * 13


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Scheme | Terms | None = None,
    *,
    causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    key_padding_mask: Tensor | None = None,
    positions: Positions | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention with positions: softmax(scale q.k + what the scheme adds) v, in linear memory.

    q: [B, H, Q, D]. k: [B, Hk, K, D], Hk divides H (grouped queries). v: [B, Hk, K, Dv]. Any
    strides with the last one 1; float32, float64, bfloat16 or float16, all alike.
    position: a module of `locant.position` (or `Terms`), or None. Its tables are kept in float32
    (float64 with float64 inputs), under autocast too, and get gradients of their own shape.
    causal: key position at most query position. window: (left, right), kept distances in positions,
    -1 for no limit; an int w means causal with w keys including the query's own.
    scale: of the products, default 1/sqrt(D). softcap c: c tanh(score / c), 0 for none.
    dropout: part of the probabilities that is dropped, the others divided by 1 - dropout; always,
    as in SDPA: give 0 in evaluation. The mask comes from PyTorch's generator and needs no memory.
    key_padding_mask: [B, K] bool, True for keys to ignore (as torch.nn.MultiheadAttention has it),
    or floating, [B, K] or [B or 1, H or 1, K]: added to the scores of a key, with a gradient.
    positions: int64 [L] or [B or 1, L] for both sides, or a pair (of q, of k). Default: keys at
    0 ... K-1, queries at K-Q ... K-1 (from 0 when Q > K).
    cu_seqlens_q, cu_seqlens_k: integers [S + 1], the bounds of S sequences packed one after the
    other in a batch of 1. Each sees itself alone, and default positions start again in it.
    Returns out [B, H, Q, Dv], and with return_lse also the log-sum-exp [B, H, Q] of the scores;
    both have gradients. A query that sees no key gives zeros and an lse of -inf.

    First derivatives only. What the kernel makes of its arguments does not depend on the number of
    threads, to the last bit.
    Errors: TypeError for types, ValueError for shapes, strides, options and positions.
    On other devices than CPUs the same is composed of PyTorch's operators, in quadratic memory,
    with a warning once.
    """
    arguments, dtype, dense, terms = _arguments(
        q, k, v, position, causal, window, scale, softcap, dropout, key_padding_mask,
        positions, cu_seqlens_q, cu_seqlens_k,
    )  # fmt: skip
    if not arguments[0].is_cpu:
        check_types(*arguments[:3])
        out, lse = _composed.run(_ops.Arguments(*arguments), dense)
    else:
        for name, number in (("scale", scale), ("softcap", softcap), ("dropout", dropout)):
            if isinstance(number, Tensor):
                check_learns_nothing("attention", name, number)
        try:
            out, lse = _ops.run(arguments)
        except (AttributeError, RuntimeError, ValueError):
            if not torch.compiler.is_compiling():
                explain(*arguments[:3])
                explain_position(position)
                explain_terms("attention", terms)
            raise
    if out.dtype != dtype:
        out = out.to(dtype)
    return (out, lse) if return_lse else out


def composed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Scheme | Terms | None = None,
    *,
    causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    key_padding_mask: Tensor | None = None,
    positions: Positions | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    return_lse: bool = False,
) -> Any:
    """`attention`, composed of PyTorch's operators: any device, any derivative, Q x K memory.

    Arguments, results and errors as there.
    """
    arguments, dtype, dense, terms = _arguments(
        q, k, v, position, causal, window, scale, softcap, dropout, key_padding_mask,
        positions, cu_seqlens_q, cu_seqlens_k,
    )  # fmt: skip
    explain(*arguments[:3])
    a = _ops.Arguments(*arguments)
    if not torch.compiler.is_compiling():
        explain_terms("attention", terms)
        a = check_options(a)
        for name, at in (("q_positions", a.q_positions), ("k_positions", a.k_positions)):
            if a.q.is_cpu and at is not None and at.numel():
                low_high(f"attention: {name}", at)
    out, lse = _composed.composed(a, dense)
    out = out.to(dtype)
    return (out, lse) if return_lse else out


def _arguments(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    position: Scheme | Terms | None,
    causal: bool,
    window: Window | None,
    scale: float | None,
    softcap: float | None,
    dropout: float,
    key_padding_mask: Tensor | None,
    positions: Positions | None,
    cu_seqlens_q: Tensor | None,
    cu_seqlens_k: Tensor | None,
) -> tuple[tuple[Any, ...], torch.dtype, Any, Terms | None]:
    """The operators' arguments, the type of the result, a scheme's dense form, and its terms."""
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        check_types(q, k, v)
    causal, left, right = limits("attention", causal, window)
    for name, number in (("scale", scale), ("softcap", softcap), ("dropout", dropout)):
        check_number("attention", name, number)
    if dropout is None:
        raise TypeError("attention: dropout must be a number, got None")
    device = q.device.type
    known = device == "cpu" or torch.amp.is_autocast_available(device)
    autocast = known and torch.is_autocast_enabled(device)
    if autocast and q.dtype in _CAST:
        dtype = torch.get_autocast_dtype(device)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    dtype = q.dtype
    if dtype not in _NATIVE and device == "cpu":
        check_types(q, k, v)
        q, k, v = q.float(), k.float(), v.float()

    number_per_key = q_positions = k_positions = None
    if key_padding_mask is not None:
        places = k.shape[2] if k.dim() == 4 else -1
        number_per_key = key_numbers("attention", key_padding_mask, q, places)
    if positions is not None:
        q_positions, k_positions = pair("attention", positions, both=True)
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        if cu_seqlens_q is None or cu_seqlens_k is None:
            raise ValueError("attention: give cu_seqlens_q and cu_seqlens_k, or neither")
        cu_seqlens_q = whole("attention: cu_seqlens_q", cu_seqlens_q)
        cu_seqlens_k = whole("attention: cu_seqlens_k", cu_seqlens_k)
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if scale is None:
        scale = q_shape[-1] ** -0.5 if q_shape and q_shape[-1] else 1.0

    flat, scaled = _NO_TERMS, 0
    scheme, width, layer, dense = "", 1, 0, None
    terms: Terms | None = None
    if position is not None:
        if isinstance(position, Terms):
            terms = position
        else:
            if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
                explain(q, k, v)
            call = Call(
                q_shape[2],
                k_shape[2],
                q_shape[1],
                q_shape[3],
                v_shape[3],
                causal,
                (left, right),
                q_positions,
                k_positions,
                q.device,
                cu_seqlens_q,
                cu_seqlens_k,
                _ops.real(dtype),
            )
            if not isinstance(position, Scheme):
                check_position("attention", position)
            try:
                if autocast:
                    with torch.autocast(device, enabled=False):
                        terms = position(call)
                else:
                    terms = position(call)
            except (AttributeError, RuntimeError, TypeError) as error:
                if not torch.compiler.is_compiling():
                    explain_position(position, error)
                raise
            check_terms("attention", position, terms)
            if isinstance(position, Embedded):
                position.warn_unless_asked(3)
        try:
            flat, scaled = _flatten(terms, _ops.real(dtype))
            scale = scale * terms.scale_factor
            if terms.scheme is not None:
                scheme, _, width, layer, dense = terms.scheme
        except (AttributeError, OverflowError, TypeError, ValueError):
            explain_terms("attention", terms)
            raise
    seed = None
    if dropout:
        # From PyTorch's own generator: manual_seed and activation checkpointing repeat it.
        seed = torch.randint(2**63 - 1, (1,))
    return (
        q, k, v, number_per_key, q_positions, k_positions, cu_seqlens_q, cu_seqlens_k, *flat, seed,
        scheme, width, layer, scaled, causal, left, right, scale, softcap or 0.0, dropout,
    ), dtype, dense, terms  # fmt: skip


def _flatten(terms: Terms, dtype: torch.dtype) -> tuple[tuple[Any, ...], int]:
    """The operators' thirteen term tensors, in the tables' type, and the bits of `scaled`."""
    number, query, key, value = terms.number, terms.query_rows, terms.key_rows, terms.value_rows
    content = terms.content_bias
    scaled = 0
    flat: list[Any] = [None] * 13
    if number is not None:
        flat[0] = _as(number.table, dtype)
        if number.left is not None:
            flat[1] = _as(number.left, dtype)
        if number.right is not None:
            flat[2] = _as(number.right, dtype)
        flat[3] = number.index
        scaled |= int(number.scaled)
    if query is not None:
        flat[4], flat[5] = _as(query.rows, dtype), query.index
        scaled |= 2 * int(query.scaled)
    if key is not None:
        flat[6], flat[7] = _as(key.rows, dtype), key.index
        scaled |= 4 * int(key.scaled)
    if value is not None:
        flat[8], flat[9] = _as(value.rows, dtype), value.index
    if content is not None:
        flat[10] = _as(content, dtype)
    flat[11] = terms.rotation
    if terms.scheme is not None:
        flat[12] = terms.scheme.parameters
    return tuple(flat), scaled


def _as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """tensor.to(dtype), which costs as much as the rest where there is nothing to do."""
    return tensor if tensor.dtype == dtype else tensor.to(dtype)

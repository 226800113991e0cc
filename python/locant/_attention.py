"""`attention`: the call that everything else in this package leads to."""

from __future__ import annotations

import typing
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from . import _composed, _ops
from .position.built_in import BuiltIn
from .position.scheme import Call, Scheme, check_position, low_high
from .position.terms import Terms

_NATIVE = (torch.float32, torch.float64, torch.bfloat16)
_FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # what autocast casts
_NO_TERMS: tuple[Any, ...] = (None,) * 13

_WINDOW_END = 1 << 63
_DOUBLE_END = 1 << 1023

Positions = Tensor | tuple[Tensor, Tensor]
Window = int | tuple[int, int]


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
    scale: of the products, default 1/sqrt(D). softcap c: c tanh(score / c); None or 0 for
    none.
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
    arguments, dtype, dense = _arguments(
        q, k, v, position, causal, window, scale, softcap, dropout, key_padding_mask,
        positions, cu_seqlens_q, cu_seqlens_k,
    )  # fmt: skip
    if not arguments[0].is_cpu:
        _check_types(*arguments[:3])
        out, lse = _composed.run(_ops.Arguments(*arguments), dense)
    else:
        try:
            out, lse = _ops.run(arguments)
        except (RuntimeError, ValueError):
            if not torch.compiler.is_compiling():
                _explain(*arguments[:3])
                _explain_position(position)
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
    arguments, dtype, dense = _arguments(
        q, k, v, position, causal, window, scale, softcap, dropout, key_padding_mask,
        positions, cu_seqlens_q, cu_seqlens_k,
    )  # fmt: skip
    _explain(*arguments[:3])
    a = _ops.Arguments(*arguments)
    if not torch.compiler.is_compiling():
        _check_options(a)
    if a.q.is_cpu and not torch.compiler.is_compiling():
        for name, at in (("q_positions", a.q_positions), ("k_positions", a.k_positions)):
            if at is not None and at.numel():
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
) -> tuple[tuple[Any, ...], torch.dtype, Any]:
    """The operators' arguments, the type of the result, and a scheme's dense form."""
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        _check_types(q, k, v)
    causal, left, right = _limits("attention", causal, window)
    for name, number in (("scale", scale), ("softcap", softcap), ("dropout", dropout)):
        _check_number("attention", name, number)
    device = q.device.type
    known = device == "cpu" or torch.amp.is_autocast_available(device)
    autocast = known and torch.is_autocast_enabled(device)
    if autocast and q.dtype in _CAST:
        dtype = torch.get_autocast_dtype(device)
        q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    dtype = q.dtype
    if dtype not in _NATIVE and device == "cpu":
        _check_types(q, k, v)
        q, k, v = q.float(), k.float(), v.float()

    number_per_key = q_positions = k_positions = None
    if key_padding_mask is not None:
        places = k.shape[2] if k.dim() == 4 else -1
        number_per_key = _number_per_key("attention", key_padding_mask, q, places)
    if positions is not None:
        q_positions, k_positions = _pair(positions)
    if cu_seqlens_q is not None or cu_seqlens_k is not None:
        if cu_seqlens_q is None or cu_seqlens_k is None:
            raise ValueError("attention: give cu_seqlens_q and cu_seqlens_k, or neither")
        cu_seqlens_q = _whole("attention: cu_seqlens_q", cu_seqlens_q)
        cu_seqlens_k = _whole("attention: cu_seqlens_k", cu_seqlens_k)
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if scale is None:
        scale = q_shape[-1] ** -0.5 if q_shape and q_shape[-1] else 1.0

    flat, scaled = _NO_TERMS, 0
    scheme, width, layer, dense = "", 1, 0, None
    if position is not None:
        if isinstance(position, Terms):
            terms = position
        else:
            if not len(q_shape) == len(k_shape) == len(v_shape) == 4:
                _explain(q, k, v)
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
                    _explain_position(position, error)
                raise
            _check_terms("attention", position, terms)
        try:
            flat, scaled = _flatten(terms, _ops.real(dtype))
            scale = scale * terms.scale_factor
            if terms.scheme is not None:
                scheme, _, width, layer, dense = terms.scheme
        except (AttributeError, TypeError, ValueError):
            _explain_terms("attention", terms)
            raise
    seed = None
    if dropout:
        # From PyTorch's own generator: manual_seed and activation checkpointing repeat it.
        seed = torch.randint(2**63 - 1, (1,))
    return (
        q, k, v, number_per_key, q_positions, k_positions, cu_seqlens_q, cu_seqlens_k, *flat, seed,
        scheme, width, layer, scaled, causal, left, right, scale, softcap or 0.0, dropout,
    ), dtype, dense  # fmt: skip


def _pair(positions: Positions) -> tuple[Tensor, Tensor]:
    both = positions if isinstance(positions, (tuple, list)) else (positions, positions)
    if len(both) != 2:
        raise ValueError(
            "attention: positions must be one tensor or a pair of tensors, got a "
            f"{type(both).__name__} of {len(both)}"
        )
    q_positions, k_positions = (_whole("attention: positions", p) for p in both)
    if q_positions.dim() == 1:
        q_positions = q_positions[None]
    if k_positions.dim() == 1:
        k_positions = k_positions[None]
    return q_positions, k_positions


def _whole(name: str, numbers: Any) -> Tensor:
    """Numbers of any integer type as int64."""
    if not isinstance(numbers, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(numbers).__name__}")
    if numbers.dtype == torch.int64:
        return numbers
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {numbers.dtype}")
    return numbers.to(torch.int64)


def _limits(operation: str, causal: Any, window: Any) -> tuple[bool, int, int]:
    """(causal, left, right) of a window: of `causal` keys when it is one number."""
    if causal is not True and causal is not False:
        causal = _bool(operation, "causal", causal)
    if window is None:
        return causal, -1, -1
    if isinstance(window, (tuple, list)):
        if len(window) == 2 and all(_is_whole(limit) for limit in window):
            for side, limit in zip(("left", "right"), window, strict=True):
                if not -1 <= limit < _WINDOW_END:
                    raise ValueError(
                        f"{operation}: the {side} of window must be from 0 to 2^63 - 1, or -1 for "
                        f"no limit, got {limit}"
                    )
            return causal, window[0], window[1]
    elif _is_whole(window):
        if not 1 <= window < _WINDOW_END:
            raise ValueError(f"{operation}: window must be from 1 to 2^63 - 1 keys, got {window}")
        return True, window - 1, 0
    raise TypeError(
        f"{operation}: window must be a whole number of keys or a pair (left, right) of them, got "
        f"{window!r}"
    )


def _bool(operation: str, name: str, value: Any) -> Any:
    """What other libraries have for a bool, as one; TypeError for all else."""
    if isinstance(value, torch.SymBool):
        return value
    kind = str(getattr(value, "dtype", ""))
    if (kind.endswith("bool") and value.ndim == 0) or (_is_whole(value) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{operation}: {name} must be a bool, got {value!r}")


def _is_whole(number: Any) -> bool:
    if isinstance(number, (int, torch.SymInt)):
        return not isinstance(number, bool)
    return isinstance(number, Integral)


def _check_number(operation: str, name: str, number: Any) -> None:
    if number is None or isinstance(number, (float, torch.SymFloat, torch.SymInt)):
        return
    if isinstance(number, (int, Real)):
        if isinstance(number, int) and abs(number) >= _DOUBLE_END:
            raise ValueError(
                f"{operation}: {name} must be finite in single precision, got {number}"
            )
        return
    if not isinstance(number, Tensor) or number.dim() or number.is_complex() or number.is_meta:
        raise TypeError(f"{operation}: {name} must be a number, got {number!r}")


def _check_options(a: _ops.Arguments) -> None:
    """What the kernel asks of its options, for the composed form."""
    # As there, numbers times log2(e) are floats.
    limit = 2.35e38
    if not abs(a.scale) <= limit:
        raise ValueError(
            f"attention: scale must be finite in single precision, up to {limit} in size, got "
            f"{a.scale}"
        )
    if not (a.softcap == 0 or torch.finfo(torch.float32).tiny <= a.softcap <= limit):
        raise ValueError(
            "attention: softcap must be 0 (none) or positive, normal in single precision, up to "
            f"{limit}, got {a.softcap}"
        )
    if not 0 <= a.dropout < 1:
        raise ValueError(
            f"attention: dropout must be from 0 up to but not including 1, got {a.dropout}"
        )


def _number_per_key(operation: str, mask: Tensor, q: Tensor, places: int) -> Tensor:
    """[B or 1, H or 1, places] in the type of the tables."""
    name = f"{operation}: key_padding_mask"
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"{name} must be bool (True: ignored) or floating (added), got {mask.dtype}"
        )
    # Comparing sizes would fix them while a compiler traces; the kernel compares them then.
    if q.dim() == 4 and places >= 0 and not torch.compiler.is_compiling():
        batch, heads = q.shape[:2]
        wanted: list[Any] = [(1, batch), (1, heads), (places,)]
        if mask.dim() == 2:
            del wanted[1]
        shape = list(mask.shape)
        if len(shape) != len(wanted) or any(
            n not in sizes for n, sizes in zip(shape, wanted, strict=True)
        ):
            raise ValueError(
                f"{name} must be [{batch}, {places}] or [{batch} or 1, {heads} or 1, {places}], "
                f"got {shape}"
            )
        if mask.device != q.device:
            raise ValueError(f"{name} must be on the device of q, {q.device}, got {mask.device}")
    dtype = _ops.real(q.dtype)
    if mask.dtype == torch.bool:
        numbers = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        mask = numbers.masked_fill(mask, float("-inf"))
    mask = mask.to(dtype)
    return mask[:, None] if mask.dim() == 2 else mask


def _check_terms(operation: str, position: Any, terms: Any) -> None:
    if not isinstance(terms, Terms):
        raise TypeError(
            f"{operation}: position must return Terms, got {type(position).__name__}, which "
            f"returns {type(terms).__name__}"
        )


def _explain_terms(operation: str, terms: Terms) -> None:
    """Raises what is wrong with the types of terms that could not be read."""
    kinds = typing.get_type_hints(Terms)
    for name, value in terms._asdict().items():
        kind = (float, int) if name == "scale_factor" else kinds[name]
        if not isinstance(value, kind):
            wanted = (
                "a number" if name == "scale_factor" else f"{typing.get_args(kind)[0].__name__}"
            )
            raise TypeError(
                f"{operation}: position's {name} must be {wanted}, got {type(value).__name__}"
            )


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


def _check_types(q: Any, k: Any, v: Any) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"attention: {name} must be a tensor, got {type(tensor).__name__}")
        if tensor.dtype not in _FLOATING:
            raise TypeError(
                f"attention: {name} must be float32, float64, bfloat16 or float16, got "
                f"{tensor.dtype}"
            )
    for name, tensor in (("k", k), ("v", v)):
        if tensor.dtype != q.dtype:
            raise TypeError(
                f"attention: {name} must have the dtype of q, {q.dtype}, got {tensor.dtype}"
            )
        if tensor.device != q.device:
            raise ValueError(
                f"attention: {name} must be on the device of q, {q.device}, got {tensor.device}"
            )


def _explain(q: Any, k: Any, v: Any) -> None:
    """Raises what is wrong with the types and ranks of a call that failed."""
    _check_types(q, k, v)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"attention: {name} must be [batch, heads, length, size], got {tensor.dim()} "
                "dimensions"
            )


def _explain_position(position: Any, error: Exception | None = None) -> None:
    """Raises what is wrong with the position of a call that failed."""
    if isinstance(position, BuiltIn):
        position.check_parameters("attention")
    elif not isinstance(position, Scheme) and isinstance(
        error, (AttributeError, NotImplementedError, TypeError)
    ):
        raise TypeError(
            "attention: position must be a module of locant.position, Terms or None, got "
            f"{type(position).__name__}, which does not take a Call"
        ) from error

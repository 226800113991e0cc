"""What a call's arguments must be: refused by name, with what was expected and what came."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from . import _ops
from .position.built_in import BuiltIn
from .position.scheme import Scheme
from .position.terms import (
    NumberPerDistance,
    RowPerDistance,
    SchemeTerm,
    Terms,
    ValuePerDistance,
)

_FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_WINDOW_END = 1 << 63

Positions = Tensor | tuple[Tensor, Tensor]
Window = int | tuple[int, int]


def pair(operation: str, positions: Any, both: bool) -> tuple[Tensor, Tensor | None]:
    """Positions of queries and of keys, each [B or 1, L] int64; one is for both, or the first."""
    given = positions
    if not isinstance(positions, (tuple, list)):
        given = (positions, positions if both else None)
    if len(given) != 2:
        raise ValueError(
            f"{operation}: positions must be one tensor or a pair of tensors, got a "
            f"{type(given).__name__} of {len(given)}"
        )
    name = f"{operation}: positions"
    of_q = whole(name, given[0])
    of_k = None if given[1] is None and not both else whole(name, given[1])
    of_q = of_q[None] if of_q.dim() == 1 else of_q
    return of_q, of_k[None] if of_k is not None and of_k.dim() == 1 else of_k


def whole(name: str, numbers: Any) -> Tensor:
    """Numbers of any integer type as int64."""
    if not isinstance(numbers, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, got {type(numbers).__name__}")
    if numbers.dtype == torch.int64:
        return numbers
    if numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool:
        raise TypeError(f"{name} must be integers, got {numbers.dtype}")
    return numbers.to(torch.int64)


def limits(operation: str, causal: Any, window: Any) -> tuple[bool, int, int]:
    """(causal, left, right) of a window: of `causal` keys when it is one number."""
    if causal is not True and causal is not False:
        causal = boolean(operation, "causal", causal)
    if window is None:
        return causal, -1, -1
    if isinstance(window, (tuple, list)):
        if len(window) == 2 and all(is_whole(limit) for limit in window):
            for side, limit in zip(("left", "right"), window, strict=True):
                if not -1 <= limit < _WINDOW_END:
                    raise ValueError(
                        f"{operation}: the {side} of window must be from 0 to 2^63 - 1, or -1 for "
                        f"no limit, got {limit}"
                    )
            return causal, window[0], window[1]
    elif is_whole(window):
        if not 1 <= window < _WINDOW_END:
            raise ValueError(f"{operation}: window must be from 1 to 2^63 - 1 keys, got {window}")
        return True, window - 1, 0
    raise TypeError(
        f"{operation}: window must be a whole number of keys or a pair (left, right) of them, got "
        f"{window!r}"
    )


def boolean(operation: str, name: str, value: Any) -> Any:
    """What other libraries have for a bool, as one; TypeError for all else."""
    if isinstance(value, torch.SymBool):
        return value
    kind = str(getattr(value, "dtype", ""))
    if (kind.endswith("bool") and value.ndim == 0) or (is_whole(value) and value in (0, 1)):
        return bool(value)
    raise TypeError(f"{operation}: {name} must be a bool, got {value!r}")


def is_whole(number: Any) -> bool:
    if isinstance(number, (int, torch.SymInt)):
        return not isinstance(number, bool)
    return isinstance(number, Integral)


def check_number(operation: str, name: str, number: Any) -> None:
    if number is None or isinstance(number, (float, torch.SymFloat, torch.SymInt)):
        return
    if isinstance(number, (int, Real)):
        try:
            float(number)
        except OverflowError:
            raise ValueError(
                f"{operation}: {name} must be finite in single precision, got {number}"
            ) from None
        return
    if not isinstance(number, Tensor) or number.dim() or number.is_complex() or number.is_meta:
        raise TypeError(f"{operation}: {name} must be a number, got {number!r}")


def check_learns_nothing(operation: str, name: str, number: Tensor) -> None:
    """TypeError where a number of the fused kernel would get a gradient."""
    if number.requires_grad and torch.is_grad_enabled():
        raise TypeError(
            f"{operation}: {name} has no gradient here, got {number!r}; locant.composed_attention "
            "has one"
        )


def _as_float(number: Any) -> Any:
    return number if isinstance(number, Tensor) else float(number)


def check_options(a: _ops.Arguments) -> _ops.Arguments:
    """The arguments with numbers as floats, and what the kernel asks of them."""
    a = a._replace(
        scale=_as_float(a.scale), softcap=_as_float(a.softcap), dropout=_as_float(a.dropout)
    )
    limit, cap, steepest = 2.35e38, 1e38, 1e30
    if not abs(a.scale) <= limit:
        raise ValueError(
            f"attention: scale must be finite in single precision, up to {limit} in size, got "
            f"{a.scale}"
        )
    if not (a.softcap == 0 or torch.finfo(torch.float32).tiny <= a.softcap <= cap):
        raise ValueError(
            "attention: softcap must be 0 (none) or positive, normal in single precision, up to "
            f"{cap}, got {a.softcap}"
        )
    if a.softcap and abs(a.scale) / a.softcap > steepest:
        raise ValueError(
            f"attention: scale / softcap must be at most {steepest}, got {a.scale} / {a.softcap}"
        )
    if not 0 <= a.dropout < 1:
        raise ValueError(
            f"attention: dropout must be from 0 up to but not including 1, got {a.dropout}"
        )
    for table, index, name in (
        (a.number, a.number_index, "number"),
        (a.query_rows, a.query_index, "query_rows"),
        (a.key_rows, a.key_index, "key_rows"),
        (a.value_rows, a.value_index, "value_rows"),
    ):
        if table is not None and index is not None and index.numel() > 1:
            low, high = (int(x) for x in torch.aminmax(index[1:]))
            rows = table.shape[1]
            if low < -1 or high >= rows:
                raise ValueError(
                    f"attention: position's {name} has {rows} rows, its index names row "
                    f"{low if low < -1 else high}"
                )
    return a


def key_numbers(operation: str, mask: Tensor, q: Tensor, places: int) -> Tensor:
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


def check_terms(operation: str, position: Any, terms: Any) -> None:
    if not isinstance(terms, Terms):
        raise TypeError(
            f"{operation}: position must return Terms, got {type(position).__name__}, which "
            f"returns {type(terms).__name__}"
        )


def explain_terms(operation: str, terms: Terms | None) -> None:
    """Raises what is wrong with the types of terms, and of what they are made of."""
    if terms is None:
        return
    for name, value in terms._asdict().items():
        if name == "scale_factor":
            check_number(operation, "position's scale_factor", value)
            if value is None or not math.isfinite(value):
                raise ValueError(
                    f"{operation}: position's scale_factor must be finite, got {value!r}"
                )
        elif value is not None:
            kinds = _PARTS.get(name)
            kind = kinds[0] if kinds else Tensor
            _expect(f"{operation}: position's {name}", value, kind)
            for part, wanted in (kinds[1] if kinds else {}).items():
                _expect(f"{operation}: position's {name}.{part}", getattr(value, part), wanted)


_OF_ROWS: dict[str, Any] = {"rows": Tensor, "index": Tensor}
_PARTS: dict[str, tuple[type, dict[str, Any]]] = {
    "number": (
        NumberPerDistance,
        {
            "table": Tensor,
            "index": Tensor,
            "scaled": (bool, Integral),
            "left": (Tensor, type(None)),
            "right": (Tensor, type(None)),
        },
    ),
    "query_rows": (RowPerDistance, {**_OF_ROWS, "scaled": (bool, Integral)}),
    "key_rows": (RowPerDistance, {**_OF_ROWS, "scaled": (bool, Integral)}),
    "value_rows": (ValuePerDistance, _OF_ROWS),
    "scheme": (
        SchemeTerm,
        {"specification": str, "parameters": (Tensor, type(None)), "width": int, "layer": int},
    ),
}


def _expect(name: str, value: Any, kind: Any) -> None:
    if not isinstance(value, kind):
        wanted = kind if isinstance(kind, type) else kind[0]
        raise TypeError(f"{name} must be a {wanted.__name__}, got {type(value).__name__}")


def check_types(q: Any, k: Any, v: Any) -> None:
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


def explain(q: Any, k: Any, v: Any) -> None:
    """Raises what is wrong with the types and ranks of a call that failed."""
    check_types(q, k, v)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ValueError(
                f"attention: {name} must be [batch, heads, length, size], got {tensor.dim()} "
                "dimensions"
            )


def explain_position(position: Any, error: Exception | None = None) -> None:
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

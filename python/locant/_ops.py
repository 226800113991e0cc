"""The operators `torch.ops.locant.*` as PyTorch sees them: shapes, gradients, what is refused.

One schema serves all (python/ops/attention_ops.h lists its arguments):
`attention` has an autograd formula for torch.compile and torch.export; eager calls go through
`AttentionFunction` to `attention_forward`, which costs less per call.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _library  # noqa: F401
from ._traced import is_traced

# Indices in the argument list: tensors first, then numbers.
TENSORS = 22
# Those with a gradient, in the order of the backward operator's bits.
DIFFERENTIABLE = (0, 1, 2, 3, 8, 9, 10, 12, 14, 16, 18, 20)


class Arguments(NamedTuple):
    """Arguments of the operators, in order. Shapes as in python/ops/arguments.h."""

    q: Tensor
    k: Tensor
    v: Tensor
    number_per_key: Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    cu_seqlens_q: Tensor | None
    cu_seqlens_k: Tensor | None
    number: Tensor | None
    number_left: Tensor | None
    number_right: Tensor | None
    number_index: Tensor | None
    query_rows: Tensor | None
    query_index: Tensor | None
    key_rows: Tensor | None
    key_index: Tensor | None
    value_rows: Tensor | None
    value_index: Tensor | None
    content_bias: Tensor | None
    rotation: Tensor | None
    scheme_parameters: Tensor | None
    dropout_seed: Tensor | None
    scheme: str
    scheme_width: int
    layer: int
    scaled: int
    causal: bool
    left: int
    right: int
    scale: float
    softcap: float
    dropout: float


def real(dtype: torch.dtype) -> torch.dtype:
    """The type of tables, log-sum-exp and sums beside q, k and v of a type."""
    return torch.float64 if dtype == torch.float64 else torch.float32


# --- shapes ---------------------------------------------------------------------------------------


def _empty_like_heads(like: Tensor, size: tuple[Any, ...]) -> Tensor:
    """[B, H, L, D] laid out as `like` is; mirrors empty_like_heads in python/ops/tensors.h."""
    batch, heads, length, width = size
    if like.stride(1) < like.stride(2):
        return like.new_empty((batch, length, heads, width)).transpose(1, 2)
    return like.new_empty(size)


_OF_POSITION = Arguments._fields[8:21]


def _forward_fake(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    # One meta tensor among others brings a real call here, where nothing is computed.
    for name, value in zip(Arguments._fields, (q, k, v, *rest), strict=True):
        if isinstance(value, Tensor) and q.is_cpu and not value.is_cpu:
            of = "position's " if name in _OF_POSITION else ""
            raise ValueError(
                f"attention: {of}{name} must be on the device of q, {q.device}, got {value.device}"
            )
    batch, heads, length, _ = q.shape
    out = _empty_like_heads(q, (batch, heads, length, v.shape[3]))
    return out, q.new_empty((batch, heads, length), dtype=real(q.dtype))


def _backward_fake(
    out_gradient: Tensor, out: Tensor, lse: Tensor, wanted: int, *arguments: Any
) -> list[Tensor]:
    gradients = []
    for bit, index in enumerate(DIFFERENTIABLE):
        like = arguments[index]
        if not wanted >> bit & 1 or like is None:
            continue
        if index < 3:
            gradients.append(_empty_like_heads(like, tuple(like.shape)))
        else:
            gradients.append(like.new_empty(like.shape))
    return gradients


torch.library.register_fake("locant::attention", _forward_fake)
torch.library.register_fake("locant::attention_forward", _forward_fake)
torch.library.register_fake("locant::attention_backward", _backward_fake)

# --- gradients ------------------------------------------------------------------------------------

_forward = torch.ops.locant.attention_forward.default
_backward = torch.ops.locant.attention_backward.default


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    out, lse = output
    ctx.save_for_backward(out, lse, *inputs[:TENSORS])
    ctx.numbers = inputs[TENSORS:]
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, out_gradient: Tensor | None, lse_gradient: Tensor | None) -> Any:
    """Of every argument, None where none is asked for."""
    gradients: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
    asked = [index for index in DIFFERENTIABLE if ctx.needs_input_grad[index]]
    found = _gradients_of(ctx, asked, out_gradient, lse_gradient)
    for index, gradient in zip(asked, found, strict=True):
        gradients[index] = gradient
    return tuple(gradients)


def _gradients_of(
    ctx: Any, asked: list[int], out_gradient: Tensor | None, lse_gradient: Tensor | None
) -> list[Tensor | None]:
    """Of the arguments with the indices `asked`, which rise."""
    if out_gradient is None and lse_gradient is None:
        return [None] * len(asked)
    out, lse, *tensors = ctx.saved_tensors
    size = out.shape[3]
    if lse_gradient is not None:
        out_gradient, out, tensors = _with_lse(out_gradient, lse_gradient, out, tensors)
    wanted = sum(1 << DIFFERENTIABLE.index(index) for index in asked)
    arguments = (out_gradient, out, lse, wanted, *tensors, *ctx.numbers)
    try:
        found = _Once.apply(*arguments) if torch.is_grad_enabled() else _backward(*arguments)
    except ValueError as error:
        scheme = arguments[4 + Arguments._fields.index("scheme")]
        if lse_gradient is None or not scheme:
            raise
        raise RuntimeError(
            f"attention: the log-sum-exp has no gradient where {scheme} adds rows to values and "
            "comes from the registry (position.Registered); the scheme's own class has one"
        ) from error
    if lse_gradient is None:
        return list(found)
    return [
        gradient[..., :size] if index in _OF_VALUES else gradient
        for index, gradient in zip(asked, found, strict=True)
    ]


_OF_VALUES = (Arguments._fields.index("v"), Arguments._fields.index("value_rows"))


def _with_lse(
    out_gradient: Tensor | None, lse_gradient: Tensor, out: Tensor, tensors: list[Any]
) -> tuple[Tensor, Tensor, list[Any]]:
    """out_gradient, out and the tensors with a channel that carries the gradient of the lse.

    The scores' gradient is P (dP - sum of dO O), the lse adds P dlse. A channel in which values are
    0, out is said to be 1 and its gradient is -dlse changes dP by nothing and the sum by -dlse.
    """
    tensors = list(tensors)
    for index in _OF_VALUES:
        if tensors[index] is not None:
            tensors[index] = torch.nn.functional.pad(tensors[index], (0, 1))
    if out_gradient is None:
        out_gradient = torch.zeros_like(out)
    channel = -lse_gradient.to(out.dtype).unsqueeze(3)
    one = torch.ones_like(channel)
    return torch.cat([out_gradient, channel], 3), torch.cat([out, one], 3), tensors


torch.library.register_autograd("locant::attention", _gradients, setup_context=_setup_context)


class _Once(torch.autograd.Function):
    """The gradients, which themselves have none: asked for anyway, they say so."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        return tuple(_backward(*arguments))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        del ctx, gradients
        raise RuntimeError(
            "locant.attention has no second derivative: double backward (create_graph=True, a "
            "gradient of a gradient) is not supported. locant.composed_attention has one, in "
            "quadratic memory"
        )


class AttentionFunction(torch.autograd.Function):
    """The eager path: the same formula with less machinery around it.

    What autograd is handed costs time for each: the tensors that want a gradient, and no others.
    """

    @staticmethod
    def forward(
        ctx: Any, arguments: tuple[Any, ...], asked: list[int], *leaves: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(arguments, indices of the leaves, leaves) -> (out [B, H, Q, Dv], lse [B, H, Q])."""
        del leaves
        output = _forward(*arguments)
        _setup_context(ctx, arguments, output)
        ctx.asked = asked
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Gradients of the leaves from those of out and lse."""
        needed = ctx.needs_input_grad[2:]
        found = iter(_gradients_of(ctx, list(itertools.compress(ctx.asked, needed)), *gradients))
        return None, None, *(next(found) if need else None for need in needed)


class TransformedFunction(torch.autograd.Function):
    """The form that torch.func's transforms want, which costs more per call."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, Tensor]:
        """(arguments) -> (out [B, H, Q, Dv], lse [B, H, Q])."""
        return _forward(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keeps what backward reads: the arguments, out and lse."""
        _setup_context(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Gradients of the arguments from that of out."""
        return _gradients(ctx, *gradients)


def run(arguments: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Attention on the CPU: out [B, H, Q, Dv] and its log-sum-exp [B, H, Q]."""
    if is_traced():
        return torch.ops.locant.attention.default(*arguments)
    if torch._C._are_functorch_transforms_active():
        return TransformedFunction.apply(*arguments)
    if torch.is_grad_enabled():
        asked = _with_gradient(arguments)
        if asked:
            return AttentionFunction.apply(arguments, asked, *[arguments[index] for index in asked])
    return _forward(*arguments)


def _with_gradient(arguments: tuple[Any, ...]) -> list[int]:
    """Indices of those that want a gradient."""
    return [i for i in DIFFERENTIABLE if (x := arguments[i]) is not None and x.requires_grad]

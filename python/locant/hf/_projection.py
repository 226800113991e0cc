"""Projections by oneDNN where PyTorch would call MKL, on processors that MKL treats as strangers.

On AMD's processors MKL keeps to AVX2 code. Where they have AVX-512 (Zen 4), oneDNN, which PyTorch
carries too, was 6 to 9 % faster for outputs and for gradients of inputs, from 8 rows on, and no
faster for gradients of weights; with AVX2 alone (Zen 3) MKL was 10 to 25 % faster than oneDNN.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from .._traced import is_traced

_FEWEST_ROWS = 8
_PLAIN = (Tensor, nn.Parameter)


class Projection(nn.Linear):
    """What takes the place of torch.nn.Linear; weights, names and state_dict stay as they are."""

    replaces = nn.Linear

    def forward(self, input: Tensor) -> Tensor:
        """[..., in] -> [..., out]."""
        return project(input, self.weight, self.bias)


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """torch.nn.functional.linear; float32 on the CPU through oneDNN where that is the faster."""
    if is_traced() or not _usable(x, weight, bias):
        return linear(x, weight, bias)
    if torch.is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        # Rows alone: what the operator makes of more dimensions is a view, closed to `/=`.
        out = _Project.apply(x.reshape(-1, x.shape[-1]), weight, bias)
        return out.view(*x.shape[:-1], -1)
    return _product(x, weight, bias)


def replace_projections(module: nn.Module) -> None:
    """Gives the linear layers directly in an attention module the class above."""
    if _operator() is not None:
        for child in module.children():
            if type(child) is nn.Linear and "forward" not in child.__dict__:
                child.__class__ = Projection


@lru_cache(maxsize=1)
def _operator() -> Any:
    """PyTorch's door to oneDNN, None where MKL or another library is the better choice."""
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):
        return None
    try:
        strange = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()[:400]
        strange = strange and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        return torch.ops.mkldnn._linear_pointwise.default if strange else None
    except (OSError, AttributeError):  # no Linux, or a torch that names it otherwise
        return None


def _usable(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the call is a plain one of float32."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    return bool(
        _operator() is not None
        and x.numel() >= _FEWEST_ROWS * x.shape[-1] > 0
        and weight.numel() > 0
        and all(t.dtype == torch.float32 and t.is_cpu and type(t) in _PLAIN for t in tensors)
        and x.shape[-1] == weight.shape[-1]
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
        and torch.backends.mkldnn.enabled
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return _operator()(x, weight, bias, "none", [], "")


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        x, weight = ctx.saved_tensors
        to_x = to_weight = to_bias = None
        if ctx.needs_input_grad[0]:
            once = not torch.is_grad_enabled() and type(gradient) in _PLAIN
            to_x = _product(gradient, weight.t(), None) if once else gradient @ weight
        if ctx.needs_input_grad[1]:
            to_weight = gradient.t() @ x
        if ctx.needs_input_grad[2]:
            to_bias = gradient.sum(0)
        return to_x, to_weight, to_bias

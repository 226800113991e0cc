"""KERPLE, kernel biases (Chi et al. 2022, arXiv 2205.09921)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .built_in import BuiltIn, specification_of
from .scheme import Call, check_span
from .terms import NumberPerDistance, Terms, identity_map


class _Bounded(torch.autograd.Function):
    """A number beyond a bound is used as the bound; a gradient that leads it back is kept."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, low: float, high: float) -> Tensor:
        return x.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: Tensor) -> None:
        del output
        x, ctx.low, ctx.high = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        (x,) = ctx.saved_tensors
        outward = ((x < ctx.low) & (gradient > 0)) | ((x > ctx.high) & (gradient < 0))
        return gradient.masked_fill(outward, 0), None, None


class Kerple(BuiltIn):
    """score_ij += -p ln(1 + a |i - j|) ("log") or -a |i - j|^p ("power"), outside the scale.

    p and a are learned for each head, at least .01, in "power" p at most 2.
    Parameters: bias_p, bias_a [num_heads, 1, 1].
    """

    def __init__(
        self,
        num_heads: int,
        *,
        variant: str = "log",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            specification_of("kerple", {"variant": variant}),
            num_heads=num_heads,
            device=device,
            dtype=dtype,
        )
        self.variant = variant

    def terms(self, call: Call) -> Terms:
        """A table with one number for each distance that the call can reach."""
        self.check_heads(call)
        if call.is_unread():
            return self.by_registry()
        high = 2.0 if self.variant == "power" else float("inf")
        p = _Bounded.apply(self.array("bias_p"), 0.01, high).reshape(-1, 1)
        a = _Bounded.apply(self.array("bias_a"), 0.01, float("inf")).reshape(-1, 1)
        first, last, _ = call.span()
        check_span("kerple", first, last)
        n = torch.arange(first, last + 1, dtype=p.dtype, device=p.device).abs()
        table = -p * torch.log1p(a * n) if self.variant == "log" else -a * n.pow(p)
        return Terms(number=NumberPerDistance(table, identity_map(first, last)))

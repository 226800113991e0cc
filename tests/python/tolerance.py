"""The one place where tolerances come from; the rule of tests/oracle/tolerance.h.

|got - want| <= 4 (1 + n) eps magnitude for an element that sums over n keys, magnitude the sum of
the absolute values of what was added, with the scores' own rounding. bf16 and fp16: at most twice
the error of the same attention computed plainly in that type.
"""

from __future__ import annotations

import torch
from torch import Tensor

SAFETY = 4
EPS = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}


def check_close(name: str, got: Tensor, want: Tensor, magnitude: Tensor | float, n: int) -> None:
    """Fails naming the worst element and its indices."""
    assert got.shape == want.shape, f"{name}: shape {tuple(got.shape)}, want {tuple(want.shape)}"
    allowed = torch.as_tensor(magnitude, dtype=torch.float64) * SAFETY * (1 + n) * EPS[got.dtype]
    check_within(name, got, want, allowed)


def largest(*tensors: Tensor) -> float:
    """The largest absolute value of all."""
    return max((float(t.detach().abs().max()) for t in tensors if t.numel()), default=0.0)


def check_alike(name: str, got: Tensor, want: Tensor, n: int, floor: float = 0.0) -> None:
    """check_close for tensors whose elements are alike: the largest is the magnitude of all.

    floor: of the magnitude, where all of `want` may cancel (the gradient of a bias on all keys).
    """
    check_close(name, got, want, max(largest(want), floor), n)


def check_within(name: str, got: Tensor, want: Tensor, allowed: Tensor) -> None:
    """|got - want| <= allowed, and nothing is close to NaN."""
    got, want = got.detach().double(), want.detach().double()
    error = (got - want).abs()
    error[got == want] = 0.0
    wrong = ~(error <= allowed)
    if not bool(wrong.any()):
        return
    ratio = (error / allowed.expand_as(error)).nan_to_num(nan=torch.inf)
    at = int(ratio.argmax())
    index = [int(x) for x in torch.unravel_index(torch.tensor(at), got.shape)]
    raise AssertionError(
        f"{name}: {int(wrong.sum())} of {got.numel()} differ; worst at {index}: got "
        f"{float(got.flatten()[at])}, want {float(want.flatten()[at])}, "
        f"{float(ratio.flatten()[at]):.3g} times what is allowed"
    )


def check_like_plain(name: str, got: Tensor, plain: Tensor, want: Tensor) -> None:
    """Errors at most twice the largest of `plain`, and never below the type's own rounding."""
    scale = float(want.detach().abs().max())
    half_unit = torch.finfo(got.dtype).eps / 2
    worst = float((plain.detach().double() - want.detach().double()).abs().max())
    check_within(name, got, want, torch.tensor(2 * max(worst, half_unit * scale)))

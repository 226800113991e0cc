"""Dropout on the probabilities: one mask in the kernel, the composed path and the backward."""

from __future__ import annotations

import cases
import pytest
import torch
from tolerance import check_alike, check_within

from locant import attention, composed_attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_drops_the_same_everywhere(dtype: torch.dtype) -> None:
    """Kernel, composed path and backward have one mask; the mean is kept."""
    q, k = torch.zeros(2, 3, 40, 8, dtype=dtype), torch.zeros(2, 3, 60, 8, dtype=dtype)
    v = torch.eye(60, dtype=dtype).expand(2, 3, 60, 60).contiguous().requires_grad_()
    results = []
    for run in (attention, composed_attention):
        torch.manual_seed(7)
        out = run(q, k, v, dropout=0.25)  # row i holds the weights that query i kept
        out.sum().backward()
        results.append(out.detach() > 0)
        # d out / d v: what a key got from all queries together.
        kept = out.detach().double().sum(2)
        allowed = torch.tensor(4 * (1 + 60) * torch.finfo(dtype).eps) * kept.abs().max()
        check_within("gradient", v.grad[..., 0], kept, allowed)
        v.grad = None
    assert torch.equal(*results)
    share = results[0].double().mean()
    assert abs(float(share) - 0.75) < 5 * (0.25 * 0.75 / results[0].numel()) ** 0.5
    torch.manual_seed(7)
    again = attention(q, k, v, dropout=0.25)
    assert torch.equal(again > 0, results[0])
    assert not torch.equal(attention(q, k, v, dropout=0.25) > 0, results[0])


def test_dropout_with_a_scheme() -> None:
    """All gradients against the composed path, whose mask is the same."""
    scheme = cases.make("shaw(k=4)", 4, 8).double()
    q, k, v = (x.double().requires_grad_() for x in cases.draw(2, 4, 2, 21, 21, 8, 8))
    results = []
    for run in (attention, composed_attention):
        torch.manual_seed(3)
        out = run(q, k, v, scheme, causal=True, dropout=0.1)
        results.append(
            [out, *torch.autograd.grad(out.square().sum(), [q, k, v, *scheme.parameters()])]
        )
    for one, other in zip(*results, strict=True):
        check_alike("dropout", one, other, 2 * 21 * 21)

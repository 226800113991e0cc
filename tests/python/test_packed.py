"""Packed sequences of different lengths: each as if it stood alone."""

from __future__ import annotations

from typing import Any

import cases
import pytest
import torch
from tolerance import check_alike, largest

from locant import attention, composed_attention

LENGTHS = ((5, 5), (0, 3), (9, 12), (1, 1), (7, 4))


def bounds(side: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """[S + 1] cumulative lengths of the queries (0) or the keys (1)."""
    sums = torch.tensor([pair[side] for pair in LENGTHS]).cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.int64), sums]).to(dtype)


@pytest.mark.parametrize("run", [attention, composed_attention])
@pytest.mark.parametrize(
    "text", ["nope", "t5", "kerple", "shaw(k=4)", "rope", "fire(length=8,hidden=5)"]
)
@pytest.mark.parametrize("causal", [False, True])
def test_each_sequence_stands_alone(run: Any, text: str, causal: bool) -> None:
    scheme = cases.make(text, 4, 8).double()
    q_bounds, k_bounds = bounds(0, torch.int32), bounds(1)
    q, k, v = (
        torch.randn(1, heads, int(sums[-1]), 8, dtype=torch.float64).requires_grad_()
        for heads, sums in ((4, q_bounds), (2, k_bounds), (2, k_bounds))
    )
    leaves = [q, k, v, *scheme.parameters()]
    out = run(q, k, v, scheme, causal=causal, cu_seqlens_q=q_bounds, cu_seqlens_k=k_bounds)
    gradient = torch.randn_like(out)
    found = [out, *torch.autograd.grad(out, leaves, gradient)]
    parts = []
    for n in range(len(LENGTHS)):
        a, b = (slice(int(x[n]), int(x[n + 1])) for x in (q_bounds, k_bounds))
        parts.append(attention(q[:, :, a], k[:, :, b], v[:, :, b], scheme, causal=causal))
    alone = torch.cat(parts, 2)
    expected = [alone, *torch.autograd.grad(alone, leaves, gradient)]
    for one, other in zip(found, expected, strict=True):
        check_alike("packed", one, other, 22 * 25, largest(*expected))


def test_the_same_document_twice() -> None:
    """D60: identical outputs for both."""
    x = torch.randn(1, 2, 6, 8)
    sums = torch.tensor([0, 6, 12])
    twice = torch.cat([x, x], 2)
    scheme = cases.make("t5", 2, 8)
    out = attention(twice, twice, twice, scheme, cu_seqlens_q=sums, cu_seqlens_k=sums)
    assert torch.equal(out[:, :, :6], out[:, :, 6:])


def test_dropout_of_packed_sequences() -> None:
    q_bounds, k_bounds = bounds(0), bounds(1)
    q = torch.randn(1, 2, int(q_bounds[-1]), 8).double()
    k = torch.randn(1, 2, int(k_bounds[-1]), 8).double()
    results = []
    for run in (attention, composed_attention):
        torch.manual_seed(4)
        results.append(run(q, k, k, dropout=0.3, cu_seqlens_q=q_bounds, cu_seqlens_k=k_bounds))
    check_alike("out", *results, 25)


def test_bad_bounds_say_why() -> None:
    q = torch.zeros(1, 1, 4, 2)
    with pytest.raises(ValueError, match="cu_seqlens_q and cu_seqlens_k, or neither"):
        attention(q, q, q, cu_seqlens_q=torch.tensor([0, 4]))
    for wrong in ([0, 3], [1, 4], [0, 3, 2, 4], [0, 5]):
        sums = torch.tensor(wrong)
        with pytest.raises(ValueError, match="cu_seqlens"):
            attention(q, q, q, cu_seqlens_q=sums, cu_seqlens_k=sums)
    with pytest.raises(TypeError, match="integers"):
        attention(q, q, q, cu_seqlens_q=torch.zeros(2), cu_seqlens_k=torch.zeros(2))

"""A scheme of a user's own: the example, and gradients through everything it returns."""

from __future__ import annotations

import runpy
from pathlib import Path

import torch
from tolerance import check_alike
from torch import Tensor, nn

from locant import attention, composed_attention, position

EXAMPLE = Path(__file__).parents[2] / "examples" / "python" / "own_scheme.py"


class Everything(position.Scheme):
    """Every kind of term at once."""

    def __init__(self, heads: int, size: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(heads, 5))
        self.left = nn.Parameter(torch.randn(heads))
        self.query = nn.Parameter(torch.randn(1, 5, size))
        self.key = nn.Parameter(torch.randn(heads, 5, size))
        self.value = nn.Parameter(torch.randn(heads, 5, size))
        self.bias = nn.Parameter(torch.randn(heads, size))

    def terms(self, call: position.Call) -> position.Terms:
        index = position.clip_map(2, 2)
        return position.Terms(
            number=position.NumberPerDistance(self.table, index, left=self.left),
            query_rows=position.RowPerDistance(self.query, index),
            key_rows=position.RowPerDistance(self.key, index, scaled=False),
            value_rows=position.ValuePerDistance(self.value, index),
            content_bias=self.bias,
            rotation=position.rotation(torch.tensor([1.0, 0.1]), magnitude=1.5),
            scale_factor=0.7,
        )


def test_every_kind_of_term_at_once() -> None:
    scheme = Everything(2, 6).double()
    q, k, v = (torch.randn(2, 2, n, 6).double().requires_grad_() for n in (7, 9, 9))
    leaves: list[Tensor] = [q, k, v, *scheme.parameters()]
    results = []
    for run in (attention, composed_attention):
        out = run(q, k, v, scheme, causal=True, softcap=3.0)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for one, other in zip(*results, strict=True):
        check_alike("everything", one, other, 2 * 7 * 9)
    inputs = tuple(x.detach().requires_grad_() for x in leaves)
    names = [name for name, _ in scheme.named_parameters()]

    def f(q: Tensor, k: Tensor, v: Tensor, *arrays: Tensor) -> Tensor:
        call = position.Call(7, 9, 2, 6, 6, causal=True)
        arguments = dict(zip(names, arrays, strict=True))
        terms = torch.func.functional_call(scheme, arguments, (call,))
        return attention(q, k, v, terms, causal=True, softcap=3.0)

    assert torch.autograd.gradcheck(f, inputs, fast_mode=True)


def test_the_example_trains() -> None:
    result = runpy.run_path(str(EXAMPLE), run_name="example")["main"](steps=60)
    assert result[-1] < 0.5 * result[0]


def test_a_scheme_must_say_what_it_adds() -> None:
    q = torch.zeros(1, 1, 2, 2)
    try:
        attention(q, q, q, position.Scheme())
    except NotImplementedError as error:
        assert "must define terms" in str(error)
    else:
        raise AssertionError("nothing was raised")

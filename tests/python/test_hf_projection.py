"""Projections by oneDNN: the numbers of torch.nn.functional.linear, and all that goes with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import hf_models
import pytest
import torch
from tolerance import check_alike, check_close
from torch import Tensor
from torch.nn.functional import linear

import locant

pytest.importorskip("transformers")
from locant.hf import _projection
from locant.hf._projection import Projection, project


@pytest.fixture(autouse=True)
def one_dnn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On every processor that has it, whatever the choice would be."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this PyTorch has no oneDNN")
    operator = torch.ops.mkldnn._linear_pointwise.default
    monkeypatch.setattr(_projection, "_operator", lambda: operator)
    yield


def layer(shape: tuple[int, ...], bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    x = torch.randn(*shape, 24, requires_grad=True)
    weight = torch.randn(40, 24, requires_grad=True)
    return x, weight, torch.randn(40, requires_grad=True) if bias else None


def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the products that oneDNN makes."""
    calls: list[int] = []
    product = _projection._product
    monkeypatch.setattr(_projection, "_product", lambda *a: (calls.append(1), product(*a))[1])
    return calls


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(9,), (2, 8), (3, 1, 5)])
def test_outputs_and_gradients(
    shape: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = used(monkeypatch)
    x, weight, b = layer(shape, bias)
    rows = x.numel() // 24
    out = project(x, weight, b)
    gradient = torch.randn_like(out)
    out.backward(gradient)
    assert len(calls) == 2  # out, and the gradient of x
    leaves = [t for t in (x, weight, b) if t is not None]
    exact = [t.detach().double().requires_grad_() for t in leaves]
    want = linear(*exact)
    want.backward(gradient.double())
    size = [t.detach().double().abs().requires_grad_() for t in leaves]
    magnitude = linear(*size)
    magnitude.backward(gradient.double().abs())
    check_close("out", out, want, magnitude.detach(), 24)
    for name, t, e, s, n in zip("xwb", leaves, exact, size, (40, rows, rows), strict=False):
        check_close(name, t.grad, e.grad, s.grad, n)
    with torch.no_grad():
        check_close("without gradients", project(x, weight, b), want, magnitude.detach(), 24)


def test_traced_it_is_a_linear_layer() -> None:
    """What a trace holds must read back: the operator's arguments do not."""
    other = hf_models.accelerated(hf_models.make("mpnet", return_dict=False))
    assert any(isinstance(m, Projection) for m in other.modules())
    ids = hf_models.tokens(2, 12)
    with torch.no_grad():
        traced = torch.jit.trace(other, (ids,), strict=False)
        check_alike("traced", traced(ids)[0], other(ids)[0], hf_models.sums(other, 24))


def test_what_it_makes_can_be_changed_and_derived_twice() -> None:
    x, weight, b = layer((1, 16), True)

    def second(function: Any, *arguments: Tensor) -> Tensor:
        y, *others = (t.detach().to(arguments[0].dtype).requires_grad_() for t in arguments)
        out = function(y, *others).unflatten(2, (4, 10)).transpose(1, 2)
        out /= 3  # as DeBERTa does
        (first,) = torch.autograd.grad((out**3).sum(), y, create_graph=True)
        return torch.autograd.grad(first.square().sum(), y)[0]

    assert b is not None
    want = second(linear, x.double(), weight.double(), b.double())
    check_alike("second derivative", second(project, x, weight, b), want, 4 * (24 + 40))


@pytest.mark.filterwarnings("ignore::UserWarning:torch.backends")
@pytest.mark.parametrize("case", ["one row", "bf16", "autocast", "double", "off", "vmap"])
def test_what_is_left_to_pytorch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = used(monkeypatch)
    dtype = {"bf16": torch.bfloat16, "double": torch.float64}.get(case, torch.float32)
    x = torch.randn(1 if case == "one row" else 16, 24, dtype=dtype)
    weight = torch.randn(40, 24, dtype=dtype)
    want = linear(x, weight)
    if case == "autocast":
        with torch.autocast("cpu"):
            assert project(x, weight, None).dtype == torch.bfloat16
    elif case == "off":
        with torch.backends.mkldnn.flags(enabled=False):
            assert torch.equal(project(x, weight, None), linear(x, weight))
    elif case == "vmap":
        out = torch.func.vmap(lambda row: project(row, weight, None))(x[:, None].expand(-1, 8, -1))
        assert out.shape == (16, 8, 40)
    else:
        assert torch.equal(project(x, weight, None), want)
    assert not calls


def test_bad_shapes_get_pytorchs_message() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        project(torch.randn(16, 23), torch.randn(40, 24), None)


@pytest.mark.parametrize("name", ["t5", "mpnet", "deberta", "deberta v3"])
def test_accelerate_replaces_them_and_restore_gives_them_back(name: str) -> None:
    model: Any = hf_models.make(name)
    kinds = [type(m) for m in model.modules()]
    ids = hf_models.tokens(2, 12)
    more = {"decoder_input_ids": ids} if name == "t5" else {}
    want = copy.deepcopy(model).double()(input_ids=ids, **more)[0]
    report = locant.accelerate(model)
    projections = [m for m in model.modules() if isinstance(m, Projection)]
    assert len(projections) >= len(report.replaced)
    got = copy.deepcopy(model)(input_ids=ids, **more)[0]
    hf_models.check_values(name, got, want, hf_models.sums(model, 12))
    locant.restore(model)
    assert [type(m) for m in model.modules()] == kinds

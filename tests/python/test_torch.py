"""What PyTorch does with an operator: derivatives, compiling, exporting, transforming."""

from __future__ import annotations

from typing import Any

import cases
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant import attention, composed_attention
from locant._attention import _arguments

B, H, L, D = 1, 2, 6, 4


def draw(length: int = L, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k and v that ask for gradients."""
    return [torch.randn(B, H, length, D, dtype=dtype).requires_grad_() for _ in range(3)]


class Attend(nn.Module):
    """A causal call with a scheme, as a module."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scheme = cases.make(text, H, D)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, self.scheme, causal=True)


def operator_arguments(text: str, dtype: torch.dtype) -> tuple[Any, ...]:
    """Of torch.ops.locant.attention, every floating tensor asking for a gradient."""
    arguments, _, _ = _arguments(
        *draw(dtype=dtype), cases.make(text, H, D).to(dtype), True, None, None, None,
        0.25, torch.randn(1, L), None, None, None,
    )  # fmt: skip
    return tuple(
        x.detach().requires_grad_(x.is_floating_point() and n != 19)  # 19: the rotation
        if isinstance(x, Tensor)
        else x
        for n, x in enumerate(arguments)
    )


@pytest.mark.parametrize("text", cases.IDS)
def test_opcheck(text: str) -> None:
    tests = ["test_schema", "test_autograd_registration", "test_faketensor"]
    if text in cases.KINDS:
        tests.append("test_aot_dispatch_dynamic")
    for dtype in (torch.float32, torch.float64):
        torch.library.opcheck(
            torch.ops.locant.attention.default, operator_arguments(text, dtype), test_utils=tests
        )


@pytest.mark.parametrize("text", cases.IDS)
def test_gradcheck(text: str) -> None:
    scheme = cases.make(text, H, D).double()
    names = [name for name, _ in scheme.named_parameters()]
    learned = [p.detach().requires_grad_() for p in scheme.parameters()]
    if text.startswith(("sinusoidal", "learned")):
        names, learned = [], []

    def f(q: Tensor, k: Tensor, v: Tensor, numbers: Tensor, *arrays: Tensor) -> Any:
        call = torch.func.functional_call
        terms = call(scheme, dict(zip(names, arrays, strict=True)), (made,))
        return attention(q, k, v, terms, causal=True, key_padding_mask=numbers)

    from locant.position import Call

    made = Call(L, L, H, D, D, causal=True)
    numbers = torch.randn(1, L, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(
        f, (*draw(dtype=torch.float64), numbers, *learned), fast_mode=True
    )


def test_double_backward_is_refused() -> None:
    q, k, v = draw()
    (gradient,) = torch.autograd.grad(attention(q, k, v).square().sum(), [q], create_graph=True)
    with pytest.raises(RuntimeError, match=r"locant\.attention has no second derivative"):
        gradient.sum().backward()
    out = composed_attention(q, k, v).square().sum()
    (gradient,) = torch.autograd.grad(out, [q], create_graph=True)
    gradient.sum().backward()
    assert k.grad is not None


def test_log_sum_exp_has_no_gradient() -> None:
    _, lse = attention(*draw(), return_lse=True)
    assert not lse.requires_grad


def gradients(f: Any, leaves: list[Tensor]) -> list[Tensor]:
    """Output and gradients of a sum of its squares."""
    out = f()
    return [out, *torch.autograd.grad(out.square().sum(), leaves)]


@pytest.mark.parametrize("text", cases.KINDS)
def test_compiled_whole(text: str) -> None:
    """One graph, other lengths without new ones, the same bits."""
    torch._dynamo.reset()
    module = Attend(text)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (6, 9, 13):
        inputs = draw(length)
        leaves = [*inputs, *module.parameters()]
        one = gradients(lambda x=inputs: compiled(*x), leaves)
        other = gradients(lambda x=inputs: module(*x), leaves)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


MASK = torch.tensor([[False] * 4 + [True] * 2])
CALLS: dict[str, Any] = {
    "positions": {"positions": torch.arange(L) + 3, "causal": True},
    "mask": {"key_padding_mask": MASK, "window": 3, "softcap": 2.0},
    "packed": {"cu_seqlens_q": torch.tensor([0, 2, L]), "cu_seqlens_k": torch.tensor([0, 2, L])},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_compiled_with_options(options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    scheme = cases.make("t5", H, D)
    leaves = [*draw(), *scheme.parameters()]

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    one = gradients(lambda: compiled(*leaves[:3]), leaves)
    other = gradients(lambda: call(*leaves[:3]), leaves)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_compiled_by_inductor() -> None:
    torch._dynamo.reset()
    module = Attend("t5")
    compiled = torch.compile(module, fullgraph=True)
    inputs = draw()
    leaves = [*inputs, *module.parameters()]
    one = gradients(lambda: compiled(*inputs), leaves)
    other = gradients(lambda: module(*inputs), leaves)
    assert torch.equal(one[0], other[0])
    assert all(torch.allclose(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("text", ["t5", "transformer_xl"])
def test_exported(text: str) -> None:
    module = Attend(text)
    length = torch.export.Dim("length", min=2, max=64)
    program = torch.export.export(
        module, tuple(draw()), dynamic_shapes=({2: length}, {2: length}, {2: length})
    )
    assert "locant.attention" in str(program.graph_module.code)
    inputs = draw(17)
    assert torch.equal(program.module()(*inputs), module(*inputs))


def test_transforms() -> None:
    module = Attend("t5")
    q, k, v = draw()
    zeros = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    out = torch.func.functional_call(module, zeros, (q, k, v))
    assert torch.equal(out, attention(q, k, v, causal=True))
    one = torch.func.grad(lambda x: module(x, k, v).sum())(q.detach())
    (other,) = torch.autograd.grad(module(q, k, v).sum(), [q])
    assert torch.equal(one, other)


def test_activation_checkpointing() -> None:
    module = Attend("shaw(k=4)")
    inputs = draw()
    leaves = [*inputs, *module.parameters()]
    one = gradients(lambda: checkpoint(module, *inputs, use_reentrant=False), leaves)
    other = gradients(lambda: module(*inputs), leaves)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_checkpointing_repeats_the_dropout() -> None:
    q, k, v = draw(33)

    def f(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, dropout=0.5)

    results = []
    for kept in (False, True):
        torch.manual_seed(5)
        results.append(
            gradients(
                lambda kept=kept: (
                    checkpoint(f, q, k, v, use_reentrant=False) if kept else f(q, k, v)
                ),
                [q, k, v],
            )
        )
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_compiled_with_dropout() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, dropout=0.5), fullgraph=True, backend="aot_eager"
    )
    inputs = draw()
    torch.manual_seed(5)
    one = compiled(*inputs)
    torch.manual_seed(5)
    assert torch.equal(one, attention(*inputs, dropout=0.5))


def test_memory_is_linear() -> None:
    """A graph of a long call holds no Q x K tensor."""
    q, k, v = (torch.randn(1, 1, 2048, 8).requires_grad_() for _ in range(3))
    kept: list[int] = []

    def note(x: Tensor) -> Tensor:
        kept.append(x.numel())
        return x

    scheme = cases.make("t5", 1, 8)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        attention(q, k, v, scheme)
    assert kept and max(kept) <= 2048 * 8

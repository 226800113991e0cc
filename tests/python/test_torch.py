"""What PyTorch does with an operator: derivatives, compiling, exporting, transforming."""

from __future__ import annotations

import os
import shutil
from typing import Any

import cases
import pytest
import torch
from tolerance import check_alike, check_like_plain
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from locant import attention, composed_attention, position
from locant._attention import _arguments

B, H, L, D = 1, 2, 6, 4
# Numbers, rows for queries and keys, rows for values, a content bias, a rotation, a scheme's text.
INDUCTOR = ["t5", "shaw(k=4)", "transformer_xl", "rope", "fire(length=8,hidden=5)"]


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
    arguments, *_ = _arguments(
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
        return attention(q, k, v, terms, causal=True, key_padding_mask=numbers, return_lse=True)

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


LSE_CALLS: dict[str, dict[str, Any]] = {
    "window": {"window": (2, 1), "softcap": 2.0},
    "dropout": {"dropout": 0.4},
    "packed": {"cu_seqlens_q": torch.tensor([0, 2, L]), "cu_seqlens_k": torch.tensor([0, 2, L])},
    "hidden keys": {"key_padding_mask": torch.ones(1, L, dtype=torch.bool).triu(1)},
}


@pytest.mark.parametrize("options", LSE_CALLS.values(), ids=LSE_CALLS)
def test_log_sum_exp_has_a_gradient(options: dict[str, Any]) -> None:
    """Alone and beside that of the output, as the composed attention has it."""
    scheme = cases.make("shaw(k=4)", H, D).double()
    leaves = [*draw(dtype=torch.float64), *scheme.parameters()]
    weights = torch.randn(B, H, L, dtype=torch.float64)
    for alone in (True, False):
        found = []
        for function in (attention, composed_attention):
            torch.manual_seed(3)
            out, lse = function(*leaves[:3], scheme, return_lse=True, **options)
            loss = (lse * weights).sum() + (0.0 if alone else out.square().sum())
            found.append(torch.autograd.grad(loss, leaves, allow_unused=True))
        for got, want in zip(*found, strict=True):
            want = torch.zeros_like(got) if want is None else want
            check_alike("gradient", got, want, L, floor=1.0)


def test_log_sum_exp_in_other_types() -> None:
    exact = draw(dtype=torch.float64)
    for dtype in (torch.float32, torch.bfloat16):
        leaves = [x.detach().to(dtype).requires_grad_() for x in exact]
        _, lse = attention(*leaves, return_lse=True)
        got = torch.autograd.grad(lse.sum(), leaves[:2])
        same = [x.detach().double().requires_grad_() for x in leaves]
        plain = [x.detach().requires_grad_() for x in leaves]
        _, want = composed_attention(*same, return_lse=True)
        _, beside = composed_attention(*plain, return_lse=True)
        wanted = torch.autograd.grad(want.sum(), same[:2])
        for one, other, w in zip(
            got, torch.autograd.grad(beside.sum(), plain[:2]), wanted, strict=True
        ):
            if dtype == torch.bfloat16:
                check_like_plain("gradient", one, other, w)
            else:
                check_alike("gradient", one, w, L)


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
    "lse": {"return_lse": True},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_compiled_with_options(options: dict[str, Any]) -> None:
    torch._dynamo.reset()
    scheme = cases.make("t5", H, D)
    leaves = [*draw(), *scheme.parameters()]

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        found = attention(q, k, v, scheme, **options)
        return found[0] + found[1][..., None] if "return_lse" in options else found

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    one = gradients(lambda: compiled(*leaves[:3]), leaves)
    other = gradients(lambda: call(*leaves[:3]), leaves)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


FROM_DISTANCES = [
    "kerple",
    "sandwich",
    "transformer_xl",
    "transformer_xl(clamp_len=4)",
    "shaw(k=40,outside=refuse)",
    "rope(scaling=dynamic,factor=2,original=8)",
    "xpos",
]


@pytest.mark.parametrize("key", ["positions", "packed"])
@pytest.mark.parametrize("text", FROM_DISTANCES)
def test_compiled_where_distances_are_not_known(text: str, key: str) -> None:
    """Tables that follow from positions: the registry makes them in double, inside the operator."""
    torch._dynamo.reset()
    scheme = cases.make(text, H, D)
    leaves = [*draw(), *scheme.parameters()]
    options = {**CALLS[key], "causal": True}
    if key == "positions":
        options["positions"] = torch.tensor([0, 1, 4, 5, 9, 30])

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    one = gradients(lambda: compiled(*leaves[:3]), leaves)
    other = gradients(lambda: call(*leaves[:3]), leaves)
    for a, b in zip(one, other, strict=True):
        check_alike(text, a, b, 4 * L, floor=1.0)


class Distance(position.Scheme):
    """A scheme of a user's own that asks for distances."""

    def terms(self, call: position.Call) -> position.Terms:
        table = call.distances(torch.float32)[None]
        index = position.identity_map(call.first_distance, call.last_distance)
        return position.Terms(number=position.NumberPerDistance(table, index))


def test_compiling_says_what_cannot_be_read() -> None:
    torch._dynamo.reset()
    scheme = Distance()
    compiled = torch.compile(
        lambda q, k, v, at: attention(q, k, v, scheme, positions=at),
        fullgraph=True,
        backend="aot_eager",
    )
    with pytest.raises(Exception, match="distances cannot be read from positions"):
        compiled(*draw(), torch.arange(L))


def test_lse_of_a_registered_scheme_with_values() -> None:
    q, k, v = draw()
    scheme = position.Registered("shaw(k=2)", num_heads=H, head_size=D)
    out, lse = attention(q, k, v, scheme, return_lse=True)
    out.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="log-sum-exp has no gradient where shaw"):
        lse.sum().backward()


COMPILER = os.environ.get("CXX", "g++")


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"inductor needs a compiler: {COMPILER}")
@pytest.mark.parametrize("text", INDUCTOR)
def test_compiled_by_inductor(text: str) -> None:
    torch._dynamo.reset()
    module = Attend(text)
    compiled = torch.compile(module, fullgraph=True)
    inputs = draw()
    leaves = [*inputs, *module.parameters()]
    one = gradients(lambda: compiled(*inputs), leaves)
    other = gradients(lambda: module(*inputs), leaves)
    for a, b in zip(one, other, strict=True):
        check_alike(text, a, b, 4 * L, floor=1.0)


@pytest.mark.parametrize(
    "text",
    ["t5", "transformer_xl", "kerple", "xpos", "rope(scaling=dynamic,factor=2,original=8)"],
)
def test_exported(text: str) -> None:
    """With a length that is not known."""
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


@pytest.mark.parametrize("text", cases.IDS)
@pytest.mark.parametrize("run", [attention, composed_attention])
def test_func_grad(run: Any, text: str) -> None:
    """By inputs and parameters, of every scheme."""
    scheme = cases.make(text, H, D)
    q, k, v = draw()
    learned = dict(scheme.named_parameters())
    if text.startswith(("sinusoidal", "learned")):
        learned = {}

    def loss(q: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        call = position.Call(L, L, H, D, D, causal=True)
        terms = torch.func.functional_call(scheme, parameters, (call,))
        return run(q, k, v, terms, causal=True).square().sum()

    one, by_name = torch.func.grad(loss, argnums=(0, 1))(q.detach(), dict(learned))
    (other, *rest) = torch.autograd.grad(loss(q, learned), [q, *learned.values()])
    for a, b in zip([one, *by_name.values()], [other, *rest], strict=True):
        check_alike(text, a, b, L, floor=1.0)


def test_composed_has_every_transform() -> None:
    """Also through the bounds of Kerple's parameters."""
    scheme = cases.make("kerple", H, D).double()
    q, k, v = (x.detach() for x in draw(dtype=torch.float64))

    def f(a: Tensor) -> Tensor:
        parameters = {"bias_a": a, "bias_p": scheme.array("bias_p").detach()}
        call = position.Call(L, L, H, D, D, causal=True)
        terms = torch.func.functional_call(scheme, parameters, (call,))
        return composed_attention(q, k, v, terms, causal=True).sum((0, 2, 3))

    a = scheme.array("bias_a").detach()
    want = torch.autograd.functional.jacobian(f, a)
    assert torch.allclose(torch.func.jacrev(f)(a), want)


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

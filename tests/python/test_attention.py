"""The call itself: layouts, masks, positions, types, threads."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import cases
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerance import check_alike, check_close, check_like_plain, largest

import locant
from locant import attention, composed_attention, position


def compare(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, run: Any = attention, **options: Any
) -> None:
    """Output, log-sum-exp and gradients against the oracle."""
    call = dict(options)
    window = call.pop("window", None)
    if isinstance(window, int):
        call.update(causal=True, left=window - 1, right=0)
    elif window is not None:
        call.update(left=window[0], right=window[1])
    mask = call.pop("key_padding_mask", None)
    if mask is not None:
        numbers = (
            torch.zeros(mask.shape).masked_fill(mask, -torch.inf)
            if mask.dtype == torch.bool
            else mask
        )
        call["key_numbers"] = numbers[:, None] if numbers.dim() == 2 else numbers
    positions = call.pop("positions", None)
    if positions is not None:
        call["i"], call["j"] = positions
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out, lse = run(*leaves, **options, return_lse=True)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    want, want_lse, magnitude = oracle.attend(*wide, **call)
    n = k.shape[2]
    check_close("out", out, want, magnitude, n)
    check_alike("lse", lse, want_lse, n) if torch.isfinite(want_lse).all() else None
    assert torch.equal(torch.isinf(lse), torch.isinf(want_lse))
    gradient = torch.randn(want.shape, dtype=torch.float64).to(q.dtype)
    found = torch.autograd.grad(out, leaves, gradient)
    expected = torch.autograd.grad(want, wide, gradient.double())
    for name, one, other in zip("qkv", found, expected, strict=True):
        check_alike(f"gradient of {name}", one, other, n * q.shape[1], largest(*expected))


@pytest.mark.parametrize("run", [attention, composed_attention])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"window": 3},
        {"window": (2, 4)},
        {"window": (-1, 1)},
        {"scale": 1.0},
        {"softcap": 2.0},
        {"key_padding_mask": torch.tensor([[False] * 9 + [True] * 2, [True] * 11])},
        {"key_padding_mask": torch.randn(2, 11)},
        {"key_padding_mask": torch.randn(1, 4, 11)},
        {"positions": (torch.tensor([5, 3, 40, 0, 7]), torch.arange(0, 22, 2)), "causal": True},
    ],
    ids=str,
)
def test_options(run: Any, options: dict[str, Any]) -> None:
    compare(*cases.draw(2, 4, 2, 5, 11, 8, 6), run=run, **options)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_random_shapes(data: Any) -> None:
    def integer(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    hk = integer(1, 3)
    shape = (
        integer(1, 3),
        hk * integer(1, 3),
        hk,
        integer(1, 40),
        integer(1, 70),
        integer(1, 20),
        integer(1, 20),
    )
    options: dict[str, Any] = {"causal": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        options["window"] = (integer(-1, 9), integer(-1, 9))
    torch.manual_seed(integer(0, 1000))
    compare(*cases.draw(*shape), **options)


@pytest.mark.parametrize("empty", [(0, 4, 5, 6), (2, 4, 0, 6), (2, 4, 5, 0)])
@pytest.mark.parametrize("run", [attention, composed_attention])
def test_empty(run: Any, empty: tuple[int, int, int, int]) -> None:
    b, h, n, m = empty
    q, k, v = (x.requires_grad_() for x in cases.draw(b, h, h, n, m, 8, 8))
    out, lse = run(q, k, v, return_lse=True)
    assert out.shape == (b, h, n, 8) and not out.any()
    assert lse.shape == (b, h, n) and bool((lse == -torch.inf).all())
    out.sum().backward()
    assert not q.grad.any() and not k.grad.any() and not v.grad.any()


def test_any_strides() -> None:
    packed = torch.randn(2, 7, 3, 4, 8)  # [B, L, 3, H, D], as one projection makes it
    q, k, v = (packed[:, :, n].transpose(1, 2).requires_grad_() for n in range(3))
    out = attention(q, k, v, causal=True)
    plain = attention(*(x.contiguous() for x in (q, k, v)), causal=True)
    assert torch.equal(out, plain)
    assert out.transpose(1, 2).is_contiguous()  # so that heads join without a copy
    expanded = torch.randn(1, 1, 7, 8).expand(2, 4, 7, 8)
    compare(expanded, k.detach(), v.detach())
    (gradient,) = torch.autograd.grad(out, [q], torch.ones(()).expand(out.shape))
    (again,) = torch.autograd.grad(attention(q, k, v, causal=True).sum(), [q])
    assert torch.equal(gradient, again)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("text", ["t5", "shaw(k=4)", "rope"])
def test_half_types(dtype: torch.dtype, text: str) -> None:
    scheme = cases.make(text, 4, 8)
    q, k, v = (x.to(dtype).requires_grad_() for x in cases.draw(2, 4, 4, 33, 33, 8, 8))
    gradient = torch.randn(2, 4, 33, 8).to(dtype)
    out = attention(q, k, v, scheme, causal=True)
    assert out.dtype == dtype
    tables = list(scheme.parameters())
    found = [out, *torch.autograd.grad(out, [q, k, v, *tables], gradient)]
    assert [x.dtype for x in found[1:]] == [dtype] * 3 + [torch.float32] * len(tables)

    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    numbers = cases.doubles(scheme)
    formula = cases.by_text(text).formula
    want, _, _ = oracle.attend(*wide, lambda *a: formula(numbers, *a), causal=True)
    ends = [*wide, *numbers.values()]
    expected = [want, *torch.autograd.grad(want, ends, gradient.double())]
    # The same, each step rounded to the type.
    plain_leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    bias = torch.zeros(33, 33).masked_fill(torch.ones(33, 33).triu(1).bool(), -torch.inf)
    a, b, c = plain_leaves
    weights = (a @ b.transpose(2, 3) * 8**-0.5 + bias.to(dtype)).softmax(3)
    plain = [weights @ c]
    plain += torch.autograd.grad(plain[0], plain_leaves, gradient)
    free, _, _ = oracle.attend(*wide, causal=True)
    exact = [free, *torch.autograd.grad(free, wide, gradient.double())]
    for name, one, other, rough, fine in zip(
        ("out", "q", "k", "v"), found, expected, plain, exact, strict=False
    ):
        # The error of plain arithmetic, carried to the scheme's result of the same size.
        ratio = largest(other) / max(largest(fine), 1e-9)
        check_like_plain(
            name, one, other.to(torch.float64) + (rough.double() - fine) * ratio, other
        )


def test_autocast_keeps_tables_in_float32() -> None:
    scheme = cases.make("deberta(buckets=8,max_positions=16)", 4, 8)
    q, k, v = (x.requires_grad_() for x in cases.draw(1, 4, 4, 9, 9, 8, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attention(q, k, v, scheme)
        assert out.dtype == torch.bfloat16
        assert scheme(position.Call(9, 9, 4, 8, 8)).query_rows.rows.dtype == torch.bfloat16
    rounded = [x.bfloat16() for x in (q, k, v)]
    assert torch.equal(out, attention(*rounded, scheme))  # tables as without autocast
    out.sum().backward()
    assert q.grad.dtype == torch.float32
    assert scheme.array("rel_embeddings.weight").grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("run", [attention, composed_attention])
def test_queries_that_see_nothing_may_hold_anything(run: Any, dtype: torch.dtype) -> None:
    """Padding on the left under a causal mask: NaN there is nobody's, backward too."""
    scheme = position.T5(2)
    mask = torch.zeros(2, 80, dtype=torch.bool)
    mask[:, :9] = True
    inputs = [x.to(dtype) for x in cases.draw(2, 2, 2, 80, 80, 8, 8)]
    sent = torch.randn(2, 2, 80, 8).to(dtype)
    found = []
    for filler in (0.0, torch.nan):
        leaves = [x.clone() for x in inputs]
        gradient = sent.clone()
        leaves[0][:, :, :9], gradient[:, :, :9] = filler, filler
        wanted = [x.requires_grad_() for x in leaves] + list(scheme.parameters())
        out = run(*leaves, scheme, causal=True, key_padding_mask=mask)
        found.append([out, *torch.autograd.grad(out, wanted, gradient)])
    for clean, dirty in zip(*found, strict=True):
        assert torch.isfinite(clean).all() and torch.equal(clean, dirty)


def test_padded_keys_may_hold_anything() -> None:
    q, k, v = cases.draw(2, 4, 4, 5, 7, 8, 8)
    mask = torch.zeros(2, 7, dtype=torch.bool)
    mask[:, 5:] = True
    clean = attention(q, k, v, key_padding_mask=mask)
    k[:, :, 5:], v[:, :, 5:] = torch.nan, torch.inf
    leaves = [x.requires_grad_() for x in (q, k, v)]
    for run in (attention, composed_attention):
        out = run(*leaves, key_padding_mask=mask)
        if run is attention:
            assert torch.equal(out, clean)
        found = torch.autograd.grad(out.sum(), leaves)
        assert torch.isfinite(out).all() and all(torch.isfinite(x).all() for x in found)


@pytest.mark.parametrize("masked", [-1e9, -1e30, torch.finfo(torch.float32).min])
def test_composed_rows_of_keys_that_are_all_masked(masked: float) -> None:
    """No score is left of numbers this large: every key weighs the same, gradients included."""
    q, k, v = cases.draw(2, 2, 2, 5, 100, 8, 6)
    mask = torch.full((2, 100), masked)
    mask[1, 3] = 0.0  # one that is not
    mask[0, :40] = -torch.inf
    # The first query sees no key in sequence 0.
    options: dict[str, Any] = {"positions": (torch.arange(5) * 20 + 30, torch.arange(100))}
    gradients = [torch.randn(2, 2, 5, 6), torch.randn(2, 2, 5)]
    found = []
    for dtype, number in ((torch.float32, masked), (torch.float64, -1e30)):
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        added = torch.where(mask == masked, number, mask.double()).to(dtype).requires_grad_()
        options |= {"key_padding_mask": added, "causal": True, "return_lse": True}
        out, lse = composed_attention(*leaves, **options)
        assert not out[0, :, 0].any() and bool((lse[0, :, 0] == -torch.inf).all())
        sent = [x.to(dtype) for x in gradients]
        found.append((out, *torch.autograd.grad([out, lse], [*leaves, added], sent)))
    check_alike("mean", found[0][0][0, :, 2], v[0, :, 40:71].double().mean(1), 100)
    for name, got, want in zip(("out", "q", "k", "v", "mask"), *found, strict=True):
        check_alike(name, got, want, 100)
    assert not found[0][1][0, :, 0].any()


def test_nan_stays_where_it_must() -> None:
    q, k, v = cases.draw(1, 2, 2, 4, 4, 8, 8)
    q[0, 0, 1] = torch.nan
    out = attention(q, k, v)
    assert torch.isnan(out[0, 0, 1]).all()
    assert torch.isfinite(out[0, 1]).all() and torch.isfinite(out[0, 0, [0, 2, 3]]).all()


def test_only_a_table_trains() -> None:
    """D61: q, k and v frozen, a finite difference of the table."""
    scheme = cases.make("t5", 2, 4).double()
    q, k, v = (x.double() for x in cases.draw(1, 2, 2, 6, 6, 4, 4))
    table = scheme.array("relative_attention_bias.weight")
    out = attention(q, k, v, scheme)
    out.square().sum().backward()
    step = 1e-6
    with torch.no_grad():
        sums = []
        for sign in (1, -1):
            table[17, 1] += sign * step
            sums.append(attention(q, k, v, scheme).square().sum())
            table[17, 1] -= sign * step
    assert abs(float(table.grad[17, 1]) - float(sums[0] - sums[1]) / (2 * step)) < 1e-7


def test_threads_do_not_change_a_bit() -> None:
    scheme = cases.make("shaw(k=4)", 4, 16)
    q, k, v = (x.requires_grad_() for x in cases.draw(2, 4, 2, 200, 200, 16, 16))
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = attention(q, k, v, scheme, causal=True)
        results.append([out, *torch.autograd.grad(out.sum(), [q, k, v, *scheme.parameters()])])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_from_several_python_threads() -> None:
    q, k, v = cases.draw(2, 4, 4, 150, 150, 16, 16)
    want = attention(q, k, v, causal=True)
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            if not torch.equal(attention(q, k, v, causal=True), want):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def _in_child(work: Callable[[], bool]) -> bool:
    """What work() says in a forked child; one that hangs is ended, which is False."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if work() else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("text", ["nope", "deberta(buckets=8,max_positions=32)", "sandwich"])
def test_fork_after_use(text: str) -> None:
    """Also where PyTorch's operators make the tables: its threads are gone in the child."""
    q, k, v = cases.draw(2, 4, 4, 150, 150, 16, 16)
    scheme = cases.make(text, 4, 16)
    torch.set_num_threads(2)
    want = attention(q, k, v, scheme)
    torch.randn(400_000).exp()  # with several threads
    assert _in_child(lambda: torch.equal(attention(q, k, v, scheme), want))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_before_anything_else() -> None:
    """Whatever comes first in the child, in the thread that forked and in others."""
    torch.set_num_threads(2)
    x = torch.randn(400_000)
    x.exp()
    wide = position.Alibi(num_heads=8)
    q = torch.randn(1, 8, 300, 16, requires_grad=True)
    scheme = cases.make("deberta(buckets=8,max_positions=32)", 8, 16)
    out = attention(q, q, q, scheme)
    layer = locant.nn.MultiheadAttention(64, 8, batch_first=True)
    words = torch.randn(8, 30, 64)
    cache = locant.KVCache(4, 2, 40_000, 8)

    def backward() -> bool:
        out.sum().backward()
        return q.grad is not None

    def append() -> bool:
        new = torch.randn(4, 2, 50, 8)
        cache.append(new, new, positions=torch.arange(50) + 5)
        return True

    def after_a_thread() -> bool:
        done: list[int] = []
        thread = threading.Thread(
            target=lambda: done.append(attention(q, q, q, scheme).exp().numel())
        )
        thread.start()
        thread.join()
        return len(done) == 1 and attention(q, q, q, scheme).exp().numel() > 0

    first: tuple[Callable[[], bool], ...] = (
        lambda: x.exp().numel() > 0,
        lambda: wide.materialize(torch.arange(300), torch.arange(300)).numel() > 0,
        lambda: layer(words, words, words)[0].numel() > 0,
        backward,
        append,
        after_a_thread,
    )
    for work in first:
        assert _in_child(work)

"""The call itself: layouts, masks, positions, types, threads, and what it refuses."""

from __future__ import annotations

import os
import re
import threading
from functools import partial
from typing import Any

import cases
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tolerance import check_alike, check_close, check_like_plain, check_within, largest

from locant import KVCache, attention, composed_attention, decode, position


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


def draw(b: int, h: int, hk: int, n: int, m: int, d: int, dv: int) -> list[torch.Tensor]:
    """q, k, v in float32."""
    return [torch.randn(b, h, n, d), torch.randn(b, hk, m, d), torch.randn(b, hk, m, dv)]


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
    compare(*draw(2, 4, 2, 5, 11, 8, 6), run=run, **options)


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
    compare(*draw(*shape), **options)


@pytest.mark.parametrize("empty", [(0, 4, 5, 6), (2, 4, 0, 6), (2, 4, 5, 0)])
def test_empty(empty: tuple[int, int, int, int]) -> None:
    b, h, n, m = empty
    q, k, v = (x.requires_grad_() for x in draw(b, h, h, n, m, 8, 8))
    out = attention(q, k, v)
    assert out.shape == (b, h, n, 8) and not out.any()
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
    q, k, v = (x.to(dtype).requires_grad_() for x in draw(2, 4, 4, 33, 33, 8, 8))
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
    q, k, v = (x.requires_grad_() for x in draw(1, 4, 4, 9, 9, 8, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = attention(q, k, v, scheme)
        assert out.dtype == torch.bfloat16
        assert scheme(position.Call(9, 9, 4, 8, 8)).query_rows.rows.dtype == torch.bfloat16
    rounded = [x.bfloat16() for x in (q, k, v)]
    assert torch.equal(out, attention(*rounded, scheme))  # tables as without autocast
    out.sum().backward()
    assert q.grad.dtype == torch.float32
    assert scheme.array("rel_embeddings.weight").grad.dtype == torch.float32


def test_padded_keys_may_hold_anything() -> None:
    q, k, v = draw(2, 4, 4, 5, 7, 8, 8)
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


def test_nan_stays_where_it_must() -> None:
    q, k, v = draw(1, 2, 2, 4, 4, 8, 8)
    q[0, 0, 1] = torch.nan
    out = attention(q, k, v)
    assert torch.isnan(out[0, 0, 1]).all()
    assert torch.isfinite(out[0, 1]).all() and torch.isfinite(out[0, 0, [0, 2, 3]]).all()


def test_only_a_table_trains() -> None:
    """D61: q, k and v frozen, a finite difference of the table."""
    scheme = cases.make("t5", 2, 4).double()
    q, k, v = (x.double() for x in draw(1, 2, 2, 6, 6, 4, 4))
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
    q, k, v = (x.requires_grad_() for x in draw(2, 4, 2, 200, 200, 16, 16))
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        out = attention(q, k, v, scheme, causal=True)
        results.append([out, *torch.autograd.grad(out.sum(), [q, k, v, *scheme.parameters()])])
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_from_several_python_threads() -> None:
    q, k, v = draw(2, 4, 4, 150, 150, 16, 16)
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_use() -> None:
    q, k, v = draw(2, 4, 4, 150, 150, 16, 16)
    torch.set_num_threads(2)
    want = attention(q, k, v)
    child = os.fork()
    if child == 0:
        same = torch.equal(attention(q, k, v), want)
        os._exit(0 if same else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


Q = torch.zeros(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "k must have the dtype of q", lambda: attention(Q, Q.double(), Q)),
        (TypeError, "q must be a tensor", lambda: attention([1], Q, Q)),
        (TypeError, "q must be float32", lambda: attention(Q.int(), Q.int(), Q.int())),
        (
            ValueError,
            r"q must be \[batch, heads, length, size\], got 3",
            lambda: attention(Q[0], Q, Q),
        ),
        (
            ValueError,
            r"k must have the batch and the head size of q",
            lambda: attention(Q, Q[..., :2], Q),
        ),
        (
            ValueError,
            "the heads of k must divide those of q",
            lambda: attention(Q, Q[:, [0, 1, 1]], Q[:, [0, 1, 1]]),
        ),
        (
            ValueError,
            "v must have the batch, heads and length of k",
            lambda: attention(Q, Q, Q[:, :, :2]),
        ),
        (
            ValueError,
            "the last stride of q must be 1",
            lambda: attention(torch.zeros(1, 2, 3, 8)[..., ::2], Q, Q),
        ),
        (ValueError, "window must be 1 or more keys", lambda: attention(Q, Q, Q, window=0)),
        (ValueError, "softcap must be 0", lambda: attention(Q, Q, Q, softcap=-1.0)),
        (ValueError, "scale must be finite", lambda: attention(Q, Q, Q, scale=float("nan"))),
        (
            ValueError,
            r"key_padding_mask must be \[1, 3\] or \[1 or 1, 2 or 1, 3\], got \[1, 4\]",
            lambda: attention(Q, Q, Q, key_padding_mask=torch.zeros(1, 4, dtype=torch.bool)),
        ),
        (
            ValueError,
            r"key_padding_mask must be .*, got \[3\]",
            lambda: attention(Q, Q, Q, key_padding_mask=torch.zeros(3)),
        ),
        (
            ValueError,
            r"key_padding_mask must be .*, got \[1, 1, 1, 3\]",
            lambda: attention(Q, Q, Q, key_padding_mask=torch.zeros(1, 1, 1, 3)),
        ),
        (
            TypeError,
            "key_padding_mask must be a tensor, got list",
            lambda: attention(Q, Q, Q, key_padding_mask=[1] * 3),
        ),
        (
            TypeError,
            "k must be a tensor, got NoneType",
            lambda: attention(Q, None, Q, position.T5(2)),
        ),
        (TypeError, "v must be a tensor, got ndarray", lambda: attention(Q, Q, Q.numpy())),
        *(
            (
                TypeError,
                f"window must be a whole number .* got {re.escape(repr(w))}$",
                partial(attention, Q, Q, Q, window=w),
            )
            for w in (1.5, (1,), (1, 2, 3), "a", torch.tensor(3), (1.5, 2), True, (True, 2))
        ),
        *(
            (
                TypeError,
                f"{name} must be a number, got 'x'",
                partial(attention, Q, Q, Q, **{name: "x"}),
            )
            for name in ("softcap", "scale", "dropout")
        ),
        (
            TypeError,
            "positions must be a tensor of integers, got NoneType",
            lambda: attention(Q, Q, Q, positions=(torch.arange(3), None)),
        ),
        (
            TypeError,
            "positions must be a tensor of integers, got ndarray",
            lambda: attention(Q, Q, Q, positions=torch.arange(3).numpy()),
        ),
        (
            ValueError,
            "positions must be one tensor or a pair of tensors, got a list of 3",
            lambda: attention(Q, Q, Q, positions=[0, 1, 2]),
        ),
        (
            TypeError,
            "cu_seqlens_q must be a tensor of integers, got list",
            lambda: attention(Q, Q, Q, cu_seqlens_q=[0, 3], cu_seqlens_k=torch.tensor([0, 3])),
        ),
        (
            TypeError,
            "key_padding_mask must be bool",
            lambda: attention(Q, Q, Q, key_padding_mask=torch.zeros(1, 3, dtype=torch.int64)),
        ),
        (
            TypeError,
            "attention: positions must be integers",
            lambda: attention(Q, Q, Q, positions=torch.zeros(3)),
        ),
        (ValueError, "q_positions must be", lambda: attention(Q, Q, Q, positions=torch.arange(4))),
        (
            ValueError,
            r"must be from 0 to 2\^31 - 1, got -1",
            lambda: attention(Q, Q, Q, positions=torch.tensor([0, -1, 2])),
        ),
        (
            TypeError,
            r"position must be a module of locant\.position, .* got the text 'alibi'",
            lambda: attention(Q, Q, Q, "alibi"),
        ),
        (
            TypeError,
            r"got the class Alibi; make one: Alibi\(",
            lambda: attention(Q, Q, Q, position.Alibi),
        ),
        (TypeError, "got list", lambda: attention(Q, Q, Q, [position.Alibi(2)])),
        (
            TypeError,
            "Identity must return Terms, got Call",
            lambda: attention(Q, Q, Q, torch.nn.Identity()),
        ),
    ],
)
def test_bad_calls_say_why(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("run", [attention, composed_attention])
@pytest.mark.parametrize("text", ["t5", "kerple", "sandwich", "transformer_xl", "xpos", "rope"])
def test_positions_out_of_range(run: Any, text: str) -> None:
    """Before tables for the distances between them are made."""
    q, scheme = torch.randn(1, 2, 9, 8), cases.make(text, 2, 8)
    for bad in (-1, 2**31, 2**62, 2**63 - 1, -(2**63)):
        at = torch.arange(9)
        at[4] = bad
        with pytest.raises(ValueError, match=rf"positions.* from 0 to 2\^31 - 1, got {bad}"):
            run(q, q, q, scheme, causal=True, positions=at)
        cache = KVCache(1, 2, 9, 8, position=scheme)
        cache.append(q, q)
        for pair in ((at[3:5], torch.arange(9)), (torch.tensor([8]), at)):
            with pytest.raises(ValueError, match=rf"from 0 to 2\^31 - 1, got {bad}"):
                decode(q[:, :, : len(pair[0])], cache, positions=pair)


@pytest.mark.parametrize("run", [attention, composed_attention])
@pytest.mark.parametrize("text", ["kerple", "sandwich", "transformer_xl"])
def test_a_span_too_large_is_refused(run: Any, text: str) -> None:
    q, scheme = torch.randn(1, 2, 2, 8), cases.make(text, 2, 8)
    for last in (2**31 - 1, 2**24):
        message = rf"\[{text}\] the positions .* 16777216 distances, got {last + 1} \(-{last} to 0"
        with pytest.raises(ValueError, match=message):
            run(q, q, q, scheme, causal=True, positions=torch.tensor([0, last]))
    # A window bounds the distances.
    at = torch.tensor([5, 2**31 - 1])
    assert torch.isfinite(run(q, q, q, scheme, window=9, positions=at)).all()
    with pytest.raises(ValueError, match="16777216 distances"):
        position.Call(1, 2**24 + 1).distances()


def test_other_devices_are_composed_with_one_warning() -> None:
    from locant import _composed

    _composed._warned = False
    q = torch.zeros(1, 2, 3, 4, device="meta")
    with pytest.warns(UserWarning, match="composed PyTorch operators"):
        out = attention(q, q, q, cases.make("shaw(k=4)", 2, 4).to("meta"))
    assert out.device.type == "meta" and out.shape == (1, 2, 3, 4)


def test_meta_among_others_is_refused() -> None:
    q = torch.zeros(1, 2, 8, 4)
    other = q.to("meta")
    for k, v in ((other, q), (q, other)):
        with pytest.raises(ValueError, match="must be on the device of q, cpu, got meta"):
            attention(q, k, v)
    with pytest.raises(ValueError, match="k must be on the device of q, meta, got cpu"):
        attention(other, q, q)
    with pytest.raises(ValueError, match=r"position's number .* on the device of q, cpu, got meta"):
        attention(q, q, q, cases.make("t5", 2, 4).to("meta"))
    for scheme in (None, position.Kerple(2)):
        with pytest.raises(ValueError, match=r"positions.* got meta"):
            attention(q, q, q, scheme, positions=torch.arange(8, device="meta"))
    with pytest.raises(ValueError, match=r"position, fire, .* the device of q, meta, got cpu"):
        attention(other, other, other, position.Fire(2))
    with pytest.raises(ValueError, match=r"key_padding_mask .* on the device of q, cpu, got meta"):
        attention(q, q, q, key_padding_mask=torch.zeros(1, 8, dtype=torch.bool, device="meta"))
    attention(q, q, q)  # filterwarnings would raise


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
    q, k, v = (x.double().requires_grad_() for x in draw(2, 4, 2, 21, 21, 8, 8))
    results = []
    for run in (attention, composed_attention):
        torch.manual_seed(3)
        out = run(q, k, v, scheme, causal=True, dropout=0.1)
        results.append(
            [out, *torch.autograd.grad(out.square().sum(), [q, k, v, *scheme.parameters()])]
        )
    for one, other in zip(*results, strict=True):
        check_alike("dropout", one, other, 2 * 21 * 21)


def test_dropout_says_what_it_takes() -> None:
    with pytest.raises(ValueError, match="dropout"):
        attention(Q, Q, Q, dropout=1.0)

"""What a call refuses, and in which words; other devices."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from typing import Any

import cases
import numpy
import pytest
import torch

from locant import KVCache, Terms, attention, composed_attention, decode, position

Q = torch.zeros(1, 2, 3, 4)
MAP = position.clip_map(0, 0)


class Nothing(position.Scheme):
    """A scheme that forgot to return its terms."""

    def terms(self, call: position.Call) -> Any:
        """None."""
        del call


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
        (ValueError, r"window must be from 1 to 2\^63 - 1", lambda: attention(Q, Q, Q, window=0)),
        (ValueError, "softcap must be 0", lambda: attention(Q, Q, Q, softcap=-1.0)),
        *(
            (ValueError, f"{name} must be .*, up to", partial(f, Q, Q, Q, **{name: value}))
            for f in (attention, composed_attention)
            for name, values in (
                ("softcap", (-1.0, 1e39, 1.01e38, float("nan"), float("inf"))),
                ("scale", (2.36e38, float("nan"), float("-inf"))),
            )
            for value in values
        ),
        *(
            (ValueError, "scale / softcap", partial(f, Q, Q, Q, scale=1e28, softcap=1e-3))
            for f in (attention, composed_attention)
        ),
        (ValueError, "scale must be finite", lambda: attention(Q, Q, Q, scale=Fraction(10**400))),
        (
            TypeError,
            "scale has no gradient here",
            lambda: attention(Q, Q, Q, scale=torch.ones((), requires_grad=True)),
        ),
        (
            ValueError,
            "center from",
            lambda: attention(Q, Q, Q, Terms(rotation=torch.full((7,), float("nan")).double())),
        ),
        (
            ValueError,
            "rotation must have one dimension, got 2",
            lambda: attention(Q, Q, Q, Terms(rotation=torch.zeros(1, 7).double())),
        ),
        (
            TypeError,
            r"position's number\.table must be a Tensor, got int",
            lambda: attention(Q, Q, Q, Terms(number=position.NumberPerDistance(3, MAP))),
        ),
        (
            TypeError,
            r"position's rotation must be a Tensor, got int",
            lambda: attention(Q, Q, Q, Terms(rotation=3)),
        ),
        (
            ValueError,
            "number has 1 rows, its index names row -5",
            lambda: composed_attention(
                Q, Q, Q, Terms(number=position.NumberPerDistance(torch.zeros(1, 1), MAP - 5))
            ),
        ),
        (
            ValueError,
            "position's scale_factor must be finite",
            lambda: attention(Q, Q, Q, Terms(scale_factor=10**400)),
        ),
        (
            TypeError,
            r"position's scheme\.parameters must be a Tensor, got int",
            lambda: attention(Q, Q, Q, Terms(scheme=position.SchemeTerm("alibi", 3))),
        ),
        (
            TypeError,
            r"position's number\.index must be a Tensor, got int",
            lambda: composed_attention(
                Q, Q, Q, Terms(number=position.NumberPerDistance(torch.zeros(1, 1), 3))
            ),
        ),
        (
            TypeError,
            "decode: position's rotation must be a Tensor, got int",
            lambda: KVCache(1, 1, 4, 8, position=Terms(rotation=3)),
        ),
        (TypeError, "dropout must be a number", lambda: attention(Q, Q, Q, dropout=None)),
        (
            TypeError,
            "decode: position's scheme must be a SchemeTerm, got str",
            lambda: KVCache(1, 1, 4, 8, position=Terms(scheme="alibi")),
        ),
        (
            TypeError,
            "decode: position's scale_factor must be a number, got 'x'",
            lambda: decode(Q[:, :1], KVCache(1, 1, 4, 4, position=Terms(scale_factor="x"))),
        ),
        (ValueError, "scale must be finite", lambda: attention(Q, Q, Q, scale=10**400)),
        (TypeError, "scale must be a number", lambda: attention(Q, Q, Q, scale=torch.tensor(1j))),
        (
            TypeError,
            "position's number must be a NumberPerDistance, got Tensor",
            lambda: attention(Q, Q, Q, Terms(number=torch.zeros(1))),
        ),
        (
            TypeError,
            "position's scale_factor must be a number, got 'x'",
            lambda: attention(Q, Q, Q, Terms(scale_factor="x")),
        ),
        (
            TypeError,
            "position's scheme must be a SchemeTerm, got str",
            lambda: attention(Q, Q, Q, Terms(scheme="rope")),
        ),
        (
            TypeError,
            "decode: position's value_rows must be a ValuePerDistance, got int",
            lambda: decode(Q[:, :1], KVCache(1, 1, 4, 8, position=Terms(value_rows=3))),
        ),
        (ValueError, "the right of window must", lambda: attention(Q, Q, Q, window=(0, -5))),
        (ValueError, "the left of window must", lambda: attention(Q, Q, Q, window=(2**70, 0))),
        (
            ValueError,
            r"window must be from 1 to 2\^63 - 1",
            lambda: attention(Q, Q, Q, window=2**63),
        ),
        (TypeError, "reset: sequence must be a whole", lambda: KVCache(1, 1, 2, 2).reset("a")),
        (ValueError, "sequence must be from 0 to 0", lambda: KVCache(1, 1, 2, 2).reset(5)),
        (
            TypeError,
            "position must return Terms, got Nothing, which returns NoneType",
            lambda: KVCache(1, 1, 2, 2, position=Nothing()),
        ),
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
            "position must return Terms, got Identity, which returns Call",
            lambda: attention(Q, Q, Q, torch.nn.Identity()),
        ),
        *(
            (
                TypeError,
                rf"attention: position must be a module of locant\.position, .* got {name}, which",
                partial(attention, Q, Q, Q, module),
            )
            for name, module in (
                ("Linear", torch.nn.Linear(2, 2)),
                ("Module", torch.nn.Module()),
                ("LSTM", torch.nn.LSTM(2, 2)),
                ("MultiheadAttention", torch.nn.MultiheadAttention(4, 2)),
            )
        ),
        *(
            (
                TypeError,
                f"attention: causal must be a bool, got {re.escape(repr(causal))}$",
                partial(attention, Q, Q, Q, causal=causal, window=window),
            )
            for causal in ("yes", None, 2, 1.0, [], torch.ones(1, dtype=torch.bool))
            for window in (None, (1, 1), 2)
        ),
    ],
)
def test_bad_calls_say_why(error: type[Exception], message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("causal", [True, 1, torch.tensor(True), numpy.True_, numpy.int64(1)])
def test_what_counts_as_a_bool(causal: Any) -> None:
    q = torch.randn(1, 2, 5, 4)
    assert torch.equal(attention(q, q, q, causal=causal), attention(q, q, q, causal=True))
    assert not torch.equal(attention(q, q, q, causal=causal), attention(q, q, q, causal=False))


class Wrapped(torch.nn.Module):
    """No Scheme, but it takes a Call and returns what one of ours does."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.inner, self.error = position.Alibi(2), error

    def forward(self, call: position.Call) -> position.Terms:
        if self.error is not None:
            raise self.error
        return self.inner(call)


def test_other_modules_may_return_terms() -> None:
    q = torch.randn(1, 2, 5, 4)
    assert torch.equal(attention(q, q, q, Wrapped()), attention(q, q, q, position.Alibi(2)))
    with pytest.raises(ValueError, match="its own"):
        attention(q, q, q, Wrapped(ValueError("its own")))
    with pytest.raises(TypeError, match="got Wrapped") as found:
        attention(q, q, q, Wrapped(TypeError("its own")))
    assert "its own" in str(found.value.__cause__)


@pytest.mark.parametrize("text", cases.IDS)
def test_parameters_of_other_shapes_are_named(text: str) -> None:
    """One row, head or channel less; some calls can do without."""
    q = torch.randn(1, 3, 70, 4)
    scheme = cases.make(text, 3, 4)
    named = list(scheme.named_parameters())
    if scheme.embeds:
        return
    refused = 0
    for name, parameter in named:
        module, _, last = name.rpartition(".")
        owner = scheme.get_submodule(module)
        smaller = parameter.detach()[tuple(slice(0, max(1, n - 1)) for n in parameter.shape)]
        setattr(owner, last, torch.nn.Parameter(smaller))
        shapes = f"{list(parameter.shape)}, got {list(smaller.shape)}"
        try:
            attention(q, q, q, scheme, causal=True)
        except ValueError as error:
            refused += 1
            assert f"attention: {name} of {type(scheme).__name__} must be {shapes}" in str(error)
        setattr(owner, last, parameter)
    attention(q, q, q, scheme, causal=True)
    assert refused or not named


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


def test_dropout_says_what_it_takes() -> None:
    with pytest.raises(ValueError, match="dropout"):
        attention(Q, Q, Q, dropout=1.0)

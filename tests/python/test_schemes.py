"""Every scheme of the registry against the dense oracle and against the C++ code."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import cases
import oracle
import pytest
import torch
from cases import CASES, IDS, Case
from tolerance import check_alike, check_close, largest

from locant import KVCache, attention, composed_attention, position

B, H, D = 2, 3, 6


def draw(dtype: torch.dtype, queries: int, keys: int, heads: int = H) -> list[torch.Tensor]:
    """q, k, v and a gradient of out."""
    shapes = [(B, H, queries, D), (B, heads, keys, D), (B, heads, keys, D), (B, H, queries, D)]
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]


def calls(case: Case) -> list[bool]:
    """The values of causal that a case is for."""
    return {"both": [False, True], "causal": [True], "full": [False]}[case.calls]


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("run", [attention, composed_attention])
def test_agrees_with_the_oracle(case: Case, dtype: torch.dtype, run: Any) -> None:
    """Output, log-sum-exp and every gradient, with more keys than queries and without."""
    for causal in calls(case):
        for queries, keys in ((13, 13), (5, 19)):
            scheme = cases.make(case.text, H, D).to(dtype)
            q, k, v, gradient = draw(dtype, queries, keys)
            leaves = [x.requires_grad_() for x in (q, k, v)]
            learned = list(scheme.parameters()) if not scheme_embeds(case.text) else []
            out, lse = run(q, k, v, scheme, causal=causal, return_lse=True)
            found = torch.autograd.grad(out, leaves + learned, gradient)

            wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
            numbers = cases.doubles(scheme)
            want, want_lse, magnitude = oracle.attend(
                *wide, lambda *a, f=case.formula, p=numbers: f(p, *a), causal=causal
            )
            check_close("out", out, want, magnitude, keys)
            check_alike("lse", lse, want_lse, keys)
            ends = wide + (list(numbers.values()) if learned else [])
            expected = torch.autograd.grad(want, ends, gradient.double())
            names = ["q", "k", "v", *numbers]
            floor = largest(*expected[:3])
            for name, one, other in zip(names, found, expected, strict=False):
                # A table's element sums over every pair of tokens.
                sums = keys if name in "qkv" else B * queries * keys
                check_alike(f"gradient of {name}", one, other, sums, floor)


def scheme_embeds(text: str) -> bool:
    """Whether it acts on embeddings alone."""
    return text.startswith(("sinusoidal", "learned"))


def test_every_scheme_of_the_registry_has_a_case_and_a_class() -> None:
    names = position.scheme_names()
    assert len(names) >= 15
    for name in names:
        assert any(text.partition("(")[0] == name for text in IDS), f"{name} has no case"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_agrees_with_the_registry(case: Case) -> None:
    """Same additions and gradients as through the C++ scheme's own tables."""
    scheme = cases.make(case.text, H, D).double()
    twin = position.Registered(scheme.specification, H, scheme.head_size, scheme.width)
    twin = twin.double()
    assert list(twin.state_dict()) == list(scheme.state_dict())
    twin.load_state_dict(scheme.state_dict())
    for causal in calls(case):
        q, k, v, gradient = draw(torch.float64, 11, 17)
        results = []
        for one in (scheme, twin):
            out = attention(q, k, v, one, causal=causal)
            learned = list(one.parameters()) if out.requires_grad else []
            assert out.requires_grad == (bool(learned) and not one.embeds)
            found = torch.autograd.grad(out, learned, gradient) if learned else ()
            results.append([out, *found])
        for n, (one, other) in enumerate(zip(*results, strict=True)):
            check_alike(f"{case.text} {n}", one, other, 11 * 17 * B, largest(*results[1]))


def test_texts_read_back() -> None:
    for text in IDS:
        scheme = position.make(text, num_heads=H, head_size=D)
        again = position.make(scheme.specification, num_heads=H, head_size=D)
        assert again.specification == scheme.specification
        assert repr(scheme).startswith(type(scheme).__name__)


@pytest.mark.parametrize(
    ("scheme", "names"),
    [
        (position.T5(4), {"relative_attention_bias.weight": [32, 4]}),
        (position.Mpnet(4, buckets=16), {"relative_attention_bias.weight": [16, 4]}),
        (position.Learned(8, rows=5), {"position_embeddings.weight": [5, 8]}),
        (
            position.Deberta(2, 4, norm_rel_ebd="layer_norm"),
            {
                "rel_embeddings.weight": [512, 8],
                "LayerNorm.weight": [8],
                "LayerNorm.bias": [8],
                "pos_key_proj.weight": [8, 8],
                "pos_key_proj.bias": [8],
                "pos_query_proj.weight": [8, 8],
                "pos_query_proj.bias": [8],
            },
        ),
        (
            position.TransformerXl(2, 4),
            {"r_w_bias": [2, 4], "r_r_bias": [2, 4], "r_net.weight": [8, 8]},
        ),
        (
            position.Shaw(4, k=2),
            {"relative_positions_keys": [5, 4], "relative_positions_values": [5, 4]},
        ),
        (position.Kerple(3), {"bias_p": [3, 1, 1], "bias_a": [3, 1, 1]}),
        (position.Alibi(3), {}),
        (position.Rope(8), {}),
    ],
)
def test_parameters_have_the_names_of_checkpoints(scheme: Any, names: dict[str, Any]) -> None:
    assert {name: list(p.shape) for name, p in scheme.named_parameters()} == names


def test_deberta_shares_the_projections_it_is_given() -> None:
    key, query = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    scheme = position.Deberta(2, 4, share_att_key=True, key_proj=key, query_proj=query)
    assert scheme.array("key_proj.weight") is key.weight
    x = torch.randn(1, 2, 5, 4)
    attention(x, x, x, scheme).sum().backward()
    assert key.weight.grad is not None and query.bias.grad is not None


@pytest.mark.parametrize("edge", ["hf", "microsoft"])
def test_deberta_edges(edge: str) -> None:
    """Row 0 or 1 far to the right of the query: x = i - j <= -512."""
    scheme = position.Deberta(1, 2, edge=edge)
    index = scheme.terms(position.Call(1, 1)).query_rows.index
    rows = position.look_up(index, torch.tensor([0, 128, -128, 511, 512, 2000, -511, -2000]))
    far = 0 if edge == "hf" else 1
    assert rows.tolist() == [256, 128, 384, 1, far, far, 511, 511]


@pytest.mark.parametrize("text", ["t5", "alibi", "kerple", "scalar_table(clip=5)", "sandwich"])
def test_materialize_is_what_attention_adds(text: str) -> None:
    scheme = cases.make(text, H, D).double()
    i, j = torch.tensor([4, 9, 30]), torch.tensor([0, 4, 7, 29])
    bias = scheme.materialize(i, j)
    assert bias.shape == (H, 3, 4)
    q, k = torch.zeros(1, H, 3, D).double(), torch.zeros(1, H, 4, D).double()
    v = torch.eye(4).double().expand(1, H, 4, 4)
    out = attention(q, k, v, scheme, positions=(i, j))
    check_alike("weights", out[0], bias.softmax(2), 4)


@pytest.mark.parametrize(
    "text", ["shaw(k=2)", "transformer_xl(style=xlnet)", "deberta(buckets=8,max_positions=16)"]
)
def test_materialize_with_queries_and_keys(text: str) -> None:
    scheme = cases.make(text, H, D).double()
    q, k, v, _ = draw(torch.float64, 5, 7)
    i, j = torch.arange(2, 7), torch.arange(7)
    with pytest.raises(ValueError, match="give q="):
        scheme.materialize(i, j)
    added = scheme.materialize(i, j, q=q, k=k)
    terms = scheme.terms(position.Call(5, 7, H, D, D))
    plain = (q @ k.transpose(2, 3)) * (D**-0.5 * terms.scale_factor)
    weights = (plain + added).softmax(3)
    check_alike(
        "out",
        attention(q, k, v, scheme, positions=(i, j))
        if terms.value_rows is None
        else attention(q, k, v, position.Terms(query_rows=terms.query_rows)),
        weights @ v,
        7,
    )


def test_materialize_refuses_rotations() -> None:
    with pytest.raises(ValueError, match="turns queries and keys"):
        position.Rope(4).materialize(torch.arange(3), torch.arange(3))


def test_embeddings() -> None:
    rows = position.Sinusoidal(8).embed(torch.tensor([[0, 1], [3, 100]]))
    assert rows.shape == (2, 2, 8)
    printed = torch.tensor([0.841471, 0.540302, 0.099833, 0.995004, 0.01, 0.99995, 0.001, 1.0])
    assert torch.allclose(rows[0, 1], printed, atol=5e-7)
    learned = position.Learned(4, rows=6, first_row=2)
    assert torch.equal(
        learned.embed(torch.tensor([0, 3])), learned.array("position_embeddings.weight")[[2, 5]]
    )
    with pytest.raises(ValueError, match=r"needs length 5, the table has rows for 4"):
        learned.embed(torch.tensor([4]))
    again = position.Learned(4, rows=6, beyond="repeat")
    for each in (learned, again):
        with pytest.raises(ValueError, match=r"positions must be 0 or more, got -1"):
            each.embed(torch.tensor([3, -1]))
    assert torch.equal(again.embed(torch.tensor([9])), again.embed(torch.tensor([5])))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: position.make("alibii"), "there is no scheme 'alibii'; there are"),
        (lambda: position.make("t5(bucket=3)"), "bucket"),
        (lambda: position.T5(4, buckets=1), "buckets"),
        (lambda: position.Rope(6, width=8), "rotary width"),
        (lambda: position.Deberta(2, 4, pos_att_type="p2p"), "p2p"),
        (
            lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, position.MusicTransformer(4)),
            "causal mask",
        ),
        (
            lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, position.TransformerXl(2, 4)),
            "causal mask",
        ),
        (lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, position.Kerple(5)), "num_heads=5"),
        (
            lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, position.T5(5)),
            "T5 was made for num_heads=5, the call has 2 heads",
        ),
        (
            lambda: attention(*[torch.zeros(1, 2, 3, 4)] * 3, position.ScalarTable(5)),
            "ScalarTable was made for num_heads=5, the call has 2",
        ),
        (lambda: position.T5(0), "^T5: num_heads must be 1 or more, got 0$"),
        (lambda: position.Alibi(-2), "^Alibi: num_heads must be 1 or more, got -2$"),
        (lambda: position.T5(4, width=0), "^T5: width must be 1 or more, got 0$"),
        (lambda: position.Sinusoidal(0), "^Sinusoidal: width must be 1 or more, got 0$"),
        (lambda: position.make("rope", head_size=0), "^make: head_size must be 1 or more, got 0$"),
        (lambda: position.make("shaw", value_size=-3), "^make: value_size must be 0 or more"),
        (lambda: position.make("t5", layer=-1), "^make: layer must be 0 or more, got -1$"),
        (lambda: position.make("t5", width=0), "^make: width must be 1 or more, got 0$"),
        (
            lambda: attention(
                *[torch.zeros(1, 2, 9, 4)] * 3, position.Shaw(4, k=3, outside="refuse")
            ),
            "rows for the distances -3 to 3",
        ),
        (lambda: position.Xpos(8).terms(position.Call(1, 10**6)), "single precision"),
    ],
)
def test_bad_schemes_say_why(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


_FLOATS = torch.arange(3.0)
_WHOLE = torch.arange(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: position.T5(2.5), "T5: num_heads must be an int, got 2.5"),
        (lambda: position.T5("4"), "T5: num_heads must be an int, got '4'"),
        (lambda: position.T5(True), "T5: num_heads must be an int, got True"),
        (lambda: position.Mpnet(None), "Mpnet: num_heads must be an int, got None"),
        (lambda: position.T5(4, width=2.5), "T5: width must be an int, got 2.5"),
        (lambda: position.Rope(8.0), "Rope: head_size must be an int, got 8.0"),
        (lambda: position.Registered(None), "Registered: specification must be text .* got None"),
        (lambda: position.make(None), "make: specification must be text such as .*, got None"),
        (lambda: position.make("t5", num_heads="4"), "make: num_heads must be an int, got '4'"),
        (lambda: position.make("t5", layer=1.5), "make: layer must be an int, got 1.5"),
        (
            lambda: position.Learned(4).embed(_FLOATS),
            "Learned.embed: positions must be a tensor of integers, got torch.float32",
        ),
        (
            lambda: position.Sinusoidal(4).embed([0, 1]),
            "Sinusoidal.embed: positions must be a tensor of integers, got list",
        ),
        (
            lambda: position.T5(2).materialize(_FLOATS, _WHOLE),
            "materialize: q_positions must be a tensor of integers, got torch.float32",
        ),
        (
            lambda: position.Fire(2).materialize(_WHOLE, _WHOLE == 1),
            "materialize: k_positions must be a tensor of integers, got torch.bool",
        ),
    ],
)
def test_wrong_types_are_named(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}$"):
        make()


def test_a_table_that_heads_share_serves_any_number_of_heads() -> None:
    q = torch.randn(1, 4, 3, 4)
    for scheme in (position.T5(3, heads="shared"), position.T5(1), position.ScalarTable(1)):
        assert attention(q, q, q, scheme).shape == q.shape


@pytest.mark.parametrize("text", ["rope", "rope(width=4)", "xpos", "sandwich", "sandwich(width=4)"])
@pytest.mark.parametrize("registered", [False, True])
def test_the_head_size_is_that_of_the_call(text: str, registered: bool) -> None:
    made: Any = position.make(text, num_heads=2, head_size=8)
    if registered:
        made = position.Registered(text, 2, 8)
    for size in (16, 4):
        x = torch.zeros(1, 2, 3, size)
        with pytest.raises(
            ValueError, match=f"made for head_size=8, the call has head size {size}"
        ):
            attention(x, x, x, made)
        if not registered:
            with pytest.raises(
                ValueError, match=f"made for head_size=8, the call has head size {size}"
            ):
                KVCache(1, 2, 20, size, position=made)
    x = torch.zeros(1, 2, 3, 8)
    assert not attention(x, x, x, made).any()


# --- public bugs (tests/bugs.md) ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_D07_slopes_are_never_half_precision(dtype: torch.dtype) -> None:
    scheme = position.Alibi(12).to(dtype)
    q, k, v = (torch.zeros(1, 12, 300, 8, dtype=dtype) for _ in range(3))
    _, lse = attention(q, k, v, scheme, causal=True, return_lse=True)
    away = torch.arange(300, dtype=torch.float64)
    want = torch.logsumexp(-(0.5**0.5) * away, 0)  # the ninth of twelve
    assert abs(float(lse[0, 8, -1] - want)) < 1e-6


def test_D13_autocast_does_not_reach_the_angles() -> None:
    q, k, v = (torch.randn(1, 2, 40, 128) for _ in range(3))
    scheme, at = position.Rope(128), torch.arange(40)
    with torch.autocast("cpu", torch.bfloat16):
        near = attention(q, k, v, scheme, positions=at)
        far = attention(q, k, v, scheme, positions=at + 4056)  # to 4095
    assert near.dtype == torch.bfloat16
    # Only differences count, so the two differ by the rounding of turned queries and keys alone.
    assert float((near - far).abs().max()) < 0.05
    exact = attention(q, k, v, scheme, positions=at + 4056)
    assert float((far - exact).abs().max()) < 0.05


@pytest.mark.parametrize("name", sorted(position._CLASSES))
def test_defaults_are_those_of_the_registry(name: str) -> None:
    """A class made without options is what the command makes of the scheme's name."""
    sizes = {"num_heads": 4, "head_size": 16, "width": 64}
    made, registered = position.make(name, **sizes), position.Registered(name, **sizes)
    assert type(made) is position._CLASSES[name]
    assert made.specification == registered.specification
    shapes = [{n: p.shape for n, p in m.named_parameters()} for m in (made, registered)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("text", ["sinusoidal", "learned(rows=64)"])
def test_positions_that_nobody_adds_are_missed_once(text: str) -> None:
    q = torch.randn(1, 2, 5, 8)
    scheme = position.make(text, num_heads=2, head_size=8, width=16)
    with pytest.warns(UserWarning, match=r"is added to embeddings, x \+ scheme.embed"):
        attention(q, q, q, scheme)
    other = position.make(text, num_heads=2, head_size=8, width=16)
    other.embed(torch.arange(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention(q, q, q, scheme)
        attention(q, q, q, other)
        new = position.make(text, num_heads=2, head_size=8, width=16)
        KVCache(1, 2, 8, 8, position=new)
        again = copy.deepcopy(new)
        new.embed(torch.arange(5))
        attention(q, q, q, again)


class Rows(torch.nn.Module):
    """To export what a scheme adds to embeddings."""

    def __init__(self, scheme: Any) -> None:
        super().__init__()
        self.scheme = scheme

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        """Rows at positions."""
        return self.scheme.embed(at)


@pytest.mark.parametrize("text", ["sinusoidal", "learned(rows=64)"])
def test_rows_compiled(text: str) -> None:
    scheme = position.make(text, num_heads=2, head_size=8, width=16)
    run = torch.compile(lambda at: scheme.embed(at) * 2, backend="aot_eager", fullgraph=True)
    at = torch.arange(5)
    rows = run(at)
    q = torch.randn(1, 2, 5, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attention(q, q, q, scheme)  # compiled calls count, too
    assert torch.equal(rows, scheme.embed(at) * 2)
    exported = torch.export.export(Rows(scheme), (at,))
    assert torch.equal(exported.module()(at), scheme.embed(at))

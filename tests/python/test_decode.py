"""Decoding over a cache against attention over the whole sequence."""

from __future__ import annotations

from typing import Any

import cases
import pytest
import torch
from tolerance import check_alike, check_like_plain

from locant import KVCache, Terms, attention, decode, position

B, H, HK, D, N = 2, 4, 2, 8, 21


def draw(dtype: torch.dtype) -> list[torch.Tensor]:
    """q, k and v of whole sequences."""
    return [torch.randn(B, heads, N, D, dtype=torch.float64).to(dtype) for heads in (H, HK, HK)]


def cache_of(scheme: Any, paged: bool, dtype: torch.dtype) -> KVCache:
    """An empty cache of one kind or the other."""
    return KVCache(B, HK, 24, D, position=scheme, page_size=5 if paged else None, dtype=dtype)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    "text", [text for text in cases.IDS if not text.startswith(("learned", "sinusoidal"))]
)
def test_steps_are_rows_of_the_whole(text: str, paged: bool) -> None:
    """A prompt of 13, then token by token (D16, D34, D45, D46, D51 for every scheme)."""
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, paged, torch.float64)
    prompt = 13
    cache.append(k[:, :, :prompt], v[:, :, :prompt])
    for n in range(prompt, N):
        cache.append(k[:, :, n : n + 1], v[:, :, n : n + 1])
        out, lse = decode(q[:, :, n : n + 1], cache, return_lse=True)
        whole, whole_lse = attention(
            q[:, :, : n + 1],
            k[:, :, : n + 1],
            v[:, :, : n + 1],
            scheme,
            causal=True,
            return_lse=True,
        )
        check_alike(f"step {n}", out, whole[:, :, n:], n)
        check_alike(f"lse {n}", lse, whole_lse[:, :, n:], n)
    assert cache.lengths.tolist() == [N, N]


@pytest.mark.parametrize("held", [N, 2])
@pytest.mark.parametrize(
    "text",
    [
        "rope",
        "xpos",
        "rope(scaling=dynamic,factor=4,original=8)",
        "kerple",
        "sandwich",
        "t5",
        "transformer_xl",
        "deberta(buckets=8,max_positions=16)",
    ],
)
def test_schemes_lowered_by_the_registry(text: str, held: int) -> None:
    """A cache knows how their keys turn; 8 queries see as far as tables must reach."""
    scheme = position.Registered(text, num_heads=H, head_size=D, width=H * D).double()
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    q, k, v = (x[:, :, :held] for x in draw(torch.float64))
    q = torch.randn(B, H, 8, D, dtype=torch.float64)
    cache = cache_of(scheme, True, torch.float64)
    cache.append(k[:, :, : held - 1], v[:, :, : held - 1])
    cache.append(k[:, :, held - 1 :], v[:, :, held - 1 :])
    want = attention(q, k, v, scheme, causal=True)
    check_alike("out", decode(q, cache), want, held)


@pytest.mark.parametrize(
    "text", ["rope", "xpos", "alibi", "rope(scaling=yarn,factor=4,original=8)"]
)
def test_all_of_the_terms_of_a_registered_scheme_count(text: str) -> None:
    q, k, v = draw(torch.float64)
    none = torch.zeros(0, dtype=torch.float64)
    terms = Terms(scheme=position.SchemeTerm(text, none, H * D, 0), scale_factor=2.0)
    cache = cache_of(terms, False, torch.float64)
    cache.append(k, v)
    want = attention(q, k, v, terms, causal=True)
    check_alike("out", decode(q[:, :, -1:], cache), want[:, :, -1:], N)
    if text != "alibi":  # whose cache looks at them in a call
        table = position.NumberPerDistance(torch.zeros(1, 1), position.clip_map(0, 0))
        with pytest.raises(ValueError, match="number and scheme exclude each other"):
            cache_of(terms._replace(number=table), False, torch.float64)
        three = terms._replace(scheme=position.SchemeTerm(text, torch.zeros(3).double(), H * D, 0))
        with pytest.raises(ValueError, match="has no parameters, got 3 numbers"):
            cache_of(three, False, torch.float64)


@pytest.mark.parametrize("registered", [False, True])
def test_scales_that_leave_single_precision_are_refused(registered: bool) -> None:
    """xPos' scales are around the middle of the cache, wherever the tokens stand."""
    xpos: Any = position.Registered("xpos", num_heads=HK, head_size=D)
    xpos = xpos if registered else position.Xpos(D)
    q, k, v = draw(torch.float32)
    q = q[:, :HK]
    cache = cache_of(xpos, False, torch.float32)
    far = torch.arange(N) + 34_000
    cache.append(k, v, positions=far)
    got = decode(q[:, :, -1:], cache)
    exact = attention(
        *(x.double() for x in (q, k, v)), position.Xpos(D), causal=True, positions=far
    )
    check_alike("far", got, exact[:, :, -1:], N + 34_000 // 512)
    with pytest.raises(ValueError, match="beyond 34739 of their center, position 12, got 36000 in"):
        cache.append(k[:, :, :3], v[:, :, :3], positions=far[:3] + 2000)
    assert cache.lengths.tolist() == [N, N]
    with pytest.raises(ValueError, match="got 50000 in q_positions"):
        decode(q[:, :, :1], cache, positions=torch.tensor([50_000]))


@pytest.mark.parametrize("text", ["rope", "xpos", "alibi", "t5"])
def test_moved_keys(text: str) -> None:
    """Keys that were turned by where they stood cannot stand elsewhere; others can."""
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, False, torch.float64)
    stood = torch.arange(N) + torch.tensor([[3], [0]])
    cache.append(k, v, positions=stood)
    places = torch.zeros(B, 24, dtype=torch.int64)
    places[:, :N] = stood
    q_positions = stood[:, -1:]
    last = q[:, :, -1:]
    want = attention(last, k, v, scheme, causal=True, positions=(q_positions, stood))
    check_alike("stood", decode(last, cache, positions=(q_positions, places)), want, N)
    places[1, 4:N] += 7
    moved = (q_positions + 7, places)
    if cache.rotation is not None:
        with pytest.raises(ValueError, match="expected 4 for token 4 of sequence 1, got 11"):
            decode(last, cache, positions=moved)
        return
    want = attention(last, k, v, scheme, causal=True, positions=(moved[0], places[:, :N]))
    check_alike("moved", decode(last, cache, positions=moved), want, N)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("text", ["t5", "rope", "deberta(buckets=8,max_positions=16)"])
def test_types(dtype: torch.dtype, text: str) -> None:
    scheme = cases.make(text, H, D)
    q, k, v = draw(dtype)
    cache = cache_of(scheme, True, dtype)
    cache.append(k, v)
    out = decode(q[:, :, -3:], cache)
    assert out.dtype == dtype
    whole = attention(
        *(x.double() for x in (q, k, v)), cases.make(text, H, D).double(), causal=True
    )
    if dtype == torch.float32:
        check_alike("out", out, whole[:, :, -3:], N)
    else:
        plain = attention(q, k, v, scheme, causal=True)[:, :, -3:]
        check_like_plain("out", out, plain, whole[:, :, -3:])


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("text", ["t5", "rope(scaling=dynamic,factor=2,original=8)"])
def test_unequal_lengths(text: str, paged: bool) -> None:
    """D25: every sequence has its own length, and its own frequencies."""
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, paged, torch.float64)
    lengths = [7, 12]
    cache.append(k[:, :, :12], v[:, :, :12], counts=torch.tensor(lengths))
    last = torch.stack([q[b, :, n - 1 : n] for b, n in enumerate(lengths)])
    out = decode(last, cache)
    for b, n in enumerate(lengths):
        whole = attention(
            q[b : b + 1, :, :n], k[b : b + 1, :, :n], v[b : b + 1, :, :n], scheme, causal=True
        )
        check_alike(f"sequence {b}", out[b : b + 1], whole[:, :, -1:], n)


FOLLOWING = [
    "rope(scaling=dynamic,factor=4,original=32)",
    "rope(scaling=longrope,factor=4,original=32,short_factor=1/1.5/2/3,long_factor=1/3/9/20)",
]


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("text", FOLLOWING)
@pytest.mark.parametrize("told", ["both", "queries", "append"])
def test_frequencies_follow_the_largest_position(text: str, paged: bool, told: str) -> None:
    """Of each sequence, queries and keys, as in attention; not the number of tokens held."""
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, paged, torch.float64)
    assert not cache.keys_turned
    lengths = [7, 12]
    own = torch.arange(12) * torch.tensor([[1], [2]]) + torch.tensor([[3], [60]])
    at = own if told != "queries" else torch.arange(12).expand(2, 12)
    last = torch.stack([own[b, n - 2 : n] for b, n in enumerate(lengths)])
    counts = torch.tensor(lengths)
    cache.append(
        k[:, :, :12], v[:, :, :12], counts=counts, positions=own if told == "append" else None
    )
    everywhere = torch.full((B, 24), 2**40)
    everywhere[:, :12] = torch.where(torch.arange(12) < counts[:, None], at, -1)
    for positions in {
        "both": [(last, everywhere)],
        "queries": [last],
        "append": [None, last, (last, everywhere)],
    }[told]:
        out = decode(q[:, :, :2], cache, positions=positions)
        for b, n in enumerate(lengths):
            inputs = [x[b : b + 1, :, :m] for x, m in ((q, 2), (k, n), (v, n))]
            want = attention(*inputs, scheme, causal=True, positions=(last[b], at[b, :n]))
            check_alike(f"sequence {b}", out[b : b + 1], want, n)
    # One row of positions for all sequences: each ends where its own last token stands.
    one = decode(q[:, :, :1], cache, positions=(torch.tensor([5]), torch.arange(24) * 3))
    for b, n in enumerate(lengths):
        inputs = [x[b : b + 1, :, :m] for x, m in ((q, 1), (k, n), (v, n))]
        options: dict[str, Any] = {"positions": (torch.tensor([5]), torch.arange(n) * 3)}
        check_alike("one", one[b : b + 1], attention(*inputs, scheme, causal=True, **options), n)


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    "text", [text for text in cases.IDS if not text.startswith(("learned", "sinusoidal"))]
)
@pytest.mark.parametrize("held", [[3, N], [2, 1]])
def test_more_queries_than_tokens_count_from_zero(text: str, paged: bool, held: list[int]) -> None:
    """As in attention(causal=True), each sequence by its own length."""
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    queries = 8
    cache = cache_of(scheme, paged, torch.float64)
    cache.append(k, v, counts=torch.tensor(held))
    out = decode(q[:, :, :queries], cache)
    for b, n in enumerate(held):
        part = [x[b : b + 1] for x in (q[:, :, :queries], k[:, :, :n], v[:, :, :n])]
        want = attention(*part, scheme, causal=True)
        check_alike(f"sequence {b}", out[b : b + 1], want, n)


def test_compiled_callers_get_the_same() -> None:
    scheme = cases.make(FOLLOWING[0], H, D)
    q, k, v = draw(torch.float32)
    cache = cache_of(scheme, False, torch.float32)
    cache.append(k, v, counts=torch.tensor([17, N]))
    last, at = torch.tensor([[80], [100]]), torch.arange(24) * 3

    def step(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return decode(q + 1, cache) * 2, decode(q, cache, positions=(last, at))

    one = q[:, :, :1]
    compiled = torch.compile(step, backend="eager")(one)
    assert all(torch.equal(x, y) for x, y in zip(compiled, step(one), strict=True))


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("text", [*cases.KINDS, "xpos"])
def test_positions_of_append_are_remembered(text: str, paged: bool) -> None:
    scheme = cases.make(text, H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, paged, torch.float64)
    at = torch.arange(N) * 2 + 5
    for first, last in ((0, 3), (3, 4), (4, N)):
        new = slice(first, last)
        with torch.inference_mode(last == 4):  # what is remembered then serves any mode
            cache.append(k[:, :, new], v[:, :, new], positions=at[new] if first else None)
    at[:3] = torch.arange(3)
    want = attention(q, k, v, scheme, causal=True, window=9, positions=at)[:, :, -4:]
    for positions in (None, at[-4:], (at[-4:], torch.nn.functional.pad(at, (0, 24 - N)))):
        out = decode(q[:, :, -4:], cache, window=9, positions=positions)
        check_alike(str(positions), out, want, N)
    cache.reset(0)
    cache.append(k[:, :, :6], v[:, :, :6], counts=torch.tensor([6, 0]))
    out = decode(q[:, :, 5:6], cache)
    want = attention(q[:, :, 5:6], k[:, :, :6], v[:, :, :6], scheme, causal=True)
    check_alike("after a reset", out[:1], want[:1], N)
    cache.reset()
    cache.append(k, v, positions=torch.arange(N))
    assert cache.positions is None  # where they stand without


def test_options() -> None:
    scheme = cases.make("alibi", H, D).double()
    q, k, v = draw(torch.float64)
    cache = cache_of(scheme, False, torch.float64)
    cache.append(k, v)
    mask = torch.zeros(B, 24, dtype=torch.bool)
    mask[0, :4] = True
    for options in (
        {"window": 5},
        {"window": (6, 0)},
        {"softcap": 2.0},
        {"scale": 1.0},
        {"key_padding_mask": mask},
    ):
        whole = dict(options)
        if "key_padding_mask" in whole:
            whole["key_padding_mask"] = mask[:, :N]
        want = attention(q, k, v, scheme, causal=True, **whole)[:, :, -2:]
        check_alike(str(options), decode(q[:, :, -2:], cache, **options), want, N)


def test_the_capacity_need_not_be_whole_pages() -> None:
    """20 tokens in pages of 8: no 21st, and one number for each of the 20."""
    scheme = cases.make("rope", H, D).double()
    q, k, v = draw(torch.float64)
    k, v = k[:, :, :20], v[:, :, :20]
    at = torch.arange(0, 60, 3)
    mask = torch.arange(20) < torch.tensor([[2], [5]])
    found = []
    for page_size in (None, 8):
        cache = KVCache(B, HK, 20, D, position=scheme, page_size=page_size, dtype=torch.float64)
        cache.append(k, v, positions=at)
        options: dict[str, Any] = {"key_padding_mask": mask, "positions": (at[-2:], at)}
        found.append(decode(q[:, :, :2], cache, **options))
        with pytest.raises(ValueError, match="gets 1 tokens, more than the capacity 20"):
            cache.append(k[:, :, :1], v[:, :, :1])
        for name, wrong in (
            ("key_padding_mask", torch.zeros(B, 24, dtype=torch.bool)),
            ("positions", (at[:2], torch.arange(24))),
        ):
            with pytest.raises(ValueError, match=rf"{name}.*20.*got .*24"):
                decode(q[:, :, :2], cache, **{name: wrong})
    assert torch.equal(*found)
    check_alike("out", found[1], attention(q[:, :, :2], k, v, scheme, causal=True, **options), 20)


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("paged", [False, True])
def test_positions_where_nothing_is_held_are_not_read(paged: bool, made: bool) -> None:
    scheme = cases.make("kerple", H, D).double()
    if not made:
        twin = position.Registered("kerple", H, D).double()
        twin.load_state_dict(scheme.state_dict())
        scheme = twin
    q, k, v = draw(torch.float64)
    lengths, at = [5, 12], torch.full((B, 24), 2**40)
    at[:, :12] = 10**9 + torch.arange(12) * torch.tensor([[2], [3]])
    at[0, 5:] = -1
    cache = cache_of(scheme, paged, torch.float64)
    cache.append(k[:, :, :12], v[:, :, :12], counts=torch.tensor(lengths))
    last = torch.tensor([[10**9 + 8], [10**9 + 33]])
    out = decode(q[:, :, :1], cache, positions=(last, at))
    for b, n in enumerate(lengths):
        options: dict[str, Any] = {"positions": (last[b], at[b, :n]), "causal": True}
        inputs = [x[b : b + 1, :, :m] for x, m in ((q, 1), (k, n), (v, n))]
        want = attention(*inputs, scheme, **options)
        check_alike(f"sequence {b}", out[b : b + 1], want, n)


def test_pages_come_back() -> None:
    cache = KVCache(2, 1, 8, 4, page_size=2, pages=4)
    x = torch.randn(2, 1, 4, 4)
    cache.append(x, x)
    with pytest.raises(ValueError, match="0 pages left, 2 are needed"):
        cache.append(x[:, :, :1], x[:, :, :1])
    assert cache.lengths.tolist() == [4, 4]
    cache.reset(0)
    cache.append(x, x, counts=torch.tensor([1, 1]))
    assert cache.lengths.tolist() == [1, 5]


def test_a_refused_append_takes_no_page() -> None:
    cache = KVCache(2, 2, 16, 8, page_size=4, pages=4)
    x = torch.randn(2, 2, 20, 8)
    cache.append(x[:, :, :1], x[:, :, :1], counts=torch.tensor([0, 1]))
    free, table = list(cache._free), cache.block_table.clone()
    assert len(free) == 3
    k = x[:, :, :6]
    refused: list[tuple[str, tuple[Any, Any], dict[str, Any]]] = [
        ("holds 0 and gets 20 tokens, more than the capacity 16", (x, x), {"counts": [20, 0]}),
        (r"counts\[1\] must be from 0 to 6, got -3", (k, k), {"counts": [6, -3]}),
        (r"counts\[0\] must be from 0 to 6, got 7", (k, k), {"counts": [7, 0]}),
        (r"counts must be \[2\], got \[3\]", (k, k), {"counts": [1, 1, 1]}),
        (r"k must be \[2, 2, 6, 8\], got \[2, 1, 6, 8\]", (k[:, :1], k), {}),
        (r"k must be \[2, 2, 6, 8\], got \[1, 2, 6, 8\]", (k[:1], k[:1]), {}),
        (r"v must be \[2, 2, 6, 8\], got \[2, 2, 6, 5\]", (k, k[..., :5]), {}),
        (r"v must be \[2, 2, 6, 8\], got \[2, 2, 5, 8\]", (k, k[:, :, :5]), {}),
        ("from 0 to 2.31 - 1, got -1", (k, k), {"positions": [0, 1, 2, 3, 4, -1]}),
        (r"positions must be", (k, k), {"positions": [0, 1]}),
        ("3 pages left, 4 are needed", (x[:, :, :12], x[:, :, :12]), {"counts": [12, 7]}),
    ]
    for message, tokens, more in refused:
        with pytest.raises(ValueError, match=message):
            cache.append(*tokens, **{name: torch.tensor(n) for name, n in more.items()})
        assert cache._free == free and torch.equal(cache.block_table, table), message
    assert cache.lengths.tolist() == [0, 1]
    with pytest.raises(TypeError, match=r"append: counts must be integers, got torch\.float32"):
        cache.append(k, k, counts=torch.tensor([1.0, 1.0]))
    cache.append(k, k, counts=torch.tensor([6, 6]))
    assert cache.lengths.tolist() == [6, 7] and not cache._free


def test_bad_calls_say_why() -> None:
    cache = KVCache(1, 1, 4, 4)
    x = torch.randn(1, 1, 3, 4)
    cache.append(x, x)
    with pytest.raises(ValueError, match="capacity"):
        cache.append(x, x)
    assert cache.lengths.tolist() == [3]
    with pytest.raises(TypeError, match="cache's dtype"):
        decode(x.double(), cache)
    with pytest.raises(ValueError, match="q must be"):
        decode(x[0], cache)
    with pytest.raises(ValueError, match="q must be on the CPU"):
        decode(x.to("meta"), cache)
    with pytest.raises(ValueError, match="window must be from 1"):
        decode(x, cache, window=0)
    with pytest.raises(ValueError, match="must be 1 or more"):
        KVCache(1, 0, 4, 4)
    with pytest.raises(TypeError, match=r"KVCache: position must be a module .* text 'rope'"):
        KVCache(1, 1, 4, 4, position="rope")  # type: ignore[arg-type]


X = torch.zeros(1, 1, 3, 4)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (TypeError, "decode: q must be a tensor, got NoneType", lambda c: decode(None, c)),
        (ValueError, "q must have the cache's batch, 1, got 2", lambda c: decode(X[[0, 0]], c)),
        (TypeError, "decode: cache must be a KVCache, got NoneType", lambda c: decode(X, None)),
        (ValueError, "decode: positions .* a tuple of 1", lambda c: decode(X, c, positions=(X,))),
        (
            TypeError,
            "decode: positions .* integers, got list",
            lambda c: decode(X, c, positions=([1], None)),
        ),
        (TypeError, r"decode: window must be .* got 1\.5", lambda c: decode(X, c, window=1.5)),
        (TypeError, r"decode: window must be .* got \(1,\)", lambda c: decode(X, c, window=(1,))),
        (TypeError, "decode: scale must be a number, got 'x'", lambda c: decode(X, c, scale="x")),
        (TypeError, "decode: softcap must be a number", lambda c: decode(X, c, softcap=[1])),
        (
            ValueError,
            r"decode: key_padding_mask must be \[1, 4\] or \[1 or 1, 1 or 1, 4\], got \[4\]",
            lambda c: decode(X, c, key_padding_mask=torch.zeros(4)),
        ),
        (
            TypeError,
            "decode: key_padding_mask must be a tensor, got list",
            lambda c: decode(X, c, key_padding_mask=[1]),
        ),
        (
            ValueError,
            "pages must be 1 or more, got -1",
            lambda c: KVCache(1, 1, 4, 4, page_size=2, pages=-1),
        ),
        (
            ValueError,
            "pages must be 1 or more, got 0",
            lambda c: KVCache(1, 1, 4, 4, page_size=2, pages=0),
        ),
        (ValueError, "pages need page_size, got pages 3", lambda c: KVCache(1, 1, 4, 4, pages=3)),
        (ValueError, "value_size must be 1 or more, got -3", lambda c: KVCache(1, 1, 4, 4, -3)),
        (ValueError, "value_size must be 1 or more, got 0", lambda c: KVCache(1, 1, 4, 4, 0)),
        (
            TypeError,
            r"capacity must be a whole number, got 20\.5",
            lambda c: KVCache(1, 1, 20.5, 4),
        ),
        (ValueError, "heads must be 1 or more, got 0", lambda c: KVCache(1, 0, 4, 4)),
    ],
)
def test_bad_arguments_are_named(error: type[Exception], message: str, call: Any) -> None:
    cache = KVCache(1, 1, 4, 4)
    cache.append(X, X)
    with pytest.raises(error, match=message):
        call(cache)


@pytest.mark.parametrize("page_size", [None, 2])
def test_bad_tokens_are_not_stored(page_size: int | None) -> None:
    cache = KVCache(1, 1, 4, 4, page_size=page_size)
    x, at = torch.randn(1, 1, 3, 4), torch.arange(3)
    pages = None if cache.block_table is None else cache.block_table.clone()
    bad: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "k must be on the CPU, .* got meta", lambda: cache.append(x.to("meta"), x)),
        (ValueError, "v must be on the CPU, .* got meta", lambda: cache.append(x, x.to("meta"))),
        (
            ValueError,
            "positions must be on the CPU",
            lambda: cache.append(x, x, positions=at.to("meta")),
        ),
        (ValueError, "counts must be on the CPU", lambda: cache.append(x, x, counts=at.to("meta"))),
        (TypeError, "k must be a tensor, got list", lambda: cache.append([1], x)),  # type: ignore[arg-type]
        (TypeError, "v must have the cache's dtype", lambda: cache.append(x, x.double())),
        (ValueError, "k must be .* got 3 dimensions", lambda: cache.append(x[0], x)),
    ]
    for error, message, call in bad:
        with pytest.raises(error, match=message):
            call()
    assert cache.lengths.tolist() == [0]
    if pages is not None:
        assert torch.equal(cache.block_table, pages)
    with pytest.raises(TypeError, match="dtype must be"):
        KVCache(1, 1, 4, 4, dtype=torch.float16)

"""Modules against torch.nn's own, with and without positions."""

from __future__ import annotations

import copy
from typing import Any

import cases
import pytest
import torch
from tolerance import check_alike, largest
from torch import nn

from locant import nn as locant_nn
from locant import position


def with_weights_of(theirs: nn.Module, ours: nn.Module) -> None:
    """state_dict of torch's module, by name."""
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    ours.load_state_dict(theirs.state_dict())


def compare(
    ours: Any, theirs: Any, inputs: list[torch.Tensor], call_ours: Any, call_theirs: Any
) -> None:
    """Outputs and gradients of inputs and parameters."""
    results = []
    for module, call in ((ours, call_ours), (theirs, call_theirs)):
        leaves = [x.detach().requires_grad_() for x in inputs]
        out = call(module, *leaves)
        parameters = dict(sorted(module.named_parameters()))
        found = torch.autograd.grad(out.square().sum(), leaves + list(parameters.values()))
        results.append([out, *found])
    wide = largest(*results[1])
    for one, other in zip(*results, strict=True):
        # Both are float32: twice the tolerance of one.
        check_alike("module", one, other.double(), 2 * 16 * 64, wide)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("dims", [{}, {"kdim": 5, "vdim": 7}])
def test_multihead_attention(batch_first: bool, dims: dict[str, int]) -> None:
    theirs = nn.MultiheadAttention(16, 4, batch_first=batch_first, **dims)
    ours = locant_nn.MultiheadAttention(16, 4, batch_first=batch_first, **dims)
    with_weights_of(theirs, ours)
    shape = (2, 9) if batch_first else (9, 2)
    inputs = [
        torch.randn(*shape, 16),
        torch.randn(*shape, dims.get("kdim", 16)),
        torch.randn(*shape, dims.get("vdim", 16)),
    ]
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[1, 6:] = True
    compare(
        ours,
        theirs,
        inputs,
        lambda m, q, k, v: m(q, k, v, key_padding_mask=mask)[0],
        lambda m, q, k, v: m(q, k, v, key_padding_mask=mask, need_weights=False)[0],
    )
    causal = nn.Transformer.generate_square_subsequent_mask(9)
    if not dims:
        compare(
            ours,
            theirs,
            inputs[:1],
            lambda m, x: m(x, is_causal=True)[0],
            lambda m, x: m(x, x, x, attn_mask=causal, need_weights=False)[0],
        )


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(norm_first: bool, activation: str) -> None:
    options: dict[str, Any] = {
        "dim_feedforward": 32,
        "dropout": 0.0,
        "activation": activation,
        "norm_first": norm_first,
        "batch_first": True,
    }
    theirs = nn.TransformerEncoderLayer(16, 4, **options)
    ours = locant_nn.TransformerEncoderLayer(16, 4, **options)
    with_weights_of(theirs, ours)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[0, 7:] = True
    # torch zeroes padded rows on some of its paths: compare what is no padding.
    compare(
        ours,
        theirs,
        [torch.randn(2, 9, 16)],
        lambda m, x: m(x, src_key_padding_mask=mask)[:, :7],
        lambda m, x: m(x, src_key_padding_mask=mask)[:, :7],
    )


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer(norm_first: bool) -> None:
    options: dict[str, Any] = {"dim_feedforward": 32, "dropout": 0.0, "norm_first": norm_first}
    theirs = nn.TransformerDecoderLayer(16, 4, **options)
    ours = locant_nn.TransformerDecoderLayer(16, 4, **options)
    with_weights_of(theirs, ours)
    causal = nn.Transformer.generate_square_subsequent_mask(6)
    compare(
        ours,
        theirs,
        [torch.randn(6, 2, 16), torch.randn(9, 2, 16)],
        lambda m, x, y: m(x, y, tgt_is_causal=True),
        lambda m, x, y: m(x, y, tgt_mask=causal),
    )


def test_positions_act_and_are_shared() -> None:
    shared = position.T5(4, buckets=8, max_distance=10)
    layers = nn.ModuleList(
        locant_nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True, position=shared)
        for _ in range(2)
    )
    assert len([n for n, _ in layers.named_parameters() if "relative_attention_bias" in n]) == 1
    assert "0.self_attn.position.relative_attention_bias.weight" in layers.state_dict()
    x = torch.randn(2, 9, 16)
    before = x
    for layer in layers:
        before = layer(before)
    before.square().sum().backward()
    assert shared.array("relative_attention_bias.weight").grad.abs().sum() > 0
    with torch.no_grad():
        shared.array("relative_attention_bias.weight").normal_(0, 2)
    after = x
    for layer in layers:
        after = layer(after)
    assert not torch.allclose(before, after)
    # D35: one table acts in every layer, also in the second alone.
    assert not torch.allclose(layers[1](x), copy.deepcopy(layers[1]).requires_grad_()(x) * 0)


def test_cross_attention_has_no_positions() -> None:
    """D32: another table, the same output."""
    layer = locant_nn.MultiheadAttention(16, 4, batch_first=True, position=cases.make("t5", 4, 4))
    x, y = torch.randn(2, 5, 16), torch.randn(2, 9, 16)
    before, _ = layer(x, y)
    with torch.no_grad():
        layer.position.array("relative_attention_bias.weight").normal_(0, 3)
    assert torch.equal(layer(x, y)[0], before)
    assert not torch.equal(layer(x, y, positions=(torch.arange(5), torch.arange(9)))[0], before)


def test_without_a_batch() -> None:
    layer = locant_nn.MultiheadAttention(8, 2, position=position.Alibi(2))
    x = torch.randn(5, 8)
    assert torch.allclose(layer(x)[0], layer(x[:, None])[0][:, 0])


def test_refusals() -> None:
    layer = locant_nn.MultiheadAttention(8, 2)
    x = torch.randn(5, 1, 8)
    with pytest.raises(ValueError, match="never made"):
        layer(x, need_weights=True)
    with pytest.raises(ValueError, match="dense attn_mask"):
        layer(x, attn_mask=torch.zeros(5, 5))
    with pytest.raises(ValueError, match="num_heads must divide"):
        locant_nn.MultiheadAttention(8, 3)
    with pytest.raises(ValueError, match="activation"):
        locant_nn.TransformerEncoderLayer(8, 2, activation="tanhh")
    for make in (
        locant_nn.MultiheadAttention,
        locant_nn.TransformerEncoderLayer,
        locant_nn.TransformerDecoderLayer,
    ):
        with pytest.raises(ValueError, match="the layer's 2 heads, got T5 for 4"):
            make(8, 2, position=position.T5(4))
        with pytest.raises(TypeError, match=r"position must be a module .* got the text 't5'"):
            make(8, 2, position="t5")
        with pytest.raises(TypeError, match="got the class T5"):
            make(8, 2, position=position.T5)
        make(8, 2, position=position.Rope(4))


X = torch.zeros(2, 5, 16)
BAD: dict[str, tuple[type[Exception], str, Any]] = {
    "channels": (ValueError, r"must have 16 channels, .* got \[2, 5, 12\]", X[..., :12]),
    "dtype": (TypeError, "must have the dtype of the weights, .*32, got .*64", X.double()),
    "words": (TypeError, "must have the dtype of the weights, .*32, got .*int64", X.long()),
    "device": (ValueError, "must be on the device of the weights, cpu, got meta", X.to("meta")),
    "list": (TypeError, "must be a tensor, got list", [1.0]),
    "dimensions": (ValueError, "must have 2 or 3 dimensions, got 4", X[None]),
}


@pytest.mark.parametrize(("error", "message", "bad"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("norm_first", [False, True])
def test_wrong_inputs_are_named(
    error: type[Exception], message: str, bad: Any, norm_first: bool
) -> None:
    layer = locant_nn.MultiheadAttention(16, 4, batch_first=True)
    for place, name in enumerate(("query", "key", "value")):
        inputs = [X, X, X]
        inputs[place] = bad
        with pytest.raises(error, match=f"^MultiheadAttention: {name} {message}"):
            layer(*inputs)
    options: dict[str, Any] = {"batch_first": True, "norm_first": norm_first}
    encoder = locant_nn.TransformerEncoderLayer(16, 4, 32, **options)
    with pytest.raises(error, match=f"^TransformerEncoderLayer: src {message}"):
        encoder(bad)
    decoder = locant_nn.TransformerDecoderLayer(16, 4, 32, **options)
    with pytest.raises(error, match=f"^TransformerDecoderLayer: tgt {message}"):
        decoder(bad, X)
    with pytest.raises(error, match=f"^TransformerDecoderLayer: memory {message}"):
        decoder(X, bad)


@pytest.mark.parametrize("norm_first", [False, True])
def test_missing_inputs_are_named(norm_first: bool) -> None:
    none: Any = None
    with pytest.raises(TypeError, match=r"^MultiheadAttention: query must be .* got NoneType"):
        locant_nn.MultiheadAttention(16, 4)(none)
    with pytest.raises(TypeError, match=r"Layer: src must be a tensor, got NoneType"):
        locant_nn.TransformerEncoderLayer(16, 4, 32, norm_first=norm_first)(none)
    decoder = locant_nn.TransformerDecoderLayer(16, 4, 32, norm_first=norm_first)
    with pytest.raises(TypeError, match=r"Layer: tgt must be a tensor, got NoneType"):
        decoder(none, X)
    with pytest.raises(TypeError, match=r"Layer: memory must be a tensor, got NoneType"):
        decoder(X, none)


def test_inputs_that_do_not_fit_are_named() -> None:
    for batch_first in (True, False):
        one = X[:1] if batch_first else X[:, :1]
        n = 2 if batch_first else 5
        layer = locant_nn.MultiheadAttention(16, 4, batch_first=batch_first)
        with pytest.raises(ValueError, match=f"key must have the batch of query, {n}, got 1"):
            layer(X, one)
        with pytest.raises(ValueError, match="key must have the 3 dimensions of query, got 2"):
            layer(X, X[0])
        with pytest.raises(ValueError, match="value must have the batch and length of key, got"):
            layer(X, X, X[:, :3])
        decoder = locant_nn.TransformerDecoderLayer(16, 4, 32, batch_first=batch_first)
        with pytest.raises(ValueError, match=f"memory must have the batch of tgt, {n}, got 1"):
            decoder(X, one)
    with pytest.raises(ValueError, match="key_padding_mask must be"):
        layer(X, key_padding_mask=torch.zeros(1, 1, dtype=torch.bool))


def test_autocast_takes_other_types() -> None:
    layer = locant_nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(X.bfloat16()).shape == X.shape
        with pytest.raises(ValueError, match="src must have 16 channels"):
            layer(X[..., :8].bfloat16())


def test_layers_are_compiled_whole() -> None:
    torch._dynamo.reset()
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "position": position.T5(4)}
    encoder = locant_nn.TransformerEncoderLayer(16, 4, 32, **options)
    decoder = locant_nn.TransformerDecoderLayer(16, 4, 32, **options)
    x = torch.randn(2, 5, 16)

    def both(x: torch.Tensor) -> torch.Tensor:
        return decoder(x, encoder(x), tgt_is_causal=True)

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), both(x))

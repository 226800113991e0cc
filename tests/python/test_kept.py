"""What is kept between calls serves them all, whatever the call was that made it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import cases
import hf_models
import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

import locant
from locant import KVCache, attention, composed_attention, decode, position
from locant.hf._disentangled import shared_rows

B, H, L, D = 1, 2, 6, 4
Context = Callable[[], Any]
MODES: dict[str, Context] = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "fake": lambda: FakeTensorMode(allow_non_fake_inputs=True),
    "float64": contextlib.nullcontext,
}
PLACES = {**MODES, "meta": lambda: torch.device("meta")}


def draw(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """The same q, k and v every time."""
    generator = torch.Generator().manual_seed(7)
    return [
        torch.randn(B, H, L, D, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)
    ]


def trained(scheme: Any, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Output and all gradients of a call."""
    inputs = draw(dtype)
    learned = [] if scheme.embeds else list(scheme.parameters())
    out = attention(*inputs, scheme, causal=True)
    return [out, *torch.autograd.grad(out.square().sum(), [*inputs, *learned])]


def check_same(got: list[Tensor], want: list[Tensor]) -> None:
    assert len(got) == len(want) > 1
    for one, other in zip(got, want, strict=True):
        assert type(one) is type(other) is Tensor and torch.equal(one, other)


# --- schemes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", cases.IDS)
def test_a_scheme_after_another_call(text: str, mode: str) -> None:
    want = trained(cases.make(text, H, D))
    scheme = cases.make(text, H, D)
    inputs = draw(torch.float64 if mode == "float64" else torch.float32)
    with MODES[mode]():
        attention(*inputs, scheme, causal=True)
    check_same(trained(scheme), want)
    if mode == "float64":
        check_same(
            trained(scheme.double(), torch.float64),
            trained(cases.make(text, H, D).double(), torch.float64),
        )


@pytest.mark.filterwarnings("ignore:.* is added to embeddings")
@pytest.mark.parametrize("mode", ["inference", "fake", "meta"])
@pytest.mark.parametrize("text", cases.IDS)
def test_a_scheme_made_elsewhere(text: str, mode: str) -> None:
    """Its own constants are plain tensors; parameters are what the mode makes of parameters."""
    want = cases.make(text, H, D)
    with PLACES[mode]():
        scheme = position.make(text, num_heads=H, head_size=D)
    for name, parameter in want.named_parameters():
        module, _, last = name.rpartition(".")
        scheme.get_submodule(module).register_parameter(last, parameter)
    check_same(trained(scheme), trained(want))


TRANSFORMS: dict[str, Callable[[Any, Tensor], Any]] = {
    "grad": lambda call, q: torch.func.grad(lambda x: call(attention, x).sum())(q),
    "vmap": lambda call, q: torch.func.vmap(lambda x: call(composed_attention, x))(q[None]),
    "jvp": lambda call, q: torch.func.jvp(lambda x: call(composed_attention, x), (q,), (q,)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("text", cases.IDS)
def test_a_scheme_after_a_transformed_call(text: str, transform: str) -> None:
    want = trained(cases.make(text, H, D))
    scheme = cases.make(text, H, D)
    q = draw()[0].detach()
    TRANSFORMS[transform](lambda run, x: run(x, x, x, scheme, causal=True), q)
    assert scheme.kept is None or not torch._C._functorch.is_functorch_wrapped_tensor(
        scheme.kept[1]
    )
    check_same(trained(scheme), want)


@pytest.mark.parametrize("text", [*cases.KINDS, "xpos"])
def test_a_scheme_after_a_compiled_call(text: str) -> None:
    torch._dynamo.reset()
    scheme = cases.make(text, H, D)
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, scheme, causal=True), fullgraph=True, backend="aot_eager"
    )
    compiled(*draw())
    check_same(trained(scheme), trained(cases.make(text, H, D)))


@pytest.mark.parametrize("mode", ["inference", "no_grad", "autocast"])
@pytest.mark.parametrize("text", ["rope", "rope(scaling=dynamic,factor=2,original=8)", "xpos"])
def test_a_scheme_after_decoding(text: str, mode: str) -> None:
    """A cache keeps turned keys, its scheme what they were turned by."""
    scheme = cases.make(text, H, D)
    q, k, v = (x.detach() for x in draw())
    with MODES[mode]():
        cache = KVCache(B, H, L, D, position=scheme)
        cache.append(k, v)
        decode(q[:, :, -1:], cache)
    check_same(trained(scheme), trained(cases.make(text, H, D)))


@pytest.mark.parametrize("pages", [None, 2])
@pytest.mark.parametrize("mode", ["inference", "fake", "meta"])
@pytest.mark.parametrize("text", ["t5", "rope", "xpos"])
def test_a_cache_made_elsewhere(text: str, mode: str, pages: int | None) -> None:
    """Tokens are appended, and all forgotten, in another mode than it was made in."""
    scheme = cases.make(text, H, D)
    q, k, v = (x.detach() for x in draw())
    with PLACES[mode]():
        made = KVCache(B, H, 2 * L, D, position=scheme, page_size=pages)
    with torch.inference_mode(mode == "inference"):
        made.append(k, v)
    fresh = KVCache(B, H, 2 * L, D, position=scheme, page_size=pages)
    fresh.append(k, v)
    for forgotten in (False, True):
        found = []
        for cache in (made, fresh):
            if forgotten:
                cache.reset()
            cache.append(k, v)
            found.append(decode(q, cache))
        assert type(found[0]) is Tensor and torch.equal(*found)


# --- modules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["inference", "no_grad", "autocast"])
@pytest.mark.parametrize("text", ["t5", "xpos"])
def test_multihead_attention_after_another_call(text: str, mode: str) -> None:
    x = torch.randn(3, L, H * D)
    layer = locant.nn.MultiheadAttention(
        H * D, H, batch_first=True, position=cases.make(text, H, D)
    )
    fresh = copy.deepcopy(layer)
    with MODES[mode]():
        layer(x)
    found = []
    for one in (layer, fresh):
        out, _ = one(x)
        found.append([out, *torch.autograd.grad(out.square().sum(), list(one.parameters()))])
    check_same(*found)


# --- models of transformers -----------------------------------------------------------------------

LENGTH = 12


def run(model: Any, ids: Tensor) -> Tensor:
    """The last hidden states, or what the model gives in their place."""
    if model.config.is_encoder_decoder:
        return model(input_ids=ids, decoder_input_ids=ids[:, :5]).logits
    return model(input_ids=ids)[0]


def learned(model: Any) -> list[Tensor]:
    """Output and gradients in training, which the models are made for without dropout."""
    out, gradients = hf_models.values_and_gradients(
        model.train(), lambda m: run(m, hf_models.tokens(2, LENGTH))
    )
    return [out, *gradients.values()]


def accelerated(name: str) -> Any:
    """A model that shares nothing with those of other tests."""
    shared_rows.cache_clear()
    return hf_models.accelerated(hf_models.make(name))


@pytest.mark.parametrize("mode", ["inference", "no_grad", "autocast", "float64"])
@pytest.mark.parametrize("name", hf_models.MODELS)
def test_a_model_after_another_call(name: str, mode: str) -> None:
    want = learned(accelerated(name))
    model = accelerated(name)
    ids = hf_models.tokens(2, LENGTH)
    with MODES[mode]():
        run(copy.deepcopy(model).double() if mode == "float64" else model, ids)
    check_same(learned(model), want)


@pytest.mark.parametrize("mode", ["inference", "fake", "meta"])
@pytest.mark.parametrize("name", hf_models.MODELS)
def test_a_model_accelerated_elsewhere(name: str, mode: str) -> None:
    want = learned(accelerated(name))
    model = hf_models.make(name)
    shared_rows.cache_clear()
    with PLACES[mode]():
        locant.accelerate(model)
    check_same(learned(model), want)


@pytest.mark.parametrize("name", ["mpnet", "deberta v3"])
def test_a_model_after_a_compiled_call(name: str) -> None:
    torch._dynamo.reset()
    want = learned(accelerated(name))
    model = accelerated(name)
    ids = hf_models.tokens(2, LENGTH)
    torch.compile(run, backend="eager")(model, ids)
    check_same(learned(model), want)


def test_another_model_after_inference() -> None:
    """Rows by distance are shared by all models of a kind."""
    want = learned(accelerated("deberta v3"))
    first = accelerated("deberta v3")
    with torch.inference_mode():
        run(first, hf_models.tokens(2, LENGTH))
    other = hf_models.accelerated(hf_models.make("deberta v3"))
    check_same(learned(other), want)


def test_frozen_models_after_inference() -> None:
    """In evaluation, with projected rows kept: the gradient of the input alone."""
    found = []
    for first in (torch.inference_mode, contextlib.nullcontext):
        model = accelerated("deberta v3").requires_grad_(False)
        with first():
            run(model, hf_models.tokens(2, LENGTH))
        x = torch.randn(2, LENGTH, hf_models.WIDTH, generator=torch.Generator().manual_seed(1))
        out = model(inputs_embeds=x.requires_grad_())[0]
        found.append([out, *torch.autograd.grad(out.square().sum(), [x])])
    check_same(*found)


def test_generation_before_training() -> None:
    want = learned(accelerated("t5"))
    model = accelerated("t5")
    model.generate(hf_models.tokens(2, LENGTH), max_new_tokens=4, do_sample=False)  # under no_grad
    with torch.inference_mode():
        model.generate(hf_models.tokens(2, LENGTH), max_new_tokens=4, do_sample=False)
    check_same(learned(model), want)

"""`locant.accelerate` and `locant.restore`: what they say, what they leave, what dropout does."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from functools import partial
from typing import Any

import hf_models
import pytest
import torch
import transformers
from hf_models import accelerated, make, padded, tokens
from tolerance import check_alike
from torch import Tensor, nn

import locant

NAMES = list(hf_models.MODELS)
FAMILIES = ["t5", "umt5", "mpnet", "deberta", "deberta v2", "deberta v3"]


def inputs(name: str, batch: int = 2, length: int = 12) -> dict[str, Tensor]:
    """For a model of this name."""
    more = {}
    if name.endswith("t5"):
        more["decoder_input_ids"] = tokens(batch, length - 3, seed=1)
    return {"input_ids": tokens(batch, length), **more}


def output(model: Any, name: str, **more: Any) -> Tensor:
    """The first of what the model returns, in evaluation without gradients."""
    with torch.no_grad():
        return model(**inputs(name), **more)[0]


EACH = [(name, "eager") for name in NAMES] + [(name, "sdpa") for name in NAMES if "t5" in name]


@pytest.mark.parametrize("name, attention", EACH)
def test_restore_undoes_it(name: str, attention: str) -> None:
    model = make(name, attention)
    before = copy.deepcopy(model.state_dict())
    kinds = [type(m) for m in model.modules()]
    want, text, config = output(model, name), repr(model), model.config.to_dict()
    report = locant.accelerate(model)
    assert report.replaced and not report.left_alone
    changed = output(model, name)
    assert not torch.equal(changed, want)  # the kernel adds in another order
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert model.config.to_dict() == config  # nothing of it is saved
    replaced = locant.restore(model)
    assert replaced >= len(report.replaced)
    assert [type(m) for m in model.modules()] == kinds
    assert repr(model) == text
    assert not any(key.startswith("_locant") for m in model.modules() for key in m.__dict__)
    assert torch.equal(output(model, name), want)
    assert locant.restore(model) == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_twice_is_once(name: str) -> None:
    model = make(name)
    first, second = locant.accelerate(model), locant.accelerate(model)
    assert first.replaced == second.replaced
    assert not second.left_alone
    locant.restore(model)
    assert all(not type(m).__name__.startswith("Locant") for m in model.modules())


def test_the_report_is_for_people() -> None:
    text = str(locant.accelerate(make("t5")))
    assert "locant.accelerate(T5ForConditionalGeneration)" in text
    assert "replaced: 6 T5Attention" in text
    assert "encoder.block.0.layer.0.SelfAttention" in text
    assert "left alone: nothing" in text


def test_what_is_left_alone_says_why() -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    class Mine(T5Attention):
        pass

    bert = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=8,
        )
    )  # fmt: skip
    model = make("t5 encoder")
    model.block = nn.ModuleList(
        [bert, nn.MultiheadAttention(8, 2), make("deberta", talking_head=True)]
    )
    model.encoder.block[1].layer[0].SelfAttention.__class__ = Mine
    report = locant.accelerate(model)
    assert [done.name for done in report.replaced] == ["encoder.block.0.layer.0.SelfAttention"]
    why = {done.kind: done.text for done in report.left_alone}
    assert why["Mine"] == "a subclass of T5Attention may compute something else"
    assert why["BertSelfAttention"] == "not of a family that Locant knows"
    assert why["MultiheadAttention"] == "not of a family that Locant knows"
    assert why["DisentangledSelfAttention"] == "talking heads mix the scores of all heads"
    assert "T5LayerSelfAttention" not in why
    assert "Mine: a subclass" in str(report)
    own = make("mpnet")
    attention = own.mpnet.encoder.layer[0].attention.attn
    attention.forward = attention.forward  # as libraries do that move weights about
    (left,) = locant.accelerate(own).left_alone
    assert left.text == "somebody has given this one a forward of its own"
    assert torch.isfinite(output(own, "mpnet")).all()
    assert str(locant.accelerate(nn.Linear(2, 2))).count("nothing") == 2
    with pytest.raises(TypeError, match=r"accelerate: model must be a torch\.nn\.Module, got str"):
        locant.accelerate("t5")  # type: ignore[arg-type]


def test_a_model_half_replaced_computes_the_same() -> None:
    for name in ("t5", "umt5", "mpnet", "deberta", "deberta v3"):
        model = make(name)
        want = output(copy.deepcopy(model).double(), name)
        other = copy.deepcopy(model)
        attention = [m for m in other.modules() if type(m).__name__.endswith("Attention")]
        known = [
            m for m in attention if not any("Attention" in type(c).__name__ for c in m.children())
        ]
        kind = type(known[-1])
        known[-1].__class__ = type("Mine", (kind,), {})
        report = locant.accelerate(other)
        assert report.replaced and report.left_alone
        got = output(other, name)
        hf_models.check_values(name, got, want, hf_models.sums(model, 24))


@pytest.mark.parametrize("name", ["t5", "umt5", "mpnet", "deberta", "deberta v3"])
@pytest.mark.parametrize("which", [0, -1])
def test_a_part_restored_leaves_a_model_that_computes_the_same(name: str, which: int) -> None:
    model = make(name)
    want = output(copy.deepcopy(model).double(), name)
    other = copy.deepcopy(model)
    locant.accelerate(other)
    assert locant.restore(attention_of(other)[which]) == 1
    got = output(other, name)
    hf_models.check_values(name, got, want, hf_models.sums(model, 24))
    for lengths in ([12, 7], [5, 0], [8]):  # one sequence and no mask would broadcast
        ids, mask = padded(12, lengths, "left" if which else "right", model.config.pad_token_id)
        call = {"input_ids": ids, "attention_mask": mask}
        if name.endswith("t5"):
            call["decoder_input_ids"] = tokens(len(lengths), 9, seed=1)
        with torch.no_grad():
            want = copy.deepcopy(model).double()(**call)[0]
            got = other(**call)[0]
        seen = mask.bool() if got.shape[1] == 12 else slice(None)
        if 0 in lengths:  # what such a sequence gives is the type's lowest number's business
            got, want, seen = got[:1], want[:1], seen[:1] if isinstance(seen, Tensor) else seen
        hf_models.check_values(name, got[seen], want[seen], hf_models.sums(model, 24))


@pytest.mark.filterwarnings("ignore:locant. .* own attention")
@pytest.mark.parametrize("which", [0, 1])
def test_attention_weights_of_a_part_restored_are_all_there(which: int) -> None:
    model = make("t5 encoder", "eager")
    other = hf_models.accelerated(model)
    locant.restore(attention_of(other)[which])
    with torch.no_grad():
        want = model(**inputs("t5 encoder"), output_attentions=True).attentions
        got = other(**inputs("t5 encoder"), output_attentions=True).attentions
    assert len(got) == len(want) == 2
    for a, b in zip(got, want, strict=True):
        check_alike("weights", a, b, 100)


@pytest.mark.parametrize("name", ["mpnet", "deberta", "deberta v3"])
@pytest.mark.parametrize("first", [False, True])
def test_layers_may_be_wrapped(name: str, first: bool) -> None:
    class Around(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, *arguments: Any, **more: Any) -> Any:
            return self.inner(*arguments, **more)

    model = make(name)
    want = output(copy.deepcopy(model).double(), name)
    if not first:
        locant.accelerate(model)
    layers = model.base_model.encoder.layer
    layers[1] = Around(layers[1])
    if first:
        locant.accelerate(model)
    hf_models.check_values(name, output(model, name), want, hf_models.sums(model, 24))


@pytest.mark.filterwarnings("ignore:locant. .* own attention")
@pytest.mark.parametrize("name", ["mpnet", "deberta", "deberta v3"])
def test_layers_of_others_get_what_transformers_gives_them(name: str) -> None:
    class Foreign(nn.Module):
        def forward(self, hidden: Tensor, *rest: Any, **more: Any) -> Any:
            for given in (*rest, *more.values()):
                assert given is None or isinstance(given, (Tensor, bool))
                assert not isinstance(given, Tensor) or given.dim() > 2 or given.is_floating_point()
            return hidden, None

    model = make(name)
    model.base_model.encoder.layer[1] = Foreign()
    ids, mask = padded(12, [12, 7], "right", model.config.pad_token_id)
    other = hf_models.accelerated(model)
    call = {"input_ids": ids, "attention_mask": mask}
    with torch.no_grad():
        want = copy.deepcopy(model).double()(**call)[0]
        hf_models.check_values(name, other(**call)[0], want, hf_models.sums(model, 24))


@pytest.mark.filterwarnings("ignore:locant. .* own attention")
@pytest.mark.parametrize("name", ["t5 encoder", "mpnet"])
def test_hooks_on_the_table_of_biases_take_part(name: str) -> None:
    model = make(name)
    other = hf_models.accelerated(model)
    for m in (model, other):
        (table,) = (x for n, x in m.named_modules() if n.endswith("relative_attention_bias"))
        table.register_forward_hook(lambda module, given, rows: 3 * rows)
    want = output(copy.deepcopy(model).double(), name)
    hf_models.check_values(name, output(other, name), want, hf_models.sums(model, 24))


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
def test_hooks_of_the_backward_pass_and_dropout_of_positions_alone(name: str) -> None:
    model = hf_models.accelerated(make(name, hidden_dropout_prob=0.5))
    attention = attention_of(model)[0]
    seen: list[int] = []
    projection = attention.in_proj if name == "deberta" else attention.query_proj
    projection.register_full_backward_pre_hook(lambda module, gradient: seen.append(1))
    model(**inputs(name))[0].sum().backward()
    assert seen
    assert torch.equal(output(model, name), output(model, name))
    attention.pos_dropout.train()
    assert not torch.equal(output(model, name), output(model, name))


@pytest.mark.filterwarnings("ignore")  # the tracer's
@pytest.mark.parametrize("name", ["t5 encoder", "mpnet", "deberta", "deberta v2", "deberta v3"])
@pytest.mark.parametrize("grad", [False, True])
def test_what_is_traced_takes_other_masks_weights_and_lengths(name: str, grad: bool) -> None:
    model = make(name, return_dict=False)
    other = hf_models.accelerated(model)
    call = partial(padded, side="right", pad=model.config.pad_token_id)
    with torch.set_grad_enabled(grad):
        full = call(11, [11, 11])
        other(*full)  # what it may keep of this must not be in the trace
        traced = torch.jit.trace(other, full, strict=False)
        for factor in (1.0, 1.25):
            for parameter in traced.parameters():
                parameter.data.mul_(factor)
            for arguments in (full, call(11, [11, 5]), call(14, [3, 14])):
                other.eval()  # what it keeps does not notice .data
                got, want = traced(*arguments)[0], other(*arguments)[0]
                hf_models.check_values(name, got, want.double(), hf_models.sums(model, 22))


def test_another_attention_can_be_asked_for_afterwards() -> None:
    for name in ("t5", "umt5"):
        model = make(name, "sdpa")
        want = output(model, name)
        locant.accelerate(model)
        model.set_attn_implementation("sdpa")
        assert torch.equal(output(model, name), want)
        locant.restore(model)
        assert torch.equal(output(model, name), want)


def test_transformers_is_not_imported_by_locant() -> None:
    code = "import sys, locant; assert 'transformers' not in sys.modules; import torch.nn as n\n"
    code += "print(locant.accelerate(n.MultiheadAttention(8, 2)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "not of a family" in done.stdout


# --- calls that run as before ---------------------------------------------------------------------


def forget_what_was_said() -> None:
    from locant.hf import _interface

    _interface._said.clear()


@pytest.mark.parametrize("name", NAMES)
def test_attention_weights_come_from_transformers_own_attention(name: str) -> None:
    model = make(name, "eager")
    other = accelerated(model)
    with torch.no_grad():
        want = model(**inputs(name), output_attentions=True)
        forget_what_was_said()
        with pytest.warns(UserWarning, match="attention weights") as said:
            got = other(**inputs(name), output_attentions=True)
            other(**inputs(name), output_attentions=True)
    assert len(said) == 1
    assert torch.equal(got[0], want[0])
    keys = [key for key in want if "attentions" in key]
    assert keys
    for key in keys:
        for one, two in zip(got[key], want[key], strict=True):
            assert torch.equal(one, two), key


@pytest.mark.parametrize("name", ["t5", "mpnet"])
def test_a_mask_of_pairs_runs_as_before(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    generator = torch.Generator().manual_seed(0)
    seen = torch.rand(2, 1, 12, 12, generator=generator) < 0.7
    seen |= torch.eye(12, dtype=torch.bool)
    for dtype in (torch.bool, torch.float32):
        if name == "mpnet" and dtype == torch.bool:
            continue
        least = torch.finfo(torch.float32).min
        mask = seen if dtype == torch.bool else torch.where(seen, 0.0, least)
        ids = inputs(name)["input_ids"]
        bodies = (model.encoder, other.encoder) if name == "t5" else (model.mpnet, other.mpnet)
        with torch.no_grad():
            double = torch.where(seen, 0.0, least).double()
            want = copy.deepcopy(bodies[0]).double()(ids, double)[0]
            forget_what_was_said()
            with pytest.warns(UserWarning, match="every pair of tokens"):
                got = bodies[1](ids, mask)[0]
        hf_models.check_values("masked", got, want, hf_models.sums(model, 24))


@pytest.mark.parametrize("name", ["t5", "mpnet"])
def test_masks_of_other_dimensions(name: str) -> None:
    """One and three are refused where they hide something, as they fail in transformers."""
    model = make(name)
    body, ours = ((m.encoder if name == "t5" else m.mpnet) for m in (model, accelerated(model)))
    ids = inputs(name)["input_ids"]
    whole = torch.ones(*ids.shape, ids.shape[1])
    row = torch.arange(ids.shape[1]) < 7
    with torch.no_grad():
        for dtype in (torch.int64, torch.bool, torch.float32):
            for mask in (whole.tril().to(dtype), row.to(dtype)):
                message = re.escape(f"keys], got {list(mask.shape)}")
                with pytest.raises(ValueError, match=rf"attention_mask must be .* {message}"):
                    ours(ids, mask)
                with pytest.raises((RuntimeError, IndexError)):
                    body(ids, mask)
                hides_nothing = torch.ones_like(mask)
                assert torch.equal(ours(ids, hides_nothing)[0], ours(ids)[0])


@pytest.mark.parametrize("name", ["t5", "mpnet"])
def test_a_mask_of_keys_with_four_dimensions(name: str) -> None:
    model = make(name)
    ids, mask = padded(12, [12, 7], "right", 0 if name == "t5" else 1)
    body, ours = (model.encoder, accelerated(model).encoder) if name == "t5" else (
        model.mpnet, accelerated(model).mpnet
    )  # fmt: skip
    added = torch.where(mask.bool(), 0.0, -2.5)[:, None, None]
    with torch.no_grad():
        want = copy.deepcopy(body).double()(ids, added.double())[0]
        got = ours(ids, added)[0]
    hf_models.check_values("masked", got, want, hf_models.sums(model, 24))


# --- dropout --------------------------------------------------------------------------------------

RATE = 0.1


def attention_of(model: Any) -> list[Any]:
    """The modules that `accelerate` replaced."""
    return [
        m
        for m in model.modules()
        if type(m).__name__.startswith("Locant") and "Attention" in type(m).__name__
    ]


def dropping(name: str) -> Any:
    """A model in training with dropout on attention alone."""
    key = "dropout_rate" if "t5" in name else "attention_probs_dropout_prob"
    other = accelerated(make(name, **{key: RATE})).train()
    for module in other.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for module in attention_of(other):
        if isinstance(module.dropout, nn.Dropout):
            module.dropout.p = RATE
    return other


def alone(name: str, other: Any) -> tuple[Any, Any]:
    """(an attention module of the model, a call of it as its stack would)."""
    module = attention_of(other)[0]
    if "t5" in name:
        return module, lambda x: module(x)[0]
    if name == "mpnet":
        encoder = other.mpnet.encoder
        return module, lambda x: module(x, None, encoder.compute_position_bias(x))[0]
    encoder = other.deberta.encoder
    return module, lambda x: module(
        x, None, relative_pos="standard", rel_embeddings=encoder.get_rel_embedding()
    )[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_never_falls_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from locant.hf import _disentangled, _interface, mpnet

    rates = []
    for place in (_disentangled, _interface, mpnet):
        inner = place.attention

        def counted(*a: Any, inner: Any = inner, **more: Any) -> Any:
            rates.append(more["dropout"])
            return inner(*a, **more)

        monkeypatch.setattr(place, "attention", counted)
    # Neither of transformers' ways can work.
    monkeypatch.setattr(_interface, "sdpa_attention_forward", None)
    monkeypatch.setattr(torch.nn.functional, "softmax", None)
    other = dropping(name)
    one = other(**inputs(name))[0]
    one.sum().backward()
    assert rates == [RATE] * len(attention_of(other))
    assert not torch.equal(one, other(**inputs(name))[0])
    torch.manual_seed(1)
    one = other(**inputs(name))[0]
    torch.manual_seed(1)
    assert torch.equal(one, other(**inputs(name))[0])


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_is_right_on_average(name: str) -> None:
    """The mean over masks is the value without dropout, and the spread is of a rate of 0.1."""
    module, call = alone(name, dropping(name))
    x = torch.randn(1, 7, hf_models.WIDTH)
    runs = 300
    with torch.no_grad():
        drawn = torch.stack([call(x) for _ in range(runs)]).double()
        module.eval()
        want = call(x).double()
        plain = with_dropout_by_hand(module, call, x, runs)
    deviation = drawn.std(0) / runs**0.5
    # Five deviations of a mean, for some hundred elements.
    assert bool(((drawn.mean(0) - want).abs() <= 5 * deviation + 1e-6).all())
    ratio = float(drawn.var(0).mean() / plain)
    assert 0.8 < ratio < 1.25, ratio


def with_dropout_by_hand(module: Any, call: Any, x: Tensor, runs: int) -> float:
    """Mean variance of the output when probabilities are dropped by PyTorch's own dropout."""
    from locant.hf import _disentangled, _interface, mpnet

    drawn = []
    places = (_disentangled, _interface, mpnet)
    inner = [place.attention for place in places]

    def attend(q: Tensor, k: Tensor, v: Tensor, position: Any = None, **more: Any) -> Tensor:
        more.pop("dropout")
        eye = torch.eye(v.shape[2], dtype=v.dtype).expand(v.shape[0], v.shape[1], -1, -1)
        weights = locant.attention(q, k, eye.contiguous(), position, **more)
        return torch.nn.functional.dropout(weights, RATE) @ v

    for place in places:
        place.attention = attend  # type: ignore[attr-defined]
    try:
        drawn = [call(x).double() for _ in range(runs)]
    finally:
        for place, before in zip(places, inner, strict=True):
            place.attention = before  # type: ignore[attr-defined]
    return float(torch.stack(drawn).var(0).mean())


@pytest.mark.parametrize("name", FAMILIES)
def test_dropout_has_one_mask_forward_and_backward(name: str) -> None:
    """With the seed repeated, the gradient is the derivative of the function that was computed."""
    _, call = alone(name, dropping(name).double())
    x = torch.randn(1, 7, hf_models.WIDTH, dtype=torch.float64, requires_grad=True)

    def f(x: Tensor) -> Tensor:
        torch.manual_seed(11)
        return call(x).sin().sum()

    (gradient,) = torch.autograd.grad(f(x), x)
    direction, step = torch.randn_like(gradient), 1e-5
    with torch.no_grad():
        rise = (f(x + step * direction) - f(x - step * direction)) / (2 * step)
        torch.manual_seed(12)
        other_mask = call(x).sin().sum() - f(x)
    size = float((gradient * direction).abs().sum())
    assert abs(float(rise - (gradient * direction).sum())) <= 1e-6 * size
    assert float(other_mask.abs()) > 1e-3  # another mask would have shown


def test_the_models_own_dropout_trains() -> None:
    """0.1 everywhere, as the configurations have it: losses fall, and nothing falls back."""
    for name in ("t5", "deberta v3"):
        more = (
            {"dropout_rate": 0.1}
            if name == "t5"
            else {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
        )
        other = accelerated(make(name, **more)).train()
        optimizer = torch.optim.Adam(other.parameters(), lr=3e-3)
        given = inputs(name)
        labels = given.pop("decoder_input_ids", given["input_ids"])
        losses = []
        for _ in range(12):
            loss = other(**given, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < 0.8 * losses[0], losses


def test_the_same_seed_is_the_same_mask_for_any_threads() -> None:
    other = dropping("deberta v3")
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(3)
        found.append(attention_of(other)[0](
            torch.ones(1, 9, hf_models.WIDTH), None, relative_pos="standard",
            rel_embeddings=other.deberta.encoder.get_rel_embedding(),
        )[0])  # fmt: skip
    check_alike("dropout", found[0], found[1], 2 * hf_models.WIDTH)

"""MPNet and DeBERTa v1, v2 and v3 before and after `accelerate`."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import hf_models
import pytest
import torch
from hf_models import accelerated, check_bf16, check_parity, make, padded, tokens
from tolerance import check_alike
from torch import Tensor

import locant

MODELS = [
    "mpnet",
    "deberta",
    "deberta classifier",
    "deberta c2p",
    "deberta plain",
    "deberta v2",
    "deberta v3",
    "deberta v3 classifier",
    "deberta v2 without buckets",
]
FAMILIES = ["mpnet", "deberta", "deberta v2", "deberta v3"]


def answer(ids: Tensor, mask: Tensor | None = None) -> Any:
    """What the model says, at padding tokens too: a classifier reads the first, whatever it is."""
    return lambda model: model(input_ids=ids, attention_mask=mask)[0]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_parity(name: str, side: str) -> None:
    if side == "none":
        ids, mask = tokens(2, 33), None
    else:
        ids, mask = padded(33, [33, 17, 2], side, 1)
    check_parity(make(name), answer(ids, mask), ids.numel())


@pytest.mark.parametrize("name", MODELS)
def test_a_sequence_of_padding_alone(name: str) -> None:
    ids, mask = padded(21, [21, 9, 0], "left", 1)
    with hf_models.constant_where_hidden():
        check_parity(make(name), answer(ids, mask), ids.numel())


@pytest.mark.parametrize("name", FAMILIES)
def test_a_flipped_sign_is_seen(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    hf_models.mirror(other)
    with pytest.raises(AssertionError, match="output"):
        check_parity(model, answer(tokens(2, 33)), 66, other)


@pytest.mark.parametrize("name", ["deberta", "deberta v2", "deberta v3"])
def test_rows_for_keys_are_not_rows_for_queries(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    for module in other.modules():
        if "_locant_kept" in module.__dict__ and hasattr(module, "attend"):
            attend = module.attend
            module.attend = lambda q, k, v, rows, *rest, attend=attend: attend(
                q, k, v, rows[::-1], *rest
            )
    with pytest.raises(AssertionError, match="output"):
        check_parity(model, answer(tokens(2, 33)), 66, other)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_bf16(name: str, side: str) -> None:
    ids, mask = padded(33, [33, 17, 2, 0], side, 1)
    check_bf16(make(name), answer(ids, mask))


@pytest.mark.parametrize("name", FAMILIES)
def test_autocast(name: str) -> None:
    model, run = make(name), answer(tokens(2, 33))
    other = accelerated(model)
    want = run(copy.deepcopy(model).double()).detach()
    for no_grad in (False, True):
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(not no_grad):
            got = run(other).detach()
            # v1's own attention cannot run under autocast; in bf16 it can.
            plain = run(model).detach() if name != "deberta" else None
        if plain is None:
            plain = run(copy.deepcopy(model).bfloat16()).detach()
        hf_models.check_like_plain("autocast", got, plain, want)
    # What was kept under autocast is not of its precision.
    with torch.no_grad():
        hf_models.check_values("after", run(other), want, hf_models.sums(model, 66))


@pytest.mark.parametrize("name", ["mpnet", "deberta v3"])
def test_compiled(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    run = answer(*padded(21, [21, 11, 0], "left", 1))
    want, want_gradients = hf_models.values_and_gradients(other, run)
    got, got_gradients = hf_models.values_and_gradients(
        torch.compile(other, backend="aot_eager"), run
    )
    n = hf_models.sums(model, 63)
    hf_models.check_values("output", got, want.double(), n)
    floor = max(float(g.abs().max()) for g in want_gradients.values()) / 8
    for (key, gradient), compiled in zip(
        want_gradients.items(), got_gradients.values(), strict=True
    ):
        hf_models.check_values(key, compiled, gradient.double(), 2 * n, floor)


def test_gradient_checkpointing() -> None:
    run = answer(tokens(2, 21))
    other = accelerated(make("deberta v3")).train()
    want = hf_models.values_and_gradients(other, run)
    other.activation_checkpointing_enable()
    got = hf_models.values_and_gradients(other, run)
    check_alike("output", got[0], want[0], 0)
    for name, gradient in want[1].items():
        check_alike(name, got[1][name], gradient, 0)


# --- what is kept in evaluation -------------------------------------------------------------------


def kept(model: Any) -> list[Any]:
    """The values that the model's modules keep."""
    kept = [m.__dict__["_locant_kept"]._held for m in model.modules() if "_locant_kept" in vars(m)]
    return [held[2] for held in kept if held is not None]


@pytest.mark.parametrize("name", ["deberta", "deberta v2", "deberta v3"])
def test_kept_rows_follow_the_parameters(name: str) -> None:
    model, run = make(name), answer(tokens(2, 33))
    other = accelerated(model)
    n = hf_models.sums(model, 66)

    def check() -> None:
        other.load_state_dict(model.state_dict())
        want = run(copy.deepcopy(model).double()).detach()
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                for _ in range(2):
                    hf_models.check_values("kept", run(other), want, n)

    check()
    assert len(kept(other)) >= 2
    for parameter in [p for n, p in model.named_parameters() if "rel" in n or "pos" in n]:
        with torch.no_grad():
            parameter.add_(torch.randn_like(parameter))
        check()
    same = kept(other)
    with torch.no_grad():
        run(other)
    assert all(a is b for a, b in zip(kept(other), same, strict=True))
    # Training keeps nothing, and what learns is not taken from what was kept.
    other.train()
    assert not kept(other)
    other.eval()
    with torch.no_grad():
        run(other)
    check_parity(model, run, 66, other)


def test_kept_rows_forget_data_after_train_or_eval() -> None:
    other, run = accelerated(make("deberta v3")), answer(tokens(2, 33))
    with torch.no_grad():
        before = run(other)
        other.deberta.encoder.rel_embeddings.weight.data.mul_(2)
        after = run(other.eval())
    assert not torch.equal(before, after)


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
def test_kept_rows_follow_a_fused_optimizer(name: str) -> None:
    """It changes parameters that keep their version."""
    other, run = accelerated(make(name)), answer(tokens(2, 33))
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-2, fused=True)
    for _ in range(2):
        with torch.no_grad():
            run(other)
        run(other).square().sum().backward()
        optimizer.step()
        with torch.no_grad():
            assert torch.equal(run(other), run(copy.deepcopy(other)))


def test_the_kept_table_follows_its_norm() -> None:
    other, run = accelerated(make("deberta v3")), answer(tokens(2, 33))
    norm = other.deberta.encoder.LayerNorm
    with torch.no_grad():
        before = run(other)
        norm.eps = 0.5
        changed = run(other)
        assert not torch.equal(before, changed)
        assert torch.equal(changed, run(copy.deepcopy(other)))
        hook = norm.register_forward_hook(lambda module, given, made: 2 * made)
        assert not torch.equal(changed, run(other))
        hook.remove()
        assert torch.equal(changed, run(other))


def test_biases_of_another_type() -> None:
    """transformers loads DeBERTa v1's in float32, whatever the others are."""
    model, run = make("deberta").double(), answer(tokens(2, 33))
    for name, parameter in model.named_parameters():
        if name.endswith(("q_bias", "v_bias")):
            parameter.data = parameter.data.float()
    hf_models.check_parity(model, run, 66)


def test_copies_and_pickles_keep_nothing(tmp_path: Any) -> None:
    other, run = accelerated(make("deberta v3")), answer(tokens(2, 33))
    with torch.no_grad():
        want = run(other)
        double = copy.deepcopy(other)
        assert not kept(double)
        assert torch.equal(run(double), want)
        torch.save(other, tmp_path / "model.pt")
        loaded = torch.load(tmp_path / "model.pt", weights_only=False)
        assert not kept(loaded)
        assert torch.equal(run(loaded), want)
    assert locant.restore(loaded) == 3


class Adapted(torch.nn.Module):
    """A projection with something added, as adapters do it."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = torch.nn.Linear(base.in_features, 3)
        self.up = torch.nn.Linear(3, base.out_features)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


@pytest.mark.parametrize("name", FAMILIES)
def test_adapters_and_hooks_on_projections_take_part(name: str) -> None:
    model, run = make(name), answer(tokens(2, 21))
    for module in list(model.modules()):
        for key, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear) and key in ADAPTED:
                setattr(module, key, Adapted(child))
    other = accelerated(model)
    check_parity(model, run, 42, other)
    with torch.no_grad():
        want = run(copy.deepcopy(model).double())
        n = hf_models.sums(model, 42)
        for _ in range(2):
            hf_models.check_values("kept", run(other), want, n)
    # A hook on a plain one.
    model = make(name)
    other = accelerated(model)
    for each in (model, other):
        for module in each.modules():
            if isinstance(module, torch.nn.Linear) and module.out_features % hf_models.WIDTH == 0:
                module.register_forward_hook(lambda module, args, out: 1.5 * out)
    with torch.no_grad():
        want = run(copy.deepcopy(model).double())
        hf_models.check_values("hooked", run(other), want, n)


ADAPTED = ("q", "v", "query_proj", "key_proj", "in_proj", "pos_proj", "pos_q_proj", "pos_key_proj")


# --- calls out of the ordinary --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
def test_positions_and_masks_as_transformers_layers_take_them(name: str) -> None:
    """A layer by itself, called with the matrices that transformers' encoder makes."""
    model = make(name)
    other = accelerated(model)
    body, ours = model.deberta.encoder, other.deberta.encoder
    x = torch.randn(2, 12, hf_models.WIDTH)
    tokens_mask = torch.ones(2, 12)
    tokens_mask[1, 9:] = 0
    relative = body.get_rel_pos(x)
    table = body.get_rel_embedding()
    for mask in (torch.ones(2, 12), tokens_mask):
        arguments = {"relative_pos": relative, "rel_embeddings": table}
        matrix = body.get_attention_mask(mask)
        want = model.deberta.encoder.layer[0].attention.self(x, matrix, **arguments)[0]
        got = ours.layer[0].attention.self(x, matrix, **arguments)[0]
        check_alike("layer", got, want, 2 * hf_models.WIDTH)


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
@pytest.mark.parametrize("kind", ["keys", "keys and queries"])
def test_masks_of_more_dimensions_that_say_no_more(name: str, kind: str) -> None:
    """Keys that no query sees and queries that see no key need not be the same tokens."""
    model = make(name)
    body, ours = model.deberta.encoder, accelerated(model).deberta.encoder
    x = torch.randn(3, 12, hf_models.WIDTH)
    keys = torch.arange(12) < torch.tensor([12, 7, 0])[:, None]
    queries = torch.arange(12) >= torch.tensor([5, 0, 3])[:, None]
    mask = keys[:, None, :] if kind == "keys" else keys[:, None, :] & queries[:, :, None]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error")
        want = copy.deepcopy(body).double()(x.double(), mask).last_hidden_state
        got = ours(x, mask).last_hidden_state
    hf_models.check_values("layer", got, want, hf_models.sums(model, 36))


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
def test_masks_of_pairs_run_as_before(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    mask = torch.ones(2, 12, 12).tril()
    ids = tokens(2, 12)
    embedded = model.deberta.embeddings(input_ids=ids)
    want = model.deberta.encoder(embedded, mask).last_hidden_state
    with pytest.warns(UserWarning, match="every pair of tokens"):
        forget_what_was_said()
        got = other.deberta.encoder(embedded, mask).last_hidden_state
    assert torch.equal(got, want)


@pytest.mark.parametrize("name", ["deberta", "deberta v3"])
def test_positions_of_a_callers_own_run_as_before(name: str) -> None:
    model = make(name)
    other = accelerated(model)
    embedded = model.deberta.embeddings(input_ids=tokens(2, 12))
    relative = model.deberta.encoder.get_rel_pos(embedded).flip(1)
    mask = torch.ones(2, 12)
    want = model.deberta.encoder(embedded, mask, relative_pos=relative).last_hidden_state
    with pytest.warns(UserWarning, match="relative positions"):
        forget_what_was_said()
        got = other.deberta.encoder(embedded, mask, relative_pos=relative).last_hidden_state
    assert torch.equal(got, want)


def forget_what_was_said() -> None:
    from locant.hf import _interface

    _interface._said.clear()


# --- public bugs (tests/bugs.md) ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["deberta", "deberta v2", "deberta v3"])
def test_D38_position_to_content_uses_delta_ij(name: str) -> None:
    """With p2c alone a key's row is that of i - j; j - i, as the paper prints it, is another."""
    model = make(name, pos_att_type=["p2c"])
    other = accelerated(model)
    check_parity(model, answer(tokens(2, 21)), 42, other)
    hf_models.mirror(other)
    with pytest.raises(AssertionError, match="output"):
        check_parity(model, answer(tokens(2, 21)), 42, other)


def test_D39_buckets_do_not_depend_on_the_length() -> None:
    more = {"position_buckets": 256, "max_relative_positions": 512}
    other = accelerated(make("deberta v3", **more))
    rows = other.deberta.encoder.layer[0].attention.self._locant_rows
    for length in (1, 2, 128, 300, 511, 512, 513, 700):
        low, high, index = rows.needed(length)
        away = torch.arange(-(length - 1), length)
        got = low + locant.position.look_up(index, -away)
        bucket = transformers_bucket(away, 256, 512)
        assert torch.equal(got, (bucket + 256).clamp(0, 511)), length
        assert (low, high) == (int(got.min()), int(got.max()) + 1)
    assert int(locant.position.look_up(rows.map, torch.tensor([-299]))) == 256 + 206


def transformers_bucket(away: Tensor, buckets: int, far: int) -> Tensor:
    """Of i - j, by the model's own code."""
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

    return make_log_bucket_position(away, buckets, far).long()


def test_D40_position_to_position_is_ignored_as_by_the_model() -> None:
    """It counts in the scale of v1 and adds nothing."""
    model = make("deberta", pos_att_type=["c2p", "p2c", "p2p"])
    check_parity(model, answer(tokens(2, 21)), 42)


@pytest.mark.parametrize("name", FAMILIES)
def test_D52_rows_that_see_nothing_are_no_nan(name: str) -> None:
    other = accelerated(make(name)).train()
    ids, mask = padded(9, [9, 5], "right", 1)
    mask[1] = 0
    run = lambda model: model(input_ids=ids, attention_mask=mask)[0]  # noqa: E731
    _, gradients = hf_models.values_and_gradients(other, run)
    assert all(bool(g.isfinite().all()) for g in gradients.values())

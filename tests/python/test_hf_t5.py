"""T5, mT5 and UMT5 before and after `accelerate`."""

from __future__ import annotations

import copy
from typing import Any

import hf_models
import pytest
import torch
from hf_models import accelerated, check_bf16, check_parity, make, padded, tokens
from tolerance import check_alike
from torch import Tensor

import locant

KINDS = ["t5", "mt5", "umt5"]


def logits(ids: Tensor, mask: Tensor | None, labels: Tensor, **more: Any) -> Any:
    """What the model says with these inputs."""

    def run(model: Any) -> Tensor:
        out = model(input_ids=ids, attention_mask=mask, decoder_input_ids=labels, **more)
        return out.logits

    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["none", "left", "right"])
def test_parity(kind: str, side: str) -> None:
    ids, mask = padded(26, [26, 17, 3], side, 0) if side != "none" else (tokens(2, 26), None)
    labels = tokens(ids.shape[0], 23, seed=1)
    check_parity(make(kind), logits(ids, mask, labels), 3 * 49)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_decoder(side: str) -> None:
    ids = tokens(3, 9)
    labels, mask = padded(14, [14, 6, 1], side, 0)
    where = mask.bool()

    def run(model: Any) -> Tensor:
        out = model(input_ids=ids, decoder_input_ids=labels, decoder_attention_mask=mask)
        return out.logits[where]

    check_parity(make("t5"), run, 3 * 23)


# --- queries that see no key: the model averages over all -----------------------------------------

# Left padding in the decoder, and a sequence of padding alone in encoder and cross attention.
BLIND = ["decoder", "encoder", "both"]


def blind(where: str) -> Any:
    """Logits at all tokens."""
    ids, mask = padded(9, [9, 4, 0], "left", 0)
    labels, labels_mask = padded(14, [14, 6, 1], "left", 0)
    more = {"decoder_attention_mask": labels_mask} if where != "encoder" else {}
    return logits(ids, mask if where != "decoder" else None, labels, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", BLIND)
def test_rows_that_see_no_key(kind: str, where: str) -> None:
    with hf_models.constant_where_hidden():
        check_parity(make(kind, "eager"), blind(where), 3 * 23)
    model = make(kind, "sdpa")
    with torch.no_grad():
        want = blind(where)(copy.deepcopy(model).double())
        got = blind(where)(accelerated(model))
    hf_models.check_values("output", got, want, hf_models.sums(model, 3 * 23))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_rows_that_see_no_key_in_bf16(attention: str) -> None:
    check_bf16(make("t5", attention), blind("both"))


def test_rows_that_see_no_key_in_pieces() -> None:
    """With a cache, all keys are those so far."""
    ids = tokens(3, 9)
    labels, mask = padded(14, [14, 6, 1], "left", 0)

    def run(model: Any) -> Tensor:
        encoded, cache, steps = model.encoder(input_ids=ids), None, []
        for first, last in ((0, 4), (4, 9), (9, 10), (10, 14)):
            out = model(
                encoder_outputs=encoded, decoder_input_ids=labels[:, first:last],
                decoder_attention_mask=mask[:, :last], cache=cache, use_cache=True,
            )  # fmt: skip
            cache = out.cache
            steps.append(out.logits)
        return torch.cat(steps, 1)

    model = make("t5")
    with torch.no_grad():
        want, got = run(copy.deepcopy(model).double()), run(accelerated(model))
    hf_models.check_values("steps", got, want, hf_models.sums(model, 3 * 23))


def test_rows_that_see_no_key_compiled() -> None:
    model = make("t5")
    want = blind("both")(copy.deepcopy(model).double()).detach()
    run = blind("both")
    got = run(torch.compile(accelerated(model), backend="aot_eager")).detach()
    hf_models.check_values("output", got, want, hf_models.sums(model, 3 * 23))


@pytest.mark.parametrize("least", [torch.finfo(torch.float32).min, -torch.inf])
def test_rows_that_see_no_key_by_a_mask_of_numbers(least: float) -> None:
    model = make("t5 encoder")
    ids, mask = padded(12, [12, 7, 0], "right", 0)
    seen = mask[:, None, None].bool()
    with torch.no_grad():
        lowest = torch.zeros(seen.shape, dtype=torch.float64)
        lowest.masked_fill_(~seen, torch.finfo(torch.float64).min)
        want = copy.deepcopy(model).double()(ids, lowest)[0]
        got = accelerated(model)(ids, torch.where(seen, 0.0, least))[0]
    hf_models.check_values("masked", got, want, hf_models.sums(model, 36))


def test_a_flipped_sign_is_seen() -> None:
    run = logits(tokens(2, 26), None, tokens(2, 23, seed=1))
    for kind in ("t5", "umt5"):
        model = make(kind)
        other = accelerated(model)
        hf_models.mirror(other)
        with pytest.raises(AssertionError, match="output"):
            check_parity(model, run, 98, other)


def test_encoder_alone() -> None:
    ids, mask = padded(40, [40, 11], "right", 0)
    run = lambda model: model(input_ids=ids, attention_mask=mask).last_hidden_state  # noqa: E731
    check_parity(make("t5 encoder"), run, 80)


@pytest.mark.parametrize("kind", KINDS)
def test_bf16(kind: str) -> None:
    ids, mask = padded(26, [26, 17, 3], "right", 0)
    check_bf16(make(kind), logits(ids, mask, tokens(3, 23, seed=1)))


def test_autocast() -> None:
    model = make("t5")
    run = logits(tokens(2, 26), None, tokens(2, 23, seed=1))

    def cast(model: Any) -> Tensor:
        if next(model.parameters()).dtype == torch.float64:
            return run(model)
        with torch.autocast("cpu", torch.bfloat16):
            return run(model)

    want, _ = hf_models.values_and_gradients(copy.deepcopy(model).double(), run)
    plain, plain_gradients = hf_models.values_and_gradients(model, cast)
    got, gradients = hf_models.values_and_gradients(accelerated(model), cast)
    hf_models.check_like_plain("autocast", got, plain, want)
    assert gradients.keys() == plain_gradients.keys()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", [{"num_beams": 1}, {"num_beams": 3}])
@pytest.mark.parametrize("use_cache", [True, False])
def test_generation(kind: str, how: dict[str, Any], use_cache: bool) -> None:
    model = make(kind)
    ids, mask = padded(13, [13, 8], "left", 0)
    more = {"max_new_tokens": 9, "min_new_tokens": 9, "do_sample": False, "use_cache": use_cache}
    want = model.generate(input_ids=ids, attention_mask=mask, **how, **more)
    got = accelerated(model).generate(input_ids=ids, attention_mask=mask, **how, **more)
    assert torch.equal(got, want)


def test_static_cache() -> None:
    model = make("t5")
    ids, mask = padded(13, [13, 8], "left", 0)
    more = {"max_new_tokens": 9, "min_new_tokens": 9, "do_sample": False}
    want = model.generate(input_ids=ids, attention_mask=mask, **more)
    got = accelerated(model).generate(
        input_ids=ids, attention_mask=mask, cache_implementation="static", disable_compile=True,
        **more,
    )  # fmt: skip
    assert torch.equal(got, want)


def test_static_cache_with_a_padded_decoder() -> None:
    model = make("t5")
    ids, mask = padded(13, [13, 8], "left", 0)
    labels, labels_mask = padded(4, [4, 2], "left", 0)
    more = {
        "decoder_input_ids": labels, "decoder_attention_mask": labels_mask, "do_sample": False,
        "max_new_tokens": 9, "min_new_tokens": 9, "cache_implementation": "static",
        "disable_compile": True,
    }  # fmt: skip
    want = model.generate(input_ids=ids, attention_mask=mask, **more)
    got = accelerated(model).generate(input_ids=ids, attention_mask=mask, **more)
    assert torch.equal(got, want)


@pytest.mark.parametrize("kind", ["t5", "umt5"])
@pytest.mark.parametrize("part", ["first left alone", "second left alone", "one block", "whole"])
def test_static_cache_with_a_prompt_and_a_part_replaced(kind: str, part: str) -> None:
    """Attention of transformers beside ours has to see where the queries stand, too."""
    model = make(kind)
    other = copy.deepcopy(model)
    blocks = other.decoder.block
    if part == "one block":
        locant.accelerate(blocks[1])
    else:
        if part != "whole":
            own = blocks[int(part.startswith("second"))].layer[0].SelfAttention
            own.forward = own.forward
        locant.accelerate(other)
    more = {
        "decoder_input_ids": tokens(2, 5), "max_new_tokens": 6, "min_new_tokens": 6,
        "do_sample": False, "cache_implementation": "static", "disable_compile": True,
        "output_scores": True, "return_dict_in_generate": True,
    }  # fmt: skip
    ids = tokens(2, 9)
    want = copy.deepcopy(model).double().generate(ids, **more)
    got = other.generate(ids, **more)
    assert torch.equal(got.sequences, want.sequences)
    for a, b in zip(got.scores, want.scores, strict=True):
        hf_models.check_values("scores", a, b, hf_models.sums(model, 20))


@pytest.mark.filterwarnings("ignore:locant. .* own attention")
@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_changed_in_place_is_read_again(kind: str) -> None:
    model = make(kind)
    other = accelerated(model)
    mask = torch.ones(1, 1, 6, 6, dtype=torch.bool).tril()
    ids = tokens(1, 8)
    call = {"input_ids": ids, "decoder_input_ids": ids[:, :6], "decoder_attention_mask": mask}
    for hidden in (0, 1, 2):
        mask[:, :, 3:, :hidden] = False
        with torch.no_grad():
            want = copy.deepcopy(model).double()(**call)[0]
            hf_models.check_values(kind, other(**call)[0], want, hf_models.sums(model, 14))


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_may_be_drawn_again(kind: str) -> None:
    model = make(kind)
    other = accelerated(model)
    for m in (model, other):
        torch.manual_seed(7)
        m.apply(m._init_weights)
    assert list(other.state_dict()) == list(model.state_dict())
    for name, drawn in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], drawn), name
    module = other.decoder.block[0].layer[1].EncDecAttention
    module.has_relative_attention_bias = False
    assert not module.__dict__["has_relative_attention_bias"]


def test_gradient_checkpointing() -> None:
    model = make("t5")
    run = logits(tokens(2, 12), None, tokens(2, 10, seed=1))
    other = accelerated(model).train()
    want = hf_models.values_and_gradients(other, run)
    other.activation_checkpointing_enable()
    got = hf_models.values_and_gradients(other, run)
    check_alike("output", got[0], want[0], 0)
    for name, gradient in want[1].items():
        check_alike(name, got[1][name], gradient, 0)


def test_compiled() -> None:
    model = make("t5 encoder")
    other = accelerated(model)
    ids, mask = padded(21, [21, 11, 0], "right", 0)
    run = lambda m: m(input_ids=ids, attention_mask=mask).last_hidden_state  # noqa: E731
    want, want_gradients = hf_models.values_and_gradients(other, run)
    got, got_gradients = hf_models.values_and_gradients(
        torch.compile(other, backend="aot_eager"), run
    )
    n = hf_models.sums(model, 63)
    hf_models.check_values("output", got, want.double(), n)
    for (name, gradient), other_gradient in zip(
        want_gradients.items(), got_gradients.values(), strict=True
    ):
        hf_models.check_values(name, other_gradient, gradient.double(), 2 * n)


# --- public bugs (tests/bugs.md) ------------------------------------------------------------------


def test_D32_cross_attention_has_no_bias() -> None:
    other = accelerated(make("t5"))
    for block in other.decoder.block:
        bias = block.layer[1].EncDecAttention.compute_bias(3, 5)
        assert bias.terms() is None
    seen = []
    cross = other.decoder.block[0].layer[1].EncDecAttention
    cross.register_forward_hook(lambda module, inputs, output: seen.append(output[0].detach()))
    run = logits(tokens(2, 12), None, tokens(2, 10, seed=1))
    other.decoder.block[0].layer[0].SelfAttention.register_forward_hook(
        lambda module, inputs, output: (torch.zeros_like(output[0]), *output[1:])
    )
    run(other)
    with torch.no_grad():
        other.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.add_(1.7)
    run(other)
    assert torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("buckets, far", [(32, 128), (8, 20), (32, 512), (64, 256), (12, 10)])
def test_D33_all_buckets_are_those_of_the_models(buckets: int, far: int) -> None:
    more = {"relative_attention_num_buckets": buckets, "relative_attention_max_distance": far}
    other = accelerated(make("t5", **more))
    distance = torch.arange(-4 * far, 4 * far + 1)
    for stack in (other.encoder, other.decoder):
        module = stack.block[0].layer[0].SelfAttention
        want = module._relative_position_bucket(
            distance, bidirectional=not module.is_decoder, num_buckets=buckets, max_distance=far
        )
        assert torch.equal(locant.position.look_up(module._locant_index, distance), want)


def test_D34_a_cached_step_has_its_bias() -> None:
    model = make("t5")
    other = accelerated(model)
    ids, labels = tokens(2, 9), tokens(2, 30, seed=1)
    whole = other(input_ids=ids, decoder_input_ids=labels).logits
    encoded = other.encoder(input_ids=ids)
    cache, steps = None, []
    for first, last in ((0, 7), (7, 8), (8, 9), (9, 15), *((n, n + 1) for n in range(15, 30))):
        out = other(
            encoder_outputs=encoded, decoder_input_ids=labels[:, first:last],
            cache=cache, use_cache=True,
        )  # fmt: skip
        cache = out.cache
        steps.append(out.logits)
    want = copy.deepcopy(model).double()(input_ids=ids, decoder_input_ids=labels).logits
    n = hf_models.sums(model, 60)
    hf_models.check_values("steps", torch.cat(steps, 1), want, n)
    hf_models.check_values("whole", whole, want, n)


def test_D35_one_table_acts_in_every_layer() -> None:
    other = accelerated(make("t5 encoder"))
    attention = [block.layer[0].SelfAttention for block in other.encoder.block]
    table = attention[0].relative_attention_bias.weight
    parts = []
    for module in attention:
        module.register_forward_hook(lambda module, inputs, output: parts.append(output[0]))
    ids = tokens(1, 12)
    other(input_ids=ids)
    gradients = [torch.autograd.grad(part.sum(), table, retain_graph=True)[0] for part in parts]
    # The second layer's output feels the table through the first and by itself.
    attention[0].register_forward_hook(
        lambda module, inputs, output: (output[0].detach(), *output[1:])
    )
    parts.clear()
    other(input_ids=ids)
    alone = torch.autograd.grad(parts[1].sum(), table)[0]
    assert all(bool((g != 0).any()) for g in [*gradients, alone])


@pytest.mark.parametrize("kind", KINDS)
def test_D09_left_padded_rows_are_the_unpadded_ones(kind: str) -> None:
    other = accelerated(make(kind))
    ids, mask = padded(13, [13, 8], "left", 0)
    labels = tokens(2, 6, seed=1)
    got = logits(ids, mask, labels)(other)
    want = logits(ids[1:, 5:], None, labels[1:])(copy.deepcopy(other).double())
    hf_models.check_values("row", got[1:], want, hf_models.sums(other, 19))


def test_D61_a_table_alone_learns() -> None:
    model = make("t5")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("relative" in name)
    check_parity(model, logits(tokens(2, 12), None, tokens(2, 10, seed=1)), 44)


def test_D52_rows_that_see_nothing_are_no_nan() -> None:
    other = accelerated(make("t5")).train()
    ids, mask = padded(9, [9, 5], "right", 0)
    mask[1] = 0
    _, gradients = hf_models.values_and_gradients(other, logits(ids, mask, tokens(2, 7)))
    assert all(bool(g.isfinite().all()) for g in gradients.values())

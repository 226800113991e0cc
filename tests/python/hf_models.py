"""Small random Hugging Face models, and the one way they are compared before and after."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from tolerance import EPS, check_like_plain, check_within, largest
from torch import Tensor, nn

import locant

logging.getLogger("transformers").setLevel(logging.ERROR)
torch.set_num_threads(1)  # models this small only wait for each other

HEADS, SIZE, WIDTH, WORDS = 4, 8, 32, 61
_T5 = {
    "vocab_size": WORDS, "d_model": WIDTH, "d_kv": SIZE, "d_ff": 48, "num_layers": 2,
    "num_heads": HEADS, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20,
    "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
    "tie_word_embeddings": False,
}  # fmt: skip
_ENCODER = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS,
    "intermediate_size": 48, "max_position_embeddings": 80, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "pad_token_id": 1,
}  # fmt: skip
_V2 = {**_ENCODER, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
_V3 = {
    **_V2, "position_buckets": 8, "max_relative_positions": 20, "share_att_key": True,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip

# Name of the class and its configuration.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5),
    "mt5": ("MT5ForConditionalGeneration", "MT5Config", {**_T5, "feed_forward_proj": "gated-gelu"}),
    "umt5": ("UMT5ForConditionalGeneration", "UMT5Config", _T5),
    "t5 encoder": ("T5EncoderModel", "T5Config", _T5),
    "mpnet": ("MPNetForMaskedLM", "MPNetConfig", _ENCODER),
    "deberta": (
        "DebertaForMaskedLM",
        "DebertaConfig",
        {**_V2, "max_relative_positions": 9, "type_vocab_size": 0},
    ),
    "deberta classifier": ("DebertaForSequenceClassification", "DebertaConfig", _V2),
    "deberta c2p": ("DebertaModel", "DebertaConfig", {**_V2, "pos_att_type": ["c2p"]}),
    "deberta plain": ("DebertaModel", "DebertaConfig", {**_ENCODER, "relative_attention": False}),
    "deberta v2": (
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        {**_V2, "position_buckets": 8, "max_relative_positions": 20, "conv_kernel_size": 3},
    ),
    "deberta v3": ("DebertaV2ForMaskedLM", "DebertaV2Config", _V3),
    "deberta v3 classifier": ("DebertaV2ForSequenceClassification", "DebertaV2Config", _V3),
    "deberta v2 without buckets": (
        "DebertaV2Model",
        "DebertaV2Config",
        {**_V2, "position_buckets": -1, "max_relative_positions": 9, "pos_att_type": ["p2c"]},
    ),
}


def make(name: str, attention: str | None = None, **more: Any) -> Any:
    """The model in evaluation, every parameter redrawn so that an error in it shows."""
    kind, config, options = MODELS[name]
    options = {**options, **more}
    torch.manual_seed(5)
    made = getattr(transformers, config)(**options)
    if attention is not None:
        made._attn_implementation = attention
    model = getattr(transformers, kind)(made)
    redraw(model)
    return model.eval()


@torch.no_grad()
def redraw(model: nn.Module) -> None:
    """Position parameters with deviation 0.7, the others so that scores are about one."""
    for name, parameter in model.named_parameters():
        position = any(word in name for word in ("rel", "pos"))
        if position and parameter.dim() == 2:
            deviation = 0.7
        elif parameter.dim() >= 2:
            deviation = 1.3 * math.prod(parameter.shape[1:]) ** -0.5
        else:
            deviation = 0.3
        center = float("norm" in name.lower() and name.endswith("weight"))
        parameter.normal_(center, deviation)


def accelerated(model: nn.Module) -> Any:
    """A copy on Locant's kernel."""
    other = copy.deepcopy(model)
    report = locant.accelerate(other)
    assert report.replaced, report
    return other


def tokens(batch: int, length: int, seed: int = 0) -> Tensor:
    """Words that are neither padding nor ends."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, WORDS, (batch, length), generator=generator)


def padded(length: int, lengths: list[int], side: str, pad: int) -> tuple[Tensor, Tensor]:
    """(ids [B, length], mask): sequences of these lengths with padding on one side."""
    ids = tokens(len(lengths), length)
    at = torch.arange(length)
    n = torch.tensor(lengths)[:, None]
    mask = at < n if side == "right" else at >= length - n
    return ids.masked_fill(~mask, pad), mask.long()


# --- comparing ------------------------------------------------------------------------------------
# The model in double with transformers' own attention says what is right. In float32 an output that
# comes out of `sums` additions one after the other may be off by 4 (1 + sums) eps of the largest.


def sums(model: Any, tokens: int) -> int:
    """Additions on the longest way through the model: in every layer over the width, the hidden
    units and the keys, over the words at the end.
    """
    layers = sum(type(m).__name__.endswith(("Block", "Layer")) for m in model.modules())
    return layers * (3 * WIDTH + 48 + tokens) + WIDTH + WORDS


def check_values(name: str, got: Tensor, want: Tensor, n: int, floor: float = 0.0) -> None:
    """float32 within the derived tolerance of double."""
    magnitude = max(largest(want), floor)
    check_within(name, got, want, torch.tensor(4 * (1 + n) * EPS[torch.float32] * magnitude))


Run = Callable[[Any], Tensor]


def values_and_gradients(model: Any, run: Run) -> tuple[Tensor, dict[str, Tensor]]:
    """run(model) and the gradients of a sum of it with fixed weights."""
    model.zero_grad(set_to_none=True)
    out = run(model)
    generator = torch.Generator().manual_seed(3)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    (out.double() * weights).sum().backward()
    found = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return out.detach(), found


def check_parity(model: Any, run: Run, tokens: int, other: Any = None) -> None:
    """run(model) and all gradients, accelerated, against transformers' own in double."""
    other = accelerated(model) if other is None else other
    want, want_gradients = values_and_gradients(copy.deepcopy(model).double(), run)
    got, got_gradients = values_and_gradients(other, run)
    n = sums(model, tokens)
    check_values("output", got, want, n)
    assert got_gradients.keys() == want_gradients.keys()
    # A gradient of all tokens' sums may cancel; those before it are as large as the largest.
    floor = largest(*want_gradients.values()) / 8
    for name, gradient in want_gradients.items():
        check_values(f"gradient of {name}", got_gradients[name], gradient, 2 * n + tokens, floor)


@contextlib.contextmanager
def constant_where_hidden() -> Iterator[None]:
    """Scores at the lowest number are constants to PyTorch's softmax, as they are to its result.

    Where transformers adds that number to the scores of all keys of a query, the sum no longer
    depends on them, yet autograd gives them a gradient; of its attention functions each another.
    """
    inner = nn.functional.softmax

    def softmax(scores: Tensor, *rest: Any, **more: Any) -> Tensor:
        hidden = scores <= torch.finfo(scores.dtype).min / 2
        return inner(torch.where(hidden, scores.detach(), scores), *rest, **more)

    nn.functional.softmax = softmax
    try:
        yield
    finally:
        nn.functional.softmax = inner


def check_bf16(model: Any, run: Run) -> None:
    """In bf16 no worse than twice the error of transformers' own attention in bf16."""
    want = run(copy.deepcopy(model).double())
    with torch.no_grad():
        plain = run(copy.deepcopy(model).bfloat16())
        got = run(accelerated(model).bfloat16())
    check_like_plain("bf16", got, plain, want)


def mirror(model: nn.Module) -> None:
    """Turns the sign of all distances in an accelerated model: the error that must show."""
    for module in model.modules():
        held = module.__dict__
        if "_locant_index" in held:
            held["_locant_index"] = mirrored(held["_locant_index"])
        if held.get("_locant_rows") is not None:
            rows = held["_locant_rows"] = copy.deepcopy(held["_locant_rows"])
            rows.map, rows.rows, rows._last = mirrored(rows.map), rows.rows.flip(0), None


def mirrored(index: Tensor) -> Tensor:
    """The index map of -d."""
    first, before, after = index[:3].tolist()
    n = index.shape[0] - 3
    head = torch.tensor([-(first + n - 1), after, before], dtype=index.dtype)
    return torch.cat([head, index[3:].flip(0)])

"""What bench/compare_huggingface.py measures: Hugging Face models, and one call of each.

Base configurations with a small vocabulary, one self-attention module with its projections, and
whole models, each on a path of transformers' own ("eager", "sdpa") or on "locant".
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

HEADS, SIZE = 12, 64
WIDTH = HEADS * SIZE


# --- the models -----------------------------------------------------------------------------------


def config_of(family: str, dropout: float, layers: int = 12) -> Any:
    """The family's base model, with fewer words."""
    import transformers

    if family.startswith("t5"):
        return transformers.T5Config(
            vocab_size=8192, d_model=WIDTH, d_kv=SIZE, num_heads=HEADS, d_ff=3072,
            num_layers=layers, dropout_rate=dropout, is_decoder=family == "t5_decoder",
            use_cache=False,
        )  # fmt: skip
    common = dict(
        vocab_size=8192, hidden_size=WIDTH, num_attention_heads=HEADS, intermediate_size=3072,
        num_hidden_layers=layers, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    if family == "mpnet":
        return transformers.MPNetConfig(max_position_embeddings=4096, **common)
    disentangled = dict(
        relative_attention=True, pos_att_type="p2c|c2p", position_biased_input=False,
        max_position_embeddings=512, type_vocab_size=0,
    )  # fmt: skip
    if family == "deberta":
        return transformers.DebertaConfig(**common, **disentangled)
    return transformers.DebertaV2Config(
        **common, **disentangled, position_buckets=256, share_att_key=True,
        norm_rel_ebd="layer_norm",
    )  # fmt: skip


def model_of(family: str, config: Any) -> Any:
    """The whole model."""
    import transformers

    if family == "t5_decoder":
        from transformers.models.t5.modeling_t5 import T5Stack

        return T5Stack(config)
    kinds = {
        "t5": "T5EncoderModel",
        "mpnet": "MPNetModel",
        "deberta": "DebertaModel",
        "deberta_v2": "DebertaV2Model",
    }
    return getattr(transformers, kinds[family])(config)


def paths_of(family: str) -> tuple[str, ...]:
    """The attention that transformers has for a family."""
    return ("sdpa", "eager") if family.startswith("t5") else ("eager",)


def on(path: str, model: Any) -> Any:
    """A copy of the model that computes on one of transformers' paths or on "locant"."""
    import locant

    model = copy.deepcopy(model)
    if path == "locant":
        locant.accelerate(model)
    elif path == "sdpa":
        model.set_attn_implementation("sdpa")
    return model


# --- one attention module -------------------------------------------------------------------------


def attention_call(family: str, model: Any, n: int) -> tuple[Any, Callable[..., Any]]:
    """(the first layer's self-attention, a call of it with what its stack hands to it)."""
    x_shape = (1, n, WIDTH)
    if family.startswith("t5"):
        stack = model.encoder if family == "t5" else model
        module = stack.block[0].layer[0].SelfAttention
        return module, lambda x: module(x)[0]
    if family == "mpnet":
        encoder = model.encoder
        module = encoder.layer[0].attention.attn
        return module, lambda x: module(x, None, encoder.compute_position_bias(x))[0]
    encoder = model.encoder
    module = encoder.layer[0].attention.self
    x = torch.empty(x_shape)
    mask = encoder.get_attention_mask(torch.ones(1, n))
    relative = encoder.get_rel_pos(x)
    return module, lambda x, table: module(x, mask, relative_pos=relative, rel_embeddings=table)[0]


def attention_step(family: str, way: str, n: int, path: str, model: Any) -> Callable[[], Any]:
    """One call of a self-attention module, with its gradients where `way` says so."""
    model = on(path, model)
    backward = "backward" in way
    # Only in evaluation are projected positions kept. There is no dropout in either.
    model.train(backward or (family.startswith("deberta") and "kept" not in way))
    module, call = attention_call(family, model, n)
    torch.manual_seed(1)
    arguments = [torch.randn(1, n, WIDTH)]
    if family.startswith("deberta"):
        with torch.no_grad():
            arguments.append(model.encoder.get_rel_embedding().detach().clone())
    gradient = torch.randn(1, n, WIDTH)

    def forward() -> Any:
        with torch.no_grad():
            return call(*arguments)

    def both() -> Any:
        leaves = [a.detach().requires_grad_() for a in arguments]
        module.zero_grad(set_to_none=True)
        call(*leaves).backward(gradient)
        return leaves

    return both if backward else forward


# --- whole models ---------------------------------------------------------------------------------


def model_step(family: str, way: str, n: int, path: str, model: Any) -> Callable[[], Any]:
    """Inference over n tokens, or a training step."""
    model = on(path, model)
    ids = torch.randint(3, 8192, (1, n), generator=torch.Generator().manual_seed(2))
    more = {} if family == "t5_decoder" else {"attention_mask": torch.ones(1, n, dtype=torch.long)}
    if way == "inference":
        model.eval()

        def infer() -> Any:
            with torch.no_grad():
                return model(input_ids=ids, **more)[0]

        return infer
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def train() -> Any:
        loss = model(input_ids=ids, **more)[0].square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return train

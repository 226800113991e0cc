"""Every scheme, in the variants that differ in kind: how it is made, and the oracle's formula."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import oracle
import torch

from locant import position


class Case(NamedTuple):
    """A scheme's text, its formula, and the calls it is for ("both", "causal", "full")."""

    text: str
    formula: Any
    calls: str = "both"


CASES = [
    Case("nope", oracle.nothing),
    Case("sinusoidal", oracle.nothing),
    Case("learned(rows=64)", oracle.nothing),
    Case("alibi", oracle.alibi),
    Case("alibi(slopes=learned,scaled=yes)", partial(oracle.alibi, scaled=True)),
    Case("alibi(form=deepmind)", partial(oracle.alibi, form="deepmind")),
    Case("t5", oracle.t5),
    Case("t5(buckets=8,max_distance=10)", partial(oracle.t5, buckets=8, max_distance=10)),
    Case("t5(bidirectional=no,heads=shared)", partial(oracle.t5, both=False)),
    Case("mpnet", partial(oracle.t5, both=True)),
    Case("scalar_table(clip=5)", partial(oracle.scalar_table, clip=5)),
    Case("scalar_table(clip=3,order=i-j)", partial(oracle.scalar_table, clip=3, order=-1)),
    Case("shaw(k=4)", partial(oracle.shaw, left=4, right=4)),
    Case(
        "shaw(k=3,on=keys,times_key=yes,order=i-j,heads=each)",
        partial(oracle.shaw, left=3, right=3, order=-1, times_key=True),
    ),
    Case("shaw(k=2,outside=zero)", partial(oracle.shaw, left=2, right=2, outside="zero")),
    Case("shaw(left=3,right=1,on=values)", partial(oracle.shaw, left=3, right=1)),
    Case("music_transformer(rows=8)", oracle.music_transformer, "causal"),
    Case("music_transformer(rows=40,heads=each)", oracle.music_transformer, "causal"),
    Case("music_transformer(rows=12,values=yes)", oracle.music_transformer, "causal"),
    Case("transformer_xl", oracle.transformer_xl, "causal"),
    Case("transformer_xl(clamp_len=4)", partial(oracle.transformer_xl, clamp=4), "causal"),
    Case("transformer_xl(style=xlnet)", partial(oracle.transformer_xl, style="xlnet")),
    Case("transformer_xl(style=conformer)", partial(oracle.transformer_xl, style="conformer")),
    Case("deberta(buckets=8,max_positions=16)", partial(oracle.deberta, buckets=8, most=16)),
    Case(
        "deberta(buckets=8,max_positions=16,pos_att_type=c2p,norm_rel_ebd=layer_norm)",
        partial(oracle.deberta, buckets=8, most=16, norm=True),
    ),
    Case(
        "deberta(buckets=8,max_positions=32,pos_att_type=p2c,share_att_key=yes)",
        partial(oracle.deberta, buckets=8, most=32, share=True),
    ),
    Case("deberta(version=v1,max_positions=6)", partial(oracle.deberta, version="v1", most=6)),
    Case("rope", oracle.rope),
    Case("rope(layout=interleaved,width=4)", partial(oracle.rope, layout="interleaved", width=4)),
    Case("rope(scaling=linear,factor=4)", partial(oracle.rope, stretch=4.0)),
    Case("rope(scaling=dynamic,factor=2,original=8)", partial(oracle.rope, dynamic=(2.0, 8))),
    Case("xpos", oracle.xpos),
    Case("kerple", oracle.kerple),
    Case("kerple(variant=power)", partial(oracle.kerple, power=True)),
    Case("sandwich", oracle.sandwich),
    Case("fire(length=8,hidden=5)", partial(oracle.fire, length=8.0)),
]

# One for each kind of term and of structure, for what takes long.
KINDS = [
    "nope",
    "alibi(slopes=learned,scaled=yes)",
    "t5",
    "shaw(k=4)",
    "shaw(k=3,on=keys,times_key=yes,order=i-j,heads=each)",
    "transformer_xl",
    "rope",
    "rope(scaling=dynamic,factor=2,original=8)",
    "kerple",
    "fire(length=8,hidden=5)",
]

IDS = [case.text for case in CASES]


def by_text(text: str) -> Case:
    """The case of a text."""
    return next(case for case in CASES if case.text == text)


def make(text: str, num_heads: int, head_size: int, seed: int = 0, **more: Any) -> Any:
    """The scheme with parameters redrawn, deviation 0.5, so that an error in them shows."""
    scheme = position.make(text, num_heads=num_heads, head_size=head_size, **more)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in scheme.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if name in ("bias_p", "bias_a"):  # positive, within the bounds
                drawn = 0.05 + drawn.abs().clamp(max=1.5)
            parameter.copy_(drawn * 0.5)
    if scheme.embeds:  # who never asks is warned
        scheme._asked.yes = True
    return scheme


def doubles(scheme: Any) -> dict[str, torch.Tensor]:
    """Its parameters in double, each a leaf of its own."""
    return {
        name: parameter.detach().double().requires_grad_()
        for name, parameter in scheme.named_parameters()
    }


def draw(b: int, h: int, hk: int, n: int, m: int, d: int, dv: int) -> list[torch.Tensor]:
    """q, k, v in float32."""
    return [torch.randn(b, h, n, d), torch.randn(b, hk, m, d), torch.randn(b, hk, m, dv)]

"""DeBERTa v1: positions as they are, up to a largest; q, k and v of a head in one projection."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.deberta.modeling_deberta import (
    DebertaEncoder,
    DisentangledSelfAttention,
    build_relative_position,
)

from ._disentangled import (
    HOW,
    Disentangled,
    DisentangledStack,
    Rows,
    has_rows,
    prepare_rows,
    whole_mask,
)
from ._family import Family
from ._kept import plain
from ._projection import project


class LocantDebertaSelfAttention(Disentangled, DisentangledSelfAttention):
    """DisentangledSelfAttention in Locant's kernel."""

    replaces = DisentangledSelfAttention

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        output_attentions: bool = False,
        query_states: Tensor | None = None,
        relative_pos: Any = None,
        rel_embeddings: Tensor | None = None,
    ) -> Any:
        """As before: (output [B, L, hidden], None), or with the weights where asked for."""
        usual, ignored = self.judge(
            hidden_states, attention_mask, output_attentions, query_states, relative_pos
        )
        if not usual or query_states is not None:
            if isinstance(relative_pos, str):
                relative_pos = build_relative_position(hidden_states, hidden_states)
            return super().forward(
                hidden_states, whole_mask(attention_mask, hidden_states), output_attentions,
                query_states, relative_pos, rel_embeddings,
            )  # fmt: skip
        heads = self.num_attention_heads
        # k has no bias. In the projection's rows q, k and v take turns, head by head.
        q_bias, v_bias = self.q_bias.view(heads, 1, -1), self.v_bias.view(heads, 1, -1)
        bias = torch.cat([q_bias, torch.zeros_like(q_bias), v_bias], 1).flatten()
        if plain(self.in_proj):
            # transformers loads these two in float32, whatever the weights' type.
            made = project(hidden_states, self.in_proj.weight, bias.to(self.in_proj.weight.dtype))
        else:
            made = self.in_proj(hidden_states) + bias
        q, k, v = made.unflatten(2, (heads, -1)).transpose(1, 2).chunk(3, dim=-1)
        rows: Rows = (None, None)
        if has_rows(self) and rel_embeddings is not None and relative_pos is not None:
            key = self.pos_proj if "c2p" in self.pos_att_type else None
            query = self.pos_q_proj if "p2c" in self.pos_att_type else None
            rows = self.rows_of(rel_embeddings, q.shape[2], key, query)
        return self.attend(q, k, v, rows, ignored, 1 + len(self.pos_att_type)), None


class LocantDebertaEncoder(DisentangledStack, DebertaEncoder):
    """DebertaEncoder without matrices of tokens by tokens."""

    replaces = DebertaEncoder
    attention_class = DisentangledSelfAttention


def prepare(module: nn.Module) -> None:
    """Finds the rows of distances."""
    if getattr(module, "talking_head", False):
        raise ValueError("talking heads mix the scores of all heads")
    prepare_rows(module, 0)


FAMILY = Family(
    attention={DisentangledSelfAttention: LocantDebertaSelfAttention},
    stacks={DebertaEncoder: LocantDebertaEncoder},
    how=HOW,
    prepare=prepare,
    interface=False,
)

"""DeBERTa v2 and v3: positions in logarithmic buckets, one table for all layers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers.models.deberta_v2.modeling_deberta_v2 import (
    DebertaV2Encoder,
    DisentangledSelfAttention,
)

from ._disentangled import (
    HOW,
    KEPT,
    Disentangled,
    DisentangledStack,
    Rows,
    has_rows,
    kept_table,
    prepare_rows,
    whole_mask,
)
from ._family import Family
from ._kept import plain


class LocantDebertaV2SelfAttention(Disentangled, DisentangledSelfAttention):
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
        if not usual or (rel_embeddings is None and has_rows(self)):
            relative_pos = None if isinstance(relative_pos, str) else relative_pos  # makes its own
            return super().forward(
                hidden_states, whole_mask(attention_mask, hidden_states), output_attentions,
                query_states, relative_pos, rel_embeddings,
            )  # fmt: skip
        shape = (*hidden_states.shape[:-1], self.num_attention_heads, -1)
        q = self.query_proj(hidden_states if query_states is None else query_states)
        q, k, v = (
            x.view(shape).transpose(1, 2)
            for x in (q, self.key_proj(hidden_states), self.value_proj(hidden_states))
        )
        c2p, p2c = "c2p" in self.pos_att_type, "p2c" in self.pos_att_type
        rows: Rows = (None, None)
        if rel_embeddings is not None and has_rows(self) and (c2p or p2c):
            key, query = (
                (self.key_proj, self.query_proj)
                if self.share_att_key
                else (getattr(self, "pos_key_proj", None), getattr(self, "pos_query_proj", None))
            )
            rows = self.rows_of(
                rel_embeddings, q.shape[2], key if c2p else None, query if p2c else None
            )
        return self.attend(q, k, v, rows, ignored, 1 + c2p + p2c), None


class LocantDebertaV2Encoder(DisentangledStack, DebertaV2Encoder):
    """DebertaV2Encoder without matrices of tokens by tokens."""

    replaces = DebertaV2Encoder
    attention_class = DisentangledSelfAttention

    def train(self, mode: bool = True) -> Any:
        """As any module's, and forgets the kept table."""
        self.__dict__.pop(KEPT, None)
        return super().train(mode)

    def get_rel_embedding(self) -> Tensor | None:
        """The table after its norm; in evaluation the same tensor while no parameter changes."""
        sources, eps = [], None
        if self.relative_attention:
            sources = [self.rel_embeddings.weight]
            if "layer_norm" in self.norm_rel_ebd:
                norm = self.LayerNorm
                if not plain(norm):
                    return super().get_rel_embedding()
                sources += [p for p in (norm.weight, norm.bias) if p is not None]
                eps = norm.eps
        return kept_table(self, super().get_rel_embedding, sources, eps)


def prepare(module: nn.Module) -> None:
    """Finds the rows of distances."""
    prepare_rows(module, getattr(module, "position_buckets", -1))


FAMILY = Family(
    attention={DisentangledSelfAttention: LocantDebertaV2SelfAttention},
    stacks={DebertaV2Encoder: LocantDebertaV2Encoder},
    how=HOW,
    prepare=prepare,
    interface=False,
)

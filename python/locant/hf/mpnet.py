"""MPNet: T5's biases after the usual scale, one table for all layers, learned positions beside."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, nn
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention

from .._attention import attention
from ..position import Mpnet
from ._blind import averaged, blind_rows
from ._family import NAME, PREFIX, Family, attention_in
from ._interface import CHANGED, DENSE, WEIGHTS, Bias, additive, key_mask, say_original, whole_mask
from ._kept import plain

_INDEX = PREFIX + "index"
_BUCKETS = 32  # what the encoder calls with, whatever its configuration says


class LocantMPNetEncoder(MPNetEncoder):
    """MPNetEncoder whose biases stay a table."""

    replaces = MPNetEncoder

    def _whole(self) -> bool:
        """Whether all attention inside is ours: some may have been restored."""
        return all(isinstance(m, LocantMPNetSelfAttention) for m in self._inside())

    def _inside(self) -> Iterator[nn.Module | None]:
        return (attention_in(layer, "attention.attn", MPNetSelfAttention) for layer in self.layer)

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """As before; layers of transformers get the mask as they add it."""
        if attention_mask is not None and not self._whole():
            if attention_mask.dim() < 4:
                attention_mask = attention_mask.reshape(attention_mask.shape[0], 1, 1, -1)
            attention_mask = additive(attention_mask, hidden_states.dtype)
        return super().forward(hidden_states, attention_mask, *args, **kwargs)

    def compute_position_bias(
        self, x: Tensor, position_ids: Tensor | None = None, num_buckets: int = _BUCKETS
    ) -> Any:
        """A `Bias`; the matrix for positions or buckets of the caller's own."""
        matrix = partial(super().compute_position_bias, x, position_ids, num_buckets)
        ours = self._whole() and self.config._attn_implementation == NAME
        changed = not plain(self.relative_attention_bias)
        if ours and changed:
            say_original(self, CHANGED)
        if not ours or changed or position_ids is not None or num_buckets != _BUCKETS:
            return matrix()
        first: Any = next(self._inside())
        index = first.__dict__[_INDEX]
        return Bias(self.relative_attention_bias.weight, index, 0, matrix)


class LocantMPNetSelfAttention(MPNetSelfAttention):
    """MPNetSelfAttention in Locant's kernel."""

    replaces = MPNetSelfAttention

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Any = None,
        output_attentions: bool = False,
        **kwargs: Any,
    ) -> Any:
        """As before: (output [B, L, hidden],), with attention weights where they are asked for."""
        mask, dense = key_mask(attention_mask)
        if output_attentions or dense or isinstance(position_bias, Tensor):
            if isinstance(position_bias, Bias):
                say_original(self, WEIGHTS if output_attentions else DENSE)
                position_bias = position_bias.dense() if position_bias.dense else None
            n = hidden_states.shape[1]
            seen = whole_mask(attention_mask, False, 0, n, n, hidden_states.device)
            return super().forward(
                hidden_states, additive(seen, hidden_states.dtype), position_bias,
                output_attentions=output_attentions, **kwargs,
            )  # fmt: skip
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        q, k, v = (p(hidden_states).view(shape).transpose(1, 2) for p in (self.q, self.k, self.v))
        out = attention(
            q, k, v,
            None if position_bias is None else position_bias.terms(),
            dropout=self.dropout.p if self.dropout.training else 0.0,
            key_padding_mask=mask,
        )  # fmt: skip
        if attention_mask is not None and attention_mask.dim() > 2:
            out = averaged(out, v, blind_rows(attention_mask))
        return (self.o(out.transpose(1, 2).flatten(2)),)


def prepare(module: nn.Module) -> None:
    """Finds the buckets of distances."""
    scheme = Mpnet(1, buckets=_BUCKETS, max_distance=128, rounding="float32")
    module.__dict__[_INDEX] = scheme.bucket_map()


FAMILY = Family(
    attention={MPNetSelfAttention: LocantMPNetSelfAttention},
    stacks={MPNetEncoder: LocantMPNetEncoder},
    how="biases of the encoder stay a table, keys to ignore stay [batch, keys]",
    prepare=prepare,
    interface=True,
)

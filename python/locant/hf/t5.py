"""T5."""

from __future__ import annotations

from transformers.models.t5.modeling_t5 import T5Attention, eager_attention_forward

from ._family import Family
from ._t5_attention import HOW, BiasAsTable, prepare


class LocantT5Attention(BiasAsTable, T5Attention):  # type: ignore[misc]
    """T5Attention with its biases as a table."""

    replaces = T5Attention
    eager = staticmethod(eager_attention_forward)


FAMILY = Family(
    attention={T5Attention: LocantT5Attention},
    stacks={},
    how=HOW,
    prepare=prepare,
    interface=True,
)

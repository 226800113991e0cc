"""UMT5: T5 with a table in every layer."""

from __future__ import annotations

from transformers.models.umt5.modeling_umt5 import UMT5Attention, eager_attention_forward

from ._family import Family
from ._t5_attention import HOW, BiasAsTable, prepare


class LocantUMT5Attention(BiasAsTable, UMT5Attention):  # type: ignore[misc]
    """UMT5Attention with its biases as a table."""

    replaces = UMT5Attention
    eager = staticmethod(eager_attention_forward)


FAMILY = Family(
    attention={UMT5Attention: LocantUMT5Attention},
    stacks={},
    how=HOW,
    prepare=prepare,
    interface=True,
)

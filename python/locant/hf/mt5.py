"""mT5: the code is T5's, copied."""

from __future__ import annotations

from transformers.models.mt5.modeling_mt5 import MT5Attention, eager_attention_forward

from ._family import Family
from ._t5_attention import HOW, BiasAsTable, prepare


class LocantMT5Attention(BiasAsTable, MT5Attention):  # type: ignore[misc]
    """MT5Attention with its biases as a table."""

    replaces = MT5Attention
    eager = staticmethod(eager_attention_forward)


FAMILY = Family(
    attention={MT5Attention: LocantMT5Attention},
    stacks={},
    how=HOW,
    prepare=prepare,
    interface=True,
)

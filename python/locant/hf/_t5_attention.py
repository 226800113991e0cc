"""What T5, mT5 and UMT5 have in common: their biases stay a table on the way to attention."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn

from ..position import T5
from ._family import NAME, PREFIX
from ._interface import CHANGED, Bias, say_original
from ._kept import plain

HOW = 'attention implementation "locant"; biases stay a table, keys to ignore stay [batch, keys]'
_INDEX = PREFIX + "index"


def prepare(module: nn.Module) -> None:
    """Finds the buckets of distances, which follow from the configuration alone."""
    attention: Any = module
    if attention.config.output_attentions:
        raise ValueError("its configuration asks for attention weights in every call")
    scheme = T5(
        1,
        buckets=attention.relative_attention_num_buckets,
        max_distance=attention.relative_attention_max_distance,
        bidirectional="no" if attention.is_decoder else "yes",
        rounding="float32",
    )
    module.__dict__[_INDEX] = scheme.bucket_map()


class BiasAsTable:
    """In front of transformers' class: hands on a `Bias` where that makes [1, H, Q, K]."""

    config: Any
    relative_attention_num_buckets: int
    n_heads: int
    _modules: dict[str, Any]

    @property
    def has_relative_attention_bias(self) -> bool:
        """True in cross attention too: it is then asked for biases and can say that it has none."""
        own = self.__dict__["has_relative_attention_bias"]
        return own or self.config._attn_implementation == NAME

    @has_relative_attention_bias.setter
    def has_relative_attention_bias(self, own: bool) -> None:
        self.__dict__["has_relative_attention_bias"] = own

    @property
    def relative_attention_bias(self) -> nn.Module:
        """The table; where there is none, one without numbers, which transformers initialises."""
        own = self._modules.get("relative_attention_bias")
        sizes = self.relative_attention_num_buckets, self.n_heads
        return nn.Embedding(*sizes, device="meta") if own is None else own

    def compute_bias(
        self,
        query_length: int,
        key_length: int,
        device: Any = None,
        past_seen_tokens: int | Tensor = 0,
    ) -> Any:
        """A `Bias`; the matrix when the config has another attention by now."""
        inherited = super().compute_bias  # type: ignore[misc]
        if self.config._attn_implementation != NAME:
            return inherited(query_length, key_length, device, past_seen_tokens)
        if "relative_attention_bias" not in self._modules:
            return Bias(None, None, past_seen_tokens)
        dense = partial(inherited, query_length, key_length, device, past_seen_tokens)
        own = self._modules["relative_attention_bias"]
        if not plain(own):
            module: Any = self
            say_original(module, CHANGED)
            return dense()
        return Bias(own.weight, self.__dict__[_INDEX], past_seen_tokens, dense)

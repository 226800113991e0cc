"""RoPE, rotary positions (Su et al. 2021, arXiv 2104.09864) and the scalings of its frequencies."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .._lasting import lasting
from .built_in import BuiltIn, specification_of
from .rotary import rotation_of_length
from .scheme import Call
from .terms import Terms


class Rope(BuiltIn):
    """Turns pairs of channels of q and k by p * base^(-2t/r), with p the token's position.

    width: channels that turn (0: share * head_size). partial: "leading" or "proportional".
    layout: "half-split" (NeoX, Llama in transformers) or "interleaved" (GPT-J, Meta's Llama).
    scaling: "none", "linear", "ntk", "dynamic", "yarn", "llama3" or "longrope", with the options of
    `locant show rope`: factor, original, max_position, beta_fast, beta_slow, truncate,
    attention_factor, mscale, mscale_all_dim, scale_softmax, low_freq_factor, high_freq_factor,
    short_factor, long_factor. rotate_layers and local_layers are patterns over layers, of which
    this module is number `layer`. Nothing is learned.
    """

    def __init__(
        self,
        head_size: int,
        *,
        base: float = 10000.0,
        width: int = 0,
        share: float = 1.0,
        partial: str = "leading",
        layout: str = "half-split",
        scaling: str = "none",
        factor: float | None = None,
        original: int | None = None,
        max_position: int | None = None,
        beta_fast: float | None = None,
        beta_slow: float | None = None,
        truncate: bool | None = None,
        attention_factor: float | None = None,
        mscale: float | None = None,
        mscale_all_dim: float | None = None,
        scale_softmax: bool | None = None,
        low_freq_factor: float | None = None,
        high_freq_factor: float | None = None,
        short_factor: Sequence[float] = (),
        long_factor: Sequence[float] = (),
        rotate_layers: Sequence[int] = (),
        local_layers: Sequence[int] = (),
        local_base: float | None = None,
        layer: int = 0,
    ) -> None:
        options = {
            "base": base,
            "width": width,
            "share": share,
            "partial": partial,
            "layout": layout,
            "scaling": scaling,
            "factor": factor,
            "original": original,
            "max_position": max_position,
            "beta_fast": beta_fast,
            "beta_slow": beta_slow,
            "truncate": truncate,
            "attention_factor": attention_factor,
            "mscale": mscale,
            "mscale_all_dim": mscale_all_dim,
            "scale_softmax": scale_softmax,
            "low_freq_factor": low_freq_factor,
            "high_freq_factor": high_freq_factor,
            "short_factor": tuple(short_factor),
            "long_factor": tuple(long_factor),
            "rotate_layers": tuple(rotate_layers),
            "local_layers": tuple(local_layers),
            "local_base": local_base,
        }
        super().__init__(specification_of("rope", options), head_size=head_size, layer=layer)
        lowered = self.lowered(Call(1, 1, head_size=head_size))
        self._by_length = scaling in ("dynamic", "longrope")
        turn: Tensor | None = lowered[11] if lowered[11].numel() else None
        # Made once: a call costs little more than its terms otherwise.
        with lasting():  # a number is read
            self._fixed = Terms(rotation=turn, scale_factor=float(lowered[12][0]))

    def terms(self, call: Call) -> Terms:
        """A rotation; the frequencies of "dynamic" and "longrope" depend on the call's length."""
        self.check_head_size(call)
        turn = self._fixed.rotation
        if turn is None or not self._by_length:
            return self._fixed
        if call.is_unread():
            return self.by_registry()
        return self._fixed._replace(rotation=rotation_of_length(self, call, turn.numel()))

"""ALiBi, linear biases (Press et al. 2021, arXiv 2108.12409)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._lasting import lasting
from .built_in import BuiltIn, specification_of
from .scheme import Call
from .terms import NumberPerDistance, Terms


class Alibi(BuiltIn):
    """score_ij += -m_h |i - j| outside the scale, with the published slopes m_h.

    max_exponent: the last slope is 2^-max_exponent (MPT: alibi_bias_max). form: "symmetric" or
    "deepmind" (without a causal mask half a step is taken off the past). scaled: inside the scale,
    as in Falcon. slopes: "fixed", or "learned": m_h exp(log_slope_factors[h]).
    Parameter, when learned: log_slope_factors [num_heads].
    """

    def __init__(
        self,
        num_heads: int,
        *,
        max_exponent: float = 8.0,
        form: str = "symmetric",
        scaled: bool = False,
        slopes: str = "fixed",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = {"max_exponent": max_exponent, "form": form, "scaled": scaled, "slopes": slopes}
        super().__init__(
            specification_of("alibi", options), num_heads=num_heads, device=device, dtype=dtype
        )
        self.scaled, self.learned, self.half_step = scaled, slopes == "learned", form == "deepmind"
        call = Call(1, 1, heads=num_heads, causal=True)
        with lasting():
            self._published: Tensor = -self.lowered(call)[1]
            self._maps = [torch.tensor([0, before, 0, 0], dtype=torch.int32) for before in (0, 1)]
            # Made once: a call costs little more than its terms otherwise.
            self._fixed = {
                (half_step, dtype): self._terms(self._published.to(dtype), half_step)
                for half_step in (False, True)
                for dtype in (torch.float32, torch.float64)
            }

    def slopes(self) -> Tensor:
        """m_h, [num_heads]."""
        published = self._published
        if not self.learned:
            return published
        factors = self.array("log_slope_factors")
        return published.to(factors) * factors.exp()

    def terms(self, call: Call) -> Terms:
        """A table of a zero at distance 0, and lines on both sides."""
        self.check_heads(call)
        half_step = self.half_step and not call.causal
        if self.learned:
            return self._terms(self.slopes(), half_step)
        return self._fixed[half_step, call.dtype]

    def _terms(self, slopes: Tensor, half_step: bool) -> Terms:
        zero = torch.zeros_like(slopes)
        table = torch.stack([zero, slopes / 2], 1) if half_step else zero[:, None]
        return Terms(
            number=NumberPerDistance(
                table, self._maps[int(half_step)], self.scaled, left=-slopes, right=-slopes
            )
        )

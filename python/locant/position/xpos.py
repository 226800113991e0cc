"""xPos, rotary positions that fade (Sun et al. 2022, arXiv 2212.10554)."""

from __future__ import annotations

from .built_in import BuiltIn, specification_of
from .rotary import rotation_of_length
from .scheme import Call
from .terms import Terms


class Xpos(BuiltIn):
    """RoPE whose pairs also shrink with distance, by zeta_t = (2t/D + gamma) / (1 + gamma).

    base, layout: as in `Rope`. scale_base: distance at which a pair has faded to its zeta. center:
    position of scale 1, -1 for the middle of the sequence. A length whose scales leave single
    precision is a ValueError. Nothing is learned.
    """

    def __init__(
        self,
        head_size: int,
        *,
        base: float = 10000.0,
        scale_base: float = 512.0,
        gamma: float = 0.4,
        layout: str = "interleaved",
        center: int = -1,
    ) -> None:
        options = {
            "base": base,
            "scale_base": scale_base,
            "gamma": gamma,
            "layout": layout,
            "center": center,
        }
        super().__init__(specification_of("xpos", options), head_size=head_size)
        self._numbers = self.lowered(Call(1, 1, head_size=head_size))[11].numel()

    def terms(self, call: Call) -> Terms:
        """A rotation with growth rates."""
        self.check_head_size(call)
        if call.is_unread():
            return self.by_registry()
        return Terms(rotation=rotation_of_length(self, call, self._numbers))

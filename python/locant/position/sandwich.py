"""Sandwich, biases of sinusoids (Chi et al. 2022, arXiv 2212.10356)."""

from __future__ import annotations

import torch

from .built_in import BuiltIn, InvalidScheme, specification_of
from .scheme import Call, check_span
from .terms import NumberPerDistance, Terms, identity_map

_AT_A_TIME = 1 << 16  # distances


class Sandwich(BuiltIn):
    """score_ij += (sum_t cos((i - j) / base^(2t/D)) - D/2) H / (8 h), t = 1 ... D/2, h = 1 ... H.

    Fixed, outside the scale. width: number of sinusoids D, 0 for the head size.
    """

    def __init__(
        self, num_heads: int, head_size: int, *, base: float = 10000.0, width: int = 0
    ) -> None:
        super().__init__(
            specification_of("sandwich", {"base": base, "width": width}),
            num_heads=num_heads,
            head_size=head_size,
        )
        self.base, self.sinusoids = base, width or head_size
        if self.sinusoids < 2 or self.sinusoids % 2:
            raise InvalidScheme(
                f"[sandwich] width must be even and 2 or more, got {self.sinusoids}"
            )

    def terms(self, call: Call) -> Terms:
        """A table with one number for each distance that the call can reach."""
        self.check_heads(call)
        self.check_head_size(call)
        if call.is_unread():
            return self.by_registry()
        first, last, _ = call.span()
        check_span("sandwich", first, last)
        pairs = self.sinusoids // 2
        t = torch.arange(1, pairs + 1, dtype=torch.float64)
        frequency = self.base ** (-t / pairs)
        n = torch.arange(first, last + 1, dtype=torch.float64).abs()
        # Some at a time: there are many frequencies.
        sums = [torch.cos(some[:, None] * frequency).sum(1) for some in n.split(_AT_A_TIME)]
        total = torch.cat(sums) - pairs
        h = torch.arange(1, self.num_heads + 1, dtype=torch.float64)
        table = (self.num_heads / (8 * h))[:, None] * total
        return Terms(number=NumberPerDistance(table, identity_map(first, last)))

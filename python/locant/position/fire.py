"""FIRE, functional interpolation (Li et al. 2023, arXiv 2310.04418)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .built_in import Registered, specification_of


class Fire(Registered):
    """score_ij += MLP_h(psi(|i - j|) / (psi(max(i, L)) + 1e-6)), psi(x) = ln(|c x| + 1).

    Outside the scale. It depends on the query's own position, so it is no table: the kernel asks
    the C++ code for a tile of it at a time. length: L before training. hidden: of the network.
    Parameters: c, L_multiplier [1], mlp.0.weight [hidden, 1], mlp.0.bias,
    mlp.2.weight [num_heads, hidden], mlp.2.bias.
    """

    def __init__(
        self,
        num_heads: int,
        *,
        length: float = 512.0,
        hidden: int = 32,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            specification_of("fire", {"length": length, "hidden": hidden}),
            num_heads=num_heads,
            device=device,
            dtype=dtype,
        )
        self.length = length

    def dense(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The network on every pair: positions [B or 1, Q], [.., K] to [B or 1, H, Q, K]."""
        # Now: what functional_call puts in their place may be gone when the function is called.
        slope, multiplier = self.array("c"), self.array("L_multiplier")
        first = self.array("mlp.0.weight"), self.array("mlp.0.bias")
        second = self.array("mlp.2.weight"), self.array("mlp.2.bias")

        def bias(q_positions: Tensor, k_positions: Tensor) -> Tensor:
            c = slope.double()
            i = q_positions.double()[:, :, None]
            away = (i - k_positions.double()[:, None, :]).abs()
            threshold = (multiplier.double() * self.length).abs()
            bent = torch.log((c * away).abs() + 1)
            norm = torch.log((c * torch.maximum(i, threshold)).abs() + 1) + 1e-6
            linear = torch.nn.functional.linear
            x = (bent / norm)[..., None]
            hidden = linear(x, *(array.double() for array in first))
            out = linear(hidden.relu(), *(array.double() for array in second))
            return out.permute(0, 3, 1, 2)

        return bias

"""Queries that see no key, as padding has them: transformers averages there, the kernel gives zero.

transformers hides a key by the lowest number of the type. Where it hides all keys of a query, all
have the same score and the same probability: the output is the mean of all values, those of padding
and of later tokens included. It has no more to say than that, so its gradient is of the values
alone. Dropout leaves it as it is, which is right on average.
"""

from __future__ import annotations

import torch
from torch import Tensor


def blind_rows(
    seen: Tensor, causal: bool = False, past: int | Tensor = 0, queries: int = 1
) -> Tensor:
    """[B or 1, H or 1, Q or 1, 1] bool: queries that see no key.

    seen: [B or 1, 1, K] or [B or 1, H or 1, 1, K], True for keys to see, or numbers that are added
    to scores. past: tokens before the first query, where the call is causal.
    """
    if seen.dim() == 3:
        seen = seen[:, None]
    if seen.dtype != torch.bool:
        seen = seen > torch.finfo(seen.dtype).min / 2
    if not causal:
        return ~seen.any(3, keepdim=True)
    last = torch.arange(queries, device=seen.device) + past
    so_far = seen.cumsum(3)[..., last.clamp(max=seen.shape[3] - 1)]
    return (so_far == 0).transpose(2, 3)


def averaged(out: Tensor, v: Tensor, blind: Tensor) -> Tensor:
    """out [B, H, Q, Dv] with the mean of all values [B, Hk, K, Dv] in blind rows."""
    mean = v.mean(2, keepdim=True).to(out.dtype)
    if mean.shape[1] != out.shape[1]:
        mean = mean.repeat_interleave(out.shape[1] // mean.shape[1], 1)
    return torch.where(blind, mean, out)

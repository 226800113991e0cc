"""The kernel's dropout mask in PyTorch: locant/attention/dropout.h, in 64-bit integers."""

from __future__ import annotations

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF


def _low_high(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """Both words of the 64-bit product of 32-bit numbers."""
    low, high = (x & 0xFFFF) * multiplier, (x >> 16) * multiplier
    return (low + (high << 16)) & _WORD, (high + (low >> 16)) >> 16


def _philox(counter: list[Tensor], key: list[Tensor]) -> list[Tensor]:
    """Philox4x32-10 (locant/base/random.h)."""
    a, b, c, d = counter
    e, f = key
    for _ in range(10):
        low0, high0 = _low_high(a, 0xD2511F53)
        low1, high1 = _low_high(c, 0xCD9E8D57)
        a, b, c, d = high1 ^ b ^ e, low1, high0 ^ d ^ f, low0
        e, f = (e + 0x9E3779B9) & _WORD, (f + 0xBB67AE85) & _WORD
    return [a, b, c, d]


def _hash(n: Tensor, key0: Tensor, key1: Tensor) -> Tensor:
    """keyed_hash of locant/base/keyed_hash.h."""
    x = ((n ^ key0) * 0xED5AD4BB) & _WORD
    x = ((x ^ (x >> 11) ^ key1) * 0xAC4C1B51) & _WORD
    return ((x ^ (x >> 15)) * 0x31848BAB) & _WORD


def keep(
    seed: Tensor,
    rate: float,
    heads: int,
    batch: Tensor,
    queries: Tensor,
    keys: Tensor,
    per_query: bool = False,
) -> Tensor:
    """[B, H, Q, K] bool: which probabilities stay.

    batch [B], queries [Q], keys [K]: numbers of batch elements and tokens; per_query: `batch` [Q]
    is the number of each query's sequence, and B is 1.
    """
    device = queries.device
    seed = seed.to(device)[0]
    head = torch.arange(heads, device=device)[None, :, None]
    b = batch[None, None, :] if per_query else batch[:, None, None]
    b, h, i = torch.broadcast_tensors(b, head, queries)
    words = _philox([i, h, b, torch.full_like(b, 0x64726F70)], [seed & _WORD, (seed >> 32) & _WORD])
    threshold = min(int(rate * 2**32 + 0.5), _WORD)
    return _hash(keys, words[0][..., None], words[1][..., None]) >= threshold

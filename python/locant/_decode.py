"""Decoding: a few new queries over a cache of keys and values, at the speed of memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _ops
from ._attention import _flatten
from ._cache import KVCache, lowered
from ._check import (
    Window,
    check_number,
    explain_terms,
    key_numbers,
    limits,
    pair,
)
from .position.scheme import Call


def _where_held(cache: KVCache, positions: Tensor) -> Tensor:
    """Positions [B or 1, places]: where no token is held, that of some other key."""
    batch = len(cache.lengths)
    if positions.dim() != 2 or positions.shape[0] not in (1, batch):
        raise ValueError(
            f"decode: positions of the keys must be [{cache.capacity}] or [{batch} or 1, "
            f"{cache.capacity}], got {list(positions.shape)}"
        )
    positions = cache.whole_pages("positions of the keys", positions)
    held = cache.holds(positions.shape[1])
    held = held.any(0, keepdim=True) if positions.shape[0] == 1 else held
    some = int(positions[held].min()) if held.any() else 0
    return torch.where(held, positions, some)


def _check_turned(cache: KVCache, positions: Tensor) -> None:
    """Keys that are held turned cannot move: ValueError unless `positions` are those of append."""
    stored = cache.positions
    if stored is None:
        stored = torch.arange(cache.capacity, device="cpu").expand(len(cache.lengths), -1)
    moved = (positions[:, : cache.capacity] != stored) & cache.holds(cache.capacity)
    if moved.any():
        b, j = (int(n) for n in moved.nonzero()[0])
        got = int(positions[b if len(positions) > 1 else 0, j])
        raise ValueError(
            "decode: positions of the keys must be those given to append, as the cache holds keys "
            f"turned by the rotation there: expected {int(stored[b, j])} for token {j} of sequence "
            f"{b}, got {got}"
        )


def _of_last(cache: KVCache, queries: int) -> Tensor | None:
    """Remembered positions [B, Q] of the last tokens of every sequence."""
    if cache.positions is None:
        return None
    places = (cache.lengths[:, None] - queries).clamp(min=0) + torch.arange(queries, device="cpu")
    held = places < cache.lengths[:, None]
    return torch.where(held, cache.positions.gather(1, places * held), places)


def _own_lengths(
    cache: KVCache, queries: int, q_positions: Tensor | None, k_positions: Tensor | None
) -> list[int]:
    """What `attention` would take for the length of each sequence: the largest position + 1."""
    ends = cache.lengths
    if k_positions is not None:
        ends = torch.where(cache.holds(k_positions.shape[1]), k_positions + 1, 0).amax(1)
    if q_positions is None:
        ends = torch.maximum(ends, cache.lengths.clamp(min=queries))
    elif q_positions.numel() and q_positions.shape[0] in (1, len(ends)):  # others are refused soon
        ends = torch.maximum(ends, q_positions.amax(1) + 1)
    return [max(int(end), 1) for end in ends]


@torch.compiler.disable  # it reads lengths: traced, frequencies by length and given positions fail
def decode(
    q: Tensor,
    cache: KVCache,
    *,
    causal: bool = True,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    key_padding_mask: Tensor | None = None,
    positions: Tensor | tuple[Tensor, Tensor] | None = None,
    return_lse: bool = False,
) -> Any:
    """Attention of new queries q [B, H, Q, D] over a cache that already holds their own tokens.

    The position scheme is the cache's. Queries stand at the end of their sequence, query i of
    sequence b at lengths[b] - Q + i, and key j at j, or where append was told that these tokens
    stand; unless `positions` (int64 [Q] or [B, Q]) says otherwise of the queries, or a pair also
    of the keys, [B or 1, capacity], where tokens have moved (not with a rotation, whose keys are
    held turned: ValueError). With more queries than tokens they count from 0, as in `attention`.
    Frequencies that follow the length follow that of each sequence: its largest position + 1.
    key_padding_mask: [B, capacity], as in `attention`. Other arguments as there; no gradients.
    Returns out [B, H, Q, Dv], and with return_lse the log-sum-exp. Made for up to about 16 queries.
    """
    for name, given, kind, article in (
        ("q", q, Tensor, "a tensor"),
        ("cache", cache, KVCache, "a KVCache"),
    ):
        if not isinstance(given, kind):
            raise TypeError(f"decode: {name} must be {article}, got {type(given).__name__}")
    causal, left, right = limits("decode", causal, window)
    check_number("decode", "scale", scale)
    check_number("decode", "softcap", softcap)
    if q.dim() != 4:
        raise ValueError(
            f"decode: q must be [batch, heads, length, size], got {q.dim()} dimensions"
        )
    if q.shape[0] != len(cache.lengths):
        raise ValueError(
            f"decode: q must have the cache's batch, {len(cache.lengths)}, got {q.shape[0]}"
        )
    if q.device.type != "cpu":
        raise ValueError(f"decode: q must be on the CPU, as the cache is, got {q.device}")
    if q.dtype != cache.k.dtype:
        raise TypeError(f"decode: q must have the cache's dtype, {cache.k.dtype}, got {q.dtype}")
    longest = int(cache.lengths.max())
    q_positions = k_positions = None
    if positions is not None:
        q_positions, k_positions = pair("decode", positions, both=False)
    else:
        q_positions = _of_last(cache, q.shape[2])
    if k_positions is None:
        k_positions = cache.positions
    if k_positions is not None:
        k_positions = _where_held(cache, k_positions)
    heads, head_size, value_size = q.shape[1], q.shape[3], cache.v.shape[3]
    # Queries past the tokens held count from 0.
    farthest = torch.arange(max(longest, q.shape[2], 1), device="cpu")[None]
    everything = farthest[:, : max(longest, 1)]
    call = Call(
        longest,
        longest,
        heads,
        head_size,
        value_size,
        causal,
        (left, right),
        farthest if q_positions is None else q_positions,
        everything if k_positions is None else k_positions,
        q.device,
    )
    if positions is not None:
        call.span()  # refuses positions out of range before anything is made of them
    terms = lowered(cache.position, call)
    try:
        flat, scaled = _flatten(terms, _ops.real(q.dtype))
        factor = (head_size**-0.5 if scale is None else scale) * terms.scale_factor
    except (AttributeError, OverflowError, TypeError):
        explain_terms("decode", terms)
        raise
    if terms.rotation is not None:
        turn = cache.rotation
        if not cache.keys_turned:  # frequencies by the length of each sequence
            ends = _own_lengths(cache, q.shape[2], q_positions, k_positions)
            rows = [cache.rotation_at(end) for end in ends]
            turn = torch.stack([row for row in rows if row is not None])
        elif positions is not None and k_positions is not None:
            _check_turned(cache, k_positions)
        flat = (*flat[:11], turn, flat[12])
    mask = None
    if key_padding_mask is not None:
        mask = key_numbers("decode", key_padding_mask, q, cache.capacity)
        mask = cache.whole_pages("key_padding_mask", mask)
    scheme, width, layer = "", 1, 0
    if terms.scheme is not None:
        scheme, _, width, layer, _ = terms.scheme
    out, lse = torch.ops.locant.decode(
        q.detach(), cache.k, cache.v, cache.lengths, cache.block_table, mask, q_positions,
        k_positions, *(None if t is None else t.detach() for t in flat), scheme, width, layer,
        scaled, causal, left, right, factor, softcap or 0.0, cache.keys_turned,
    )  # fmt: skip
    return (out, lse) if return_lse else out

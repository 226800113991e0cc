"""The same attention, composed of PyTorch's operators: any device, any derivative, Q x K memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from ._dropout import keep
from ._ops import Arguments
from .position.scheme import number_of, row_products
from .position.terms import NumberPerDistance, RowPerDistance, look_up

_warned = False


Dense = Callable[[Tensor, Tensor], Tensor]


def run(a: Arguments, dense: Dense | None = None) -> tuple[Tensor, Tensor]:
    """Out and lse for the operators' arguments; warns once that this is not the fused kernel."""
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"locant: tensors on {a.q.device} are served by composed PyTorch operators, which hold "
            "all scores in memory; the fused kernel is for CPUs",
            stacklevel=3,
        )
    return composed(a, dense)


def composed(a: Arguments, dense: Dense | None = None) -> tuple[Tensor, Tensor]:
    """(out [B, H, Q, Dv], lse [B, H, Q]); order of operations as in the kernel."""
    if a.scheme and dense is None:
        raise NotImplementedError(
            f"locant: the scheme {a.scheme!r} is served by the fused CPU kernel only"
        )
    if a.scheme_parameters is not None and a.scheme_parameters.device != a.q.device:
        raise ValueError(
            f"attention: position, {a.scheme}, must be on the device of q, {a.q.device}, got "
            f"{a.scheme_parameters.device}"
        )
    wide = torch.float64 if a.q.dtype == torch.float64 else torch.float32
    q, k, v = a.q.to(wide), a.k.to(wide), a.v.to(wide)
    device, (batch, heads, queries, _), keys = q.device, q.shape, k.shape[2]
    if k.shape[1] != heads:
        k = k.repeat_interleave(heads // k.shape[1], 1)
        v = v.repeat_interleave(heads // v.shape[1], 1)
    packed = a.cu_seqlens_q is not None and a.cu_seqlens_k is not None
    if packed:
        q_sequence, q_token, k_sequence, k_token = _unpack(a, queries, keys)
    if a.q_positions is None or a.k_positions is None:
        start = max(0, keys - queries)
        q_positions = torch.arange(start, start + queries, device=device)[None]
        k_positions = torch.arange(keys, device=device)[None]
        if packed:
            q_positions, k_positions = _restarted(a, q_sequence, q_token)[None], k_token[None]
    else:
        q_positions, k_positions = a.q_positions.to(device), a.k_positions.to(device)
    distance = k_positions[:, None, :] - q_positions[:, :, None]  # [B or 1, Q, K]

    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if a.causal:
        hidden |= distance > 0
    if a.left >= 0:
        hidden |= distance < -a.left
    if a.right >= 0:
        hidden |= distance > a.right
    if packed:
        hidden |= q_sequence[:, None] != k_sequence
    hidden = hidden[:, None]
    if a.number_per_key is not None:
        added_to_key = a.number_per_key.to(q)[:, :, None, :]
        padding = added_to_key == float("-inf")
        hidden = hidden | padding
    hidden = hidden.expand(batch, heads, queries, keys)
    # A key that nobody sees, and a query that sees nothing, may hold anything, NaN included.
    seen, nothing = ~hidden.all(2)[..., None], hidden.all(3, keepdim=True)
    zero = torch.zeros((), dtype=wide, device=device)
    q = torch.where(nothing, zero, q)
    k, v = torch.where(seen, k, zero), torch.where(seen, v, zero)

    if a.rotation is not None:
        q = _turn(q, q_positions, a.rotation, +1)
        k = _turn(k, k_positions, a.rotation, -1)
    content = q if a.content_bias is None else q + a.content_bias.to(q)[:, None, :]
    scores = content @ k.transpose(2, 3)
    outside = []
    if a.number is not None and a.number_index is not None:
        number = NumberPerDistance(
            a.number.to(device),
            a.number_index,
            left=None if a.number_left is None else a.number_left.to(device),
            right=None if a.number_right is None else a.number_right.to(device),
        )
        added = number_of(number, distance).transpose(0, 1).to(wide)  # [B or 1, H or 1, Q, K]
        if a.scaled & 1:
            scores = scores + added
        else:
            outside.append(added)
    for bit, rows, index, side in (
        (2, a.query_rows, a.query_index, q),
        (4, a.key_rows, a.key_index, k),
    ):
        if rows is None or index is None:
            continue
        added = row_products(RowPerDistance(rows.to(q), index), side, distance, keys=bit == 4)
        if a.scaled & bit:
            scores = scores + added
        else:
            outside.append(added)
    scores = scores * a.scale
    if a.softcap:
        scores = a.softcap * torch.tanh(scores / a.softcap)
    if dense is not None:
        outside.append(dense(q_positions, k_positions).to(wide))
    for added in outside:
        scores = scores + added
    if a.number_per_key is not None:
        scores = scores + added_to_key.masked_fill(padding, 0)
    scores = scores.masked_fill(hidden, float("-inf"))
    scores = scores.masked_fill(nothing, 0)
    # Neither exp(scores - lse) nor logsumexp, whose derivative is that: where scores are huge the
    # lse has no digits left for the number of keys.
    weights = torch.softmax(scores, 3).masked_fill(hidden, 0)
    top = scores.detach().amax(3, keepdim=True) if keys else scores.new_zeros(())
    lse = top + torch.exp(scores - top).sum(3, keepdim=True).log()
    if a.dropout and a.dropout_seed is not None:
        if packed:
            kept = keep(a.dropout_seed, a.dropout, heads, q_sequence, q_token, k_token, True)
        else:
            b, i, j = (torch.arange(n, device=device) for n in (batch, queries, keys))
            kept = keep(a.dropout_seed, a.dropout, heads, b, i, j)
        weights = weights * kept / (1 - a.dropout)
    out = weights @ v
    if a.value_rows is not None and a.value_index is not None:
        row = look_up(a.value_index.to(device), distance)[:, None].expand(weights.shape)
        by_row = weights.new_zeros((batch, heads, queries, a.value_rows.shape[1] + 1))
        by_row = by_row.scatter_add(3, row + 1, weights)[..., 1:]
        out = out + by_row @ a.value_rows.to(out)
    lse = lse.masked_fill(nothing, float("-inf")).squeeze(3)
    return out.masked_fill(nothing, 0).to(a.q.dtype), lse


def _unpack(a: Arguments, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each query and key of a packed batch: its sequence, and its number in it."""
    out = []
    for bounds, length in ((a.cu_seqlens_q, queries), (a.cu_seqlens_k, keys)):
        assert bounds is not None
        bounds = bounds.to(a.q.device)
        token = torch.arange(length, device=a.q.device)
        sequence = torch.searchsorted(bounds[1:].contiguous(), token, right=True)
        out += [sequence, token - bounds[:-1][sequence]]
    return out[0], out[1], out[2], out[3]


def _restarted(a: Arguments, sequence: Tensor, token: Tensor) -> Tensor:
    """Default positions of packed queries: the last ones of their sequence."""
    assert a.cu_seqlens_q is not None and a.cu_seqlens_k is not None
    start = (a.cu_seqlens_k.diff() - a.cu_seqlens_q.diff()).clamp(min=0).to(a.q.device)
    return start[sequence] + token


def _turn(x: Tensor, positions: Tensor, rotation: Tensor, side: int) -> Tensor:
    """[B, H, L, D] turned by each token's position; side: +1 for queries, -1 for keys."""
    rotation = rotation.to("cpu")
    split, magnitude, center, grows = (float(n) for n in rotation[:4])
    rest = rotation[5:].to(x.device)
    n = rest.shape[0] // 2 if grows else rest.shape[0]
    p = positions.to(torch.float64)[:, None, :, None]
    angle = p * rest[:n]
    size = magnitude * (torch.exp(side * (p - center) * rest[n:]) if grows else torch.ones_like(p))
    cosine, sine = (size * angle.cos()).to(x.dtype), (size * angle.sin()).to(x.dtype)
    turned, kept = x[..., : 2 * n], x[..., 2 * n :]
    a, b = (turned[..., :n], turned[..., n:]) if split else (turned[..., ::2], turned[..., 1::2])
    c, d = a * cosine - b * sine, a * sine + b * cosine
    both = torch.cat([c, d], 3) if split else torch.stack([c, d], 4).flatten(3)
    return torch.cat([both, kept], 3)

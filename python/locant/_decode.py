"""Decoding: a few new queries over a cache of keys and values, at the speed of memory."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from . import _fork, _ops
from ._attention import (
    Window,
    _check_number,
    _check_terms,
    _flatten,
    _is_whole,
    _limits,
    _number_per_key,
    _whole,
)
from ._lasting import lasting
from .position import Rope, Xpos, make
from .position.built_in import BuiltIn
from .position.scheme import Call, Scheme, check_position
from .position.terms import Terms

_FOLLOWS_LENGTH = 4  # place in a rotation's head


def _lowered(position: Scheme | Terms | None, call: Call) -> Terms:
    if position is None:
        return Terms()
    terms = position if isinstance(position, Terms) else position(call)
    _check_terms("decode", position, terms)
    if terms.scheme is None:
        return terms
    specification, _, width, layer, _ = terms.scheme
    rotating = _rotating(specification, call.heads, call.head_size, width, layer)
    return terms if rotating is None else rotating(call)


@lru_cache
def _rotating(text: str, heads: int, head_size: int, width: int, layer: int) -> BuiltIn | None:
    """The module of a scheme of the registry that turns: a cache must know how keys are turned."""
    scheme = make(text, num_heads=heads, head_size=head_size, width=width, layer=layer)
    return scheme if isinstance(scheme, (Rope, Xpos)) else None


class KVCache:
    """Keys and values of a batch of sequences, which grow token by token.

    In one piece a sequence, k [batch, heads, capacity, head_size] and v [.., value_size]; with
    page_size in pages, k [pages, heads, page_size, head_size], taken from a pool as sequences grow.
    position: the scheme of the layer. Keys are stored turned by its rotation, so that a step turns
    its queries alone (except where frequencies follow the length: then they are turned when read).
    lengths: int64 [batch], tokens held. positions: int64 [batch, capacity] once append was given
    some, else None. float32, bfloat16 or float64, on the CPU; no gradients.
    """

    def __init__(
        self,
        batch: int,
        heads: int,
        capacity: int,
        head_size: int,
        value_size: int | None = None,
        *,
        position: Scheme | Terms | None = None,
        page_size: int | None = None,
        pages: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if dtype not in (torch.float32, torch.bfloat16, torch.float64):
            raise TypeError(f"KVCache: dtype must be float32, bfloat16 or float64, got {dtype}")
        sizes = {
            "batch": batch,
            "heads": heads,
            "capacity": capacity,
            "head_size": head_size,
            "value_size": head_size if value_size is None else value_size,
            "page_size": 1 if page_size is None else page_size,
            "pages": 1 if pages is None else pages,
        }
        for name, size in sizes.items():
            if not _is_whole(size):
                raise TypeError(f"KVCache: {name} must be a whole number, got {size!r}")
            if size < 1:
                raise ValueError(f"KVCache: {name} must be 1 or more, got {size}")
        if pages is not None and page_size is None:
            raise ValueError(f"KVCache: pages need page_size, got pages {pages} without it")
        check_position("KVCache", position)
        value_size = sizes["value_size"]
        self.capacity, self.page_size = capacity, page_size
        self.position = position
        shape = (batch, heads, capacity)
        blocks = 0
        if page_size is not None:
            blocks = -(-capacity // page_size)
            pages = batch * blocks if pages is None else pages
            shape = (pages, heads, page_size)
            self._free = list(range(pages - 1, -1, -1))
        with lasting():
            self.lengths = torch.zeros(batch, dtype=torch.int64)
            self.positions: Tensor | None = None
            self.block_table: Tensor | None = None
            if page_size is not None:
                self.block_table = torch.full((batch, blocks), -1, dtype=torch.int32)
            self.k = torch.empty(*shape, head_size, dtype=dtype)
            self.v = torch.empty(*shape, value_size, dtype=dtype)
            # One for all steps (xPos centres its scales): that of the longest sequence.
            self.rotation = self.rotation_at(capacity)
            self.keys_turned = self.rotation is None or not bool(self.rotation[_FOLLOWS_LENGTH])

    def rotation_at(self, length: int) -> Tensor | None:
        """The scheme's rotation for sequences of a length."""
        call = Call(1, length, 1, self.k.shape[3], self.v.shape[3], causal=True)
        return _lowered(self.position, call).rotation

    def append(
        self,
        k: Tensor,
        v: Tensor,
        *,
        positions: Tensor | None = None,
        counts: Tensor | None = None,
    ) -> None:
        """Stores new tokens: k [batch, heads, n, head_size], not turned, and v.

        positions: int64 [n] or [batch, n], default: behind those held, at lengths[b] and on. What
        is given is remembered for `decode`. counts: int64 [batch], so many of the n belong to a
        sequence (the others are padding); default: all.
        ValueError past the capacity or when the pool has no page left; nothing is stored then, and
        no page is taken.
        """
        tensors = {"k": k, "v": v, "positions": positions, "counts": counts}
        for name, tensor in tensors.items():
            if tensor is None and name not in "kv":
                continue
            if not isinstance(tensor, Tensor):
                got = type(tensor).__name__
                raise TypeError(f"KVCache.append: {name} must be a tensor, got {got}")
            if not tensor.is_cpu:
                raise ValueError(
                    f"KVCache.append: {name} must be on the CPU, as the cache is, got "
                    f"{tensor.device}"
                )
        for name, tensor in (("k", k), ("v", v)):
            if tensor.dim() != 4:
                raise ValueError(
                    f"KVCache.append: {name} must be [batch, heads, tokens, size], got "
                    f"{tensor.dim()} dimensions"
                )
            if tensor.dtype != self.k.dtype:
                raise TypeError(
                    f"KVCache.append: {name} must have the cache's dtype, {self.k.dtype}, got "
                    f"{tensor.dtype}"
                )
        batch, heads, tokens = len(self.lengths), self.k.shape[1], k.shape[2]
        for name, tensor, size in (("k", k, self.k.shape[3]), ("v", v, self.v.shape[3])):
            if tensor.shape != (batch, heads, tokens, size):
                raise ValueError(
                    f"KVCache.append: {name} must be [{batch}, {heads}, {tokens}, {size}], got "
                    f"{list(tensor.shape)}"
                )
        if positions is not None:
            positions = _whole("KVCache.append: positions", positions)
            positions = positions[None] if positions.dim() == 1 else positions
        if counts is not None:
            counts = _whole("KVCache.append: counts", counts)
        self._check_counts(tokens, counts)
        taken = [] if self.block_table is None else self._take_pages(tokens, counts)
        before = self.lengths.tolist()
        try:
            torch.ops.locant.cache_append(
                self.k,
                self.v,
                self.lengths,
                self.block_table,
                k.detach(),
                v.detach(),
                positions,
                counts,
                self.rotation,
                self.keys_turned,
            )
        except BaseException:
            self._give_back(taken)
            raise
        if positions is not None or self.positions is not None:
            with lasting():
                self._remember(torch.tensor(before)[:, None] + torch.arange(tokens), positions)

    def whole_pages(self, name: str, per_key: Tensor) -> Tensor:
        """Numbers [.., capacity] with zeros to the end of the last page, as the kernel has them."""
        if per_key.shape[-1] != self.capacity:
            raise ValueError(
                f"decode: {name} must have a number for each of the cache's {self.capacity} "
                f"places, got {per_key.shape[-1]}"
            )
        more = -self.capacity % (self.page_size or 1)
        return torch.nn.functional.pad(per_key, (0, more)) if more else per_key

    def _remember(self, places: Tensor, positions: Tensor | None) -> None:
        """Where the tokens just stored in `places` [batch, n] of their sequences stand."""
        new = places < self.lengths[:, None]  # no padding
        positions = places if positions is None else positions.expand(places.shape)
        if self.positions is None:
            if torch.equal(positions[new], places[new]):
                return
            self.positions = torch.arange(self.capacity).repeat(len(self.lengths), 1)
        sequence = torch.arange(len(self.lengths))[:, None].expand(places.shape)
        self.positions[sequence[new], places[new]] = positions[new]

    def _check_counts(self, tokens: int, counts: Tensor | None) -> None:
        batch = len(self.lengths)
        if counts is not None and counts.shape != (batch,):
            raise ValueError(f"KVCache.append: counts must be [{batch}], got {list(counts.shape)}")
        added = [tokens] * batch if counts is None else counts.tolist()
        for b, (held, count) in enumerate(zip(self.lengths.tolist(), added, strict=True)):
            if not 0 <= count <= tokens:
                raise ValueError(
                    f"KVCache.append: counts[{b}] must be from 0 to {tokens}, got {count}"
                )
            if held + count > self.capacity:
                raise ValueError(
                    f"KVCache.append: sequence {b} holds {held} and gets {count} tokens, more than "
                    f"the capacity {self.capacity}"
                )

    def _take_pages(self, tokens: int, counts: Tensor | None) -> list[tuple[int, int]]:
        """Pages for the new tokens: where in the table they went."""
        table, size = self.block_table, self.page_size
        assert table is not None and size is not None
        after = self.lengths + (tokens if counts is None else counts)
        wanted = [
            (b, n)
            for b, length in enumerate(after.tolist())
            for n in range(-(-length // size))
            if int(table[b, n]) < 0
        ]
        if len(wanted) > len(self._free):
            raise ValueError(
                f"KVCache: the pool has {len(self._free)} pages left, {len(wanted)} are needed"
            )
        for b, n in wanted:
            table[b, n] = self._free.pop()
        return wanted

    def _give_back(self, taken: list[tuple[int, int]]) -> None:
        for b, n in reversed(taken):
            assert self.block_table is not None
            self._free.append(int(self.block_table[b, n]))
            self.block_table[b, n] = -1

    def reset(self, sequence: int | None = None) -> None:
        """Forgets one sequence, or all; pages go back to the pool."""
        batch = len(self.lengths)
        if sequence is not None and not _is_whole(sequence):
            raise TypeError(f"KVCache.reset: sequence must be a whole number, got {sequence!r}")
        if sequence is not None and not 0 <= sequence < batch:
            raise ValueError(
                f"KVCache.reset: sequence must be from 0 to {batch - 1}, got {sequence}"
            )
        which = range(batch) if sequence is None else [sequence]
        for b in which:
            self.lengths[b] = 0
            if self.block_table is not None:
                self._free += [int(p) for p in self.block_table[b] if p >= 0]
                self.block_table[b] = -1
        if not self.lengths.any():
            self.positions = None


def _where_held(cache: KVCache, positions: Tensor) -> Tensor:
    """Positions [B or 1, places]: where no token is held, that of some other key."""
    batch = len(cache.lengths)
    if positions.dim() != 2 or positions.shape[0] not in (1, batch):
        raise ValueError(
            f"decode: positions of the keys must be [{cache.capacity}] or [{batch} or 1, "
            f"{cache.capacity}], got {list(positions.shape)}"
        )
    positions = cache.whole_pages("positions of the keys", positions)
    ends = cache.lengths.max()[None] if positions.shape[0] == 1 else cache.lengths
    held = torch.arange(positions.shape[1]) < ends[:, None]
    some = positions[held].min() if held.any() else torch.zeros((), dtype=torch.int64)
    return torch.where(held, positions, some)


def _check_turned(cache: KVCache, positions: Tensor) -> None:
    """Keys that are held turned cannot move: ValueError unless `positions` are those of append."""
    batch, places = len(cache.lengths), torch.arange(cache.capacity)
    stored = places.expand(batch, -1) if cache.positions is None else cache.positions
    moved = (positions[:, : cache.capacity] != stored) & (places < cache.lengths[:, None])
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
        held = torch.arange(k_positions.shape[1], device="cpu") < ends[:, None]
        ends = torch.where(held, k_positions + 1, 0).amax(1)
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
    _fork.settle()
    causal, left, right = _limits("decode", causal, window)
    _check_number("decode", "scale", scale)
    _check_number("decode", "softcap", softcap)
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
        pair = positions if isinstance(positions, (tuple, list)) else (positions, None)
        if len(pair) != 2:
            raise ValueError(
                "decode: positions must be one tensor or a pair of tensors, got a "
                f"{type(pair).__name__} of {len(pair)}"
            )
        q_positions = _whole("decode: positions", pair[0])
        q_positions = q_positions[None] if q_positions.dim() == 1 else q_positions
        if pair[1] is not None:
            k_positions = _whole("decode: positions", pair[1])
            k_positions = k_positions[None] if k_positions.dim() == 1 else k_positions
    else:
        q_positions = _of_last(cache, q.shape[2])
    if k_positions is None:
        k_positions = cache.positions
    if k_positions is not None:
        k_positions = _where_held(cache, k_positions)
    heads, head_size, value_size = q.shape[1], q.shape[3], cache.v.shape[3]
    # Queries past the tokens held count from 0.
    farthest = torch.arange(max(longest, q.shape[2], 1))[None]
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
    terms = _lowered(cache.position, call)
    flat, scaled = _flatten(terms, _ops.real(q.dtype))
    if terms.rotation is not None:
        turn = cache.rotation
        if not cache.keys_turned:  # frequencies by the length of each sequence
            ends = _own_lengths(cache, q.shape[2], q_positions, k_positions)
            rows = [cache.rotation_at(end) for end in ends]
            turn = torch.stack([row for row in rows if row is not None])
        elif positions is not None and k_positions is not None:
            _check_turned(cache, k_positions)
        flat = (*flat[:11], turn, flat[12])
    factor = (head_size**-0.5 if scale is None else scale) * terms.scale_factor
    mask = None
    if key_padding_mask is not None:
        mask = _number_per_key("decode", key_padding_mask, q, cache.capacity)
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

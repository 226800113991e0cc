"""The cache of keys and values that a decoding model grows: storage, pages, where tokens stand."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from ._check import check_terms, explain_terms, is_whole, whole
from ._lasting import lasting
from .position import Rope, Xpos, make
from .position.built_in import BuiltIn
from .position.scheme import Call, Scheme, check_position
from .position.terms import Terms

_FOLLOWS_LENGTH = 4  # place in a rotation's head


def lowered(position: Scheme | Terms | None, call: Call) -> Terms:
    if position is None:
        return Terms()
    terms = position if isinstance(position, Terms) else position(call)
    check_terms("decode", position, terms)
    if terms.scheme is None:
        if not isinstance(terms.rotation, (Tensor, type(None))):
            explain_terms("decode", terms)
        return terms
    try:
        specification, parameters, width, layer, _ = terms.scheme
        rotating = _rotating(specification, call.heads, call.head_size, width, layer)
    except (TypeError, ValueError):
        explain_terms("decode", terms)
        raise
    if rotating is None:
        return terms
    others = [name for name in Terms._fields[:6] if getattr(terms, name) is not None]
    if others:
        raise ValueError(
            f"decode: position's {others[0]} and scheme exclude each other, got both with the "
            f"scheme {specification!r}"
        )
    if parameters is not None and parameters.numel():
        raise ValueError(
            f"decode: position's scheme {specification!r} has no parameters, got "
            f"{parameters.numel()} numbers"
        )
    own = rotating(call)
    return own._replace(scale_factor=own.scale_factor * terms.scale_factor)


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
            if not is_whole(size):
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
        return lowered(self.position, call).rotation

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
            positions = whole("KVCache.append: positions", positions)
            positions = positions[None] if positions.dim() == 1 else positions
        if counts is not None:
            counts = whole("KVCache.append: counts", counts)
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

    def holds(self, places: int) -> Tensor:
        """Which of their first places hold a token: bool [batch, places]."""
        return torch.arange(places, device="cpu") < self.lengths[:, None]

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
        if sequence is not None and not is_whole(sequence):
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

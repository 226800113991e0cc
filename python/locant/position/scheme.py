"""The base of every scheme, built in or a user's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .terms import RowPerDistance, Terms, look_up

LARGEST_SPAN = 1 << 24
"""A table with a number for each distance holds no more; kLargestSpan of the C++ schemes."""
_POSITION_END = 1 << 31


def check_span(name: str, first: int, last: int) -> None:
    """ValueError when a table with a number for each distance first ... last would be too large."""
    # While a compiler traces these may be symbols, and comparing them would bound the length.
    if not torch.compiler.is_compiling() and last - first >= LARGEST_SPAN:
        raise ValueError(
            f"[{name}] the positions of a call may span {LARGEST_SPAN} distances, got "
            f"{last - first + 1} ({first} to {last})"
        )


def low_high(name: str, positions: Tensor) -> tuple[int, int]:
    """The smallest and the largest; ValueError outside of what positions may be."""
    if positions.is_meta:
        raise ValueError(f"{name} must hold numbers, got {positions.device}")
    low, high = (int(x) for x in torch.aminmax(positions))
    if low < 0 or high >= _POSITION_END:
        raise ValueError(f"{name} must be from 0 to 2^31 - 1, got {low if low < 0 else high}")
    return low, high


class Call:
    """One call of attention, as far as a scheme needs to know it.

    q_length, k_length: tokens. head_size: D. value_size: Dv. causal: whether keys after the query
    are masked. window: (left, right), -1 for no limit. device: of q, k and v.
    q_positions, k_positions: int64 [B or 1, length], or None: keys stand at 0 ... K-1, queries at
    K-Q ... K-1 (from 0 when Q > K).
    cu_seqlens_q, cu_seqlens_k: int64 [S + 1] of a packed batch, or None. dtype: what tables will
    be converted to, float32 or float64; a scheme need not care.
    first_distance, last_distance: every visible distance j - i lies between them. length: largest
    position + 1. These three read the positions where some are given: ValueError for those that are
    not from 0 to 2^31 - 1.
    """

    def __init__(
        self,
        q_length: int,
        k_length: int,
        heads: int = 1,
        head_size: int = 1,
        value_size: int = 1,
        causal: bool = False,
        window: tuple[int, int] = (-1, -1),
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        device: torch.device | None = None,
        cu_seqlens_q: Tensor | None = None,
        cu_seqlens_k: Tensor | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        self.q_length = q_length
        self.k_length = k_length
        self.heads = heads
        self.head_size = head_size
        self.value_size = value_size
        self.causal = causal
        self.window = window
        self.q_positions = q_positions
        self.k_positions = k_positions
        self.device = device
        self.cu_seqlens_q = cu_seqlens_q
        self.cu_seqlens_k = cu_seqlens_k
        self.dtype = dtype
        self._span: tuple[int, int, int] | None = None

    def is_unread(self) -> bool:
        """Whether distances follow from tensors that a compiler cannot read while it traces."""
        if not torch.compiler.is_compiling():
            return False
        explicit = self.q_positions is not None and self.k_positions is not None
        return explicit or self.cu_seqlens_q is not None

    def span(self) -> tuple[int, int, int]:
        """(first_distance, last_distance, length)."""
        if self._span is None:
            if self.is_unread():
                raise RuntimeError(
                    "distances cannot be read from positions or cu_seqlens while torch.compile or "
                    "torch.export traces: leave them out, or do not compile this call"
                )
            self._span = self._find_span()
        return self._span

    def _find_span(self) -> tuple[int, int, int]:
        explicit = self.q_positions is not None and self.k_positions is not None
        if self.cu_seqlens_q is not None and self.cu_seqlens_k is not None and not explicit:
            queries, keys = self.cu_seqlens_q.diff(), self.cu_seqlens_k.diff()
            if queries.numel() == 0:
                return 0, 0, 0
            starts = (keys - queries).clamp(min=0)
            first = -max(int((starts + queries).max()) - 1, 0)
            last = int((keys - 1 - starts).max())
            length = int(torch.maximum(keys, starts + queries).max())
        elif self.q_positions is None or self.k_positions is None:
            start = max(0, self.k_length - self.q_length)
            first, last = -(start + self.q_length - 1), self.k_length - 1 - start
            length = max(self.k_length, start + self.q_length)
        else:
            if self.q_positions.numel() == 0 or self.k_positions.numel() == 0:
                return 0, 0, 0
            q_low, q_high = low_high("positions of the queries", self.q_positions)
            k_low, k_high = low_high("positions of the keys", self.k_positions)
            first, last = k_low - q_high, k_high - q_low
            length = max(q_high, k_high) + 1
        left, right = self.window
        if self.causal:
            last = min(last, 0)
        if left >= 0:
            first = max(first, -left)
        if right >= 0:
            last = min(last, right)
        if first > last:  # nothing is visible: any one distance will do
            first = last = 0
        return first, last, length

    @property
    def first_distance(self) -> int:
        """Smallest visible j - i."""
        return self.span()[0]

    @property
    def last_distance(self) -> int:
        """Largest visible j - i."""
        return self.span()[1]

    @property
    def length(self) -> int:
        """Largest position + 1."""
        return self.span()[2]

    def distances(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """first_distance ... last_distance as a tensor; ValueError for more than 2^24."""
        first, last, _ = self.span()
        check_span("distances", first, last)
        return torch.arange(first, last + 1, dtype=dtype, device=self.device)


class Scheme(nn.Module):
    """One way of telling a Transformer where a token stands, as one layer sees it.

    Give one instance to several layers and they share what it learns; give each its own and they
    do not. A scheme of your own overrides `terms` (and `embed`, if it adds to embeddings), holds
    its parameters as any module does, and trains through the gradients of the tensors it returns:

        class Distance(locant.position.Scheme):
            def __init__(self, heads):
                super().__init__()
                self.slope = torch.nn.Parameter(torch.zeros(heads))

            def terms(self, call):
                table = -self.slope.exp()[:, None] * call.distances().abs().sqrt()
                index = identity_map(call.first_distance, call.last_distance)
                return Terms(number=NumberPerDistance(table, index))
    """

    def terms(self, call: Call) -> Terms:
        """What one call of attention adds. Called once a call; returns `Terms`."""
        raise NotImplementedError(f"{type(self).__name__} must define terms(call)")

    def embed(self, positions: Tensor) -> Tensor | None:
        """Rows [..., width] to add to embeddings at int64 positions [...], or None."""
        del positions
        return None

    def forward(self, call: Call) -> Terms:
        """Same as `terms`, so that hooks of modules apply."""
        return self.terms(call)

    def materialize(
        self,
        q_positions: Tensor,
        k_positions: Tensor,
        *,
        q: Tensor | None = None,
        k: Tensor | None = None,
        scale: float | None = None,
        causal: bool = False,
    ) -> Tensor:
        """The scheme's dense addition to the scores, for those who want to look.

        q_positions [Q], k_positions [K]: int64. Returns [H or 1, Q, K]: what is added to a score
        outside the scale. Terms inside the scale are multiplied by `scale` (default: 1 without q,
        1/sqrt(D) with it, times the scheme's own factor). Schemes that multiply queries or keys
        (Shaw, Transformer-XL, DeBERTa, ...) need q [B, H, Q, D] and k [B, H, K, D], and the result
        is [B, H, Q, K]. causal only tells the scheme; nothing is masked, and what a scheme says of
        keys it never sees then is its own (Kerple and Sandwich: 0). Rotations change q and k
        and have no addition: ValueError.
        """
        check_whole("materialize", "q_positions", q_positions)
        check_whole("materialize", "k_positions", k_positions)
        if q_positions.dim() != 1 or k_positions.dim() != 1:
            raise ValueError(
                f"materialize: positions must have one dimension, got {q_positions.dim()} and "
                f"{k_positions.dim()}"
            )
        call = Call(
            q_length=q_positions.shape[0],
            k_length=k_positions.shape[0],
            heads=1 if q is None else q.shape[1],
            head_size=1 if q is None else q.shape[3],
            causal=causal,
            q_positions=q_positions[None],
            k_positions=k_positions[None],
            device=q_positions.device,
        )
        terms = self(call)
        if terms.rotation is not None:
            raise ValueError(
                f"materialize: {type(self).__name__} turns queries and keys; nothing is added"
            )
        factor = 1.0 if q is None else q.shape[3] ** -0.5
        factor = (factor if scale is None else scale) * terms.scale_factor
        distance = k_positions[None, :] - q_positions[:, None]
        total = torch.zeros((1, *distance.shape), dtype=torch.float64, device=distance.device)
        if (number := terms.number) is not None:
            total = total + number_of(number, distance) * (factor if number.scaled else 1.0)
        for name, rows, side in (("q", terms.query_rows, q), ("k", terms.key_rows, k)):
            if rows is None:
                continue
            if side is None:
                raise ValueError(
                    f"materialize: {type(self).__name__} multiplies {name}; give {name}="
                )
            products = row_products(rows, side, distance, keys=name == "k")
            total = total + products * (factor if rows.scaled else 1.0)
        if terms.scheme is not None:
            if terms.scheme.dense is None:
                raise ValueError(f"materialize: {type(self).__name__} has no dense form")
            total = total + terms.scheme.dense(q_positions[None], k_positions[None])[0]
        if terms.content_bias is not None:
            if k is None:
                raise ValueError(f"materialize: {type(self).__name__} multiplies k; give k=")
            total = total + (k @ terms.content_bias[:, :, None].to(k)).transpose(2, 3) * factor
        return total


def check_whole(operation: str, name: str, tensor: Any) -> None:
    """TypeError unless `tensor` is one of integers."""
    if not isinstance(tensor, Tensor):
        got = type(tensor).__name__
    elif tensor.dtype in _WHOLE:
        return
    else:
        got = str(tensor.dtype)
    raise TypeError(f"{operation}: {name} must be a tensor of integers, got {got}")


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def number_of(number: Any, distance: Tensor) -> Tensor:
    """[1 or H, ...] numbers at distances [...], in the table's type."""
    row = look_up(number.index.to(distance.device), distance)
    table = number.table
    out = torch.where(row >= 0, table[:, row.clamp(min=0)], torch.zeros((), dtype=table.dtype))
    first = number.index[0]
    last = first + number.index.shape[0] - 4
    ones = (1,) * distance.dim()
    if number.left is not None:
        out = out + number.left.reshape(-1, *ones) * (first - distance).clamp(min=0)
    if number.right is not None:
        out = out + number.right.reshape(-1, *ones) * (distance - last).clamp(min=0)
    return out


def row_products(term: RowPerDistance, side: Tensor, distance: Tensor, keys: bool) -> Tensor:
    """[B, H, Q, K]: side . rows[index]. side: q [B, H, Q, D], or k [B, H, K, D] when `keys`."""
    row = look_up(term.index.to(distance.device), distance)  # [(B,) Q, K]
    products = side @ term.rows.to(side).transpose(1, 2)  # [B, H, Q or K, rows]
    if keys:
        row = row.transpose(-1, -2)
    row = row.expand(*products.shape[:2], *row.shape[-2:]) if row.dim() == 2 else row[:, None]
    row = row.expand(*products.shape[:2], *row.shape[-2:])
    picked = products.gather(3, row.clamp(min=0))
    picked = torch.where(row >= 0, picked, torch.zeros((), dtype=picked.dtype))
    return picked.transpose(2, 3) if keys else picked


def check_position(operation: str, position: Any, num_heads: int | None = None) -> None:
    """TypeError unless `position` can be one; ValueError when it is for other numbers of heads."""
    if position is None or isinstance(position, Terms):
        return
    if isinstance(position, type) or not isinstance(position, nn.Module):
        if isinstance(position, type):
            got, more = f"the class {position.__name__}", f"; make one: {position.__name__}(...)"
        elif isinstance(position, str):
            got = f"the text {position!r}"
            more = "; locant.position.make(text, num_heads=..., head_size=...) makes one of a text"
        else:
            got, more = type(position).__name__, ""
        raise TypeError(
            f"{operation}: position must be a module of locant.position, Terms or None, got "
            f"{got}{more}"
        )
    made_for = getattr(position, "num_heads", None)
    if num_heads is not None and isinstance(made_for, int) and made_for not in (1, num_heads):
        raise ValueError(
            f"{operation}: position must be for the layer's {num_heads} heads, got "
            f"{type(position).__name__} for {made_for}"
        )

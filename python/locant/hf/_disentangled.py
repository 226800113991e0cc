"""What DeBERTa v1, v2 and v3 have in common: rows of one table by distance, masks of keys alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .. import _ops
from .._attention import attention
from .._lasting import lasting
from .._traced import is_traced
from ..position import RowPerDistance, Terms, index_map, look_up
from ..position.deberta import distance_map
from ._blind import averaged
from ._family import PREFIX, attention_in
from ._interface import DENSE, WEIGHTS, say_original
from ._kept import Kept, may_keep, plain

HOW = "disentangled attention; projected positions are kept in evaluation"
STANDARD = "standard"
"""What our encoders hand to their layers in place of relative positions [1, L, L]."""
_POSITIONS = "relative positions are not the order of the tokens"
KEPT = PREFIX + "kept"
_ROWS, _JUDGED = PREFIX + "rows", PREFIX + "judged"

Rows = tuple[RowPerDistance | None, RowPerDistance | None]
"""For queries and for keys."""


class Ignored(NamedTuple):
    """Tokens [B, L] that a mask hides: as keys, and as queries, which then see no key."""

    keys: Tensor | None
    queries: Tensor | None  # or [B, 1]


NONE = Ignored(None, None)


class DistanceRows:
    """Rows of DeBERTa's table [2 span, hidden] by distance, and those that a length needs.

    buckets: v2's position_buckets, 0 or less for none. reach: max_relative_positions.
    """

    def __init__(self, buckets: int, reach: int) -> None:
        options: dict[str, Any] = {"version": "v1", "max_positions": reach}
        if buckets > 0:
            options = {"version": "v2", "buckets": buckets, "max_positions": reach}
        self.span = buckets if buckets > 0 else reach
        self.map = distance_map({**options, "rounding": "hf", "edge": "hf"}, reach + 2)
        self.far = reach + 2
        with lasting():
            self.rows = look_up(self.map, torch.arange(-self.far, self.far + 1))
        self._last: tuple[int, tuple[int, int, Tensor]] | None = None

    def needed(self, length: int) -> tuple[int, int, Tensor]:
        """(first row, one past the last, index map into these) for sequences of this length."""
        if is_traced():
            return 0, 2 * self.span, self.map
        last = self._last
        if last is None or last[0] != length:
            with lasting():
                last = self._last = (length, self._needed(length))
        return last[1]

    def _needed(self, length: int) -> tuple[int, int, Tensor]:
        away = max(0, min(length - 1, self.far))
        rows = self.rows[self.far - away : self.far + away + 1]
        low, high = int(rows.min()), int(rows.max())
        ends = int(rows[0]) - low, int(rows[-1]) - low
        return low, high + 1, index_map(-away, rows - low, *ends)

    def standard(self, relative: Tensor) -> bool:
        """Whether relative positions [..., L, L] are i - j, in buckets where there are buckets."""
        n = relative.shape[-1]
        if relative.dim() < 2 or n == 0 or relative.numel() != n * n:
            return False
        rows = (relative.reshape(n, n) + self.span).clamp(0, 2 * self.span - 1).cpu()
        away = torch.arange(n).clamp(max=self.far)
        return (
            torch.equal(rows[0].long(), self.rows[self.far + away])
            and torch.equal(rows[:, 0].long(), self.rows[self.far - away])
            and torch.equal(rows[1:, 1:], rows[:-1, :-1])
        )


shared_rows = lru_cache(maxsize=16)(DistanceRows)  # by all layers of a model


class Disentangled:
    """In front of transformers' classes: how a call is judged, and where its rows come from."""

    pos_att_type: list[str]
    training: bool
    num_attention_heads: int
    dropout: nn.Dropout
    pos_dropout: nn.Dropout

    def train(self, mode: bool = True) -> Any:
        """As any module's, and forgets the kept rows."""
        self.__dict__[KEPT].drop()
        return super().train(mode)  # type: ignore[misc]

    def judge(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None,
        output_attentions: bool,
        query_states: Tensor | None,
        relative_pos: Any,
    ) -> tuple[bool, Ignored]:
        """(whether the kernel can do this call, what its mask says)."""
        module: Any = self
        if output_attentions:
            say_original(module, WEIGHTS)
            return False, NONE
        if query_states is not None and query_states.shape != hidden_states.shape:
            return False, NONE
        rows = self.__dict__[_ROWS]
        brought = isinstance(relative_pos, Tensor) and rows is not None
        if brought and (is_traced() or not self._judged(rows, relative_pos)):
            say_original(module, _POSITIONS)
            return False, NONE
        found, ignored = ignored_tokens(attention_mask)
        if not found:
            say_original(module, DENSE)
        return found, ignored

    def _judged(self, rows: DistanceRows, relative_pos: Tensor) -> bool:
        """rows.standard(relative_pos), remembered for the tensor that came last."""
        judged: Kept = self.__dict__[_JUDGED]
        return judged.get([relative_pos], lambda: rows.standard(relative_pos))

    def rows_of(
        self, table: Tensor, length: int, key: nn.Module | None, query: nn.Module | None
    ) -> Rows:
        """The table's rows for queries, through `key`, and for keys, through `query`."""
        rows: DistanceRows = self.__dict__[_ROWS]
        low, high, index = rows.needed(length)
        projections = (key, query)
        sources = [table]
        for projection in projections:
            if projection is not None:
                sources.extend(projection.parameters())
        if all(p is None or plain(p) for p in projections) and may_keep(
            self.training or self.pos_dropout.training, sources
        ):
            whole = table[: 2 * rows.span]
            dtype = _ops.real(table.dtype)

            def make() -> list[Tensor | None]:
                return [
                    None if p is None else self._project(whole, p).to(dtype).contiguous()
                    for p in projections
                ]

            held = self.__dict__[KEPT].get(sources, make)
            made = [None if r is None else r[:, low:high] for r in held]
        else:
            part = self.pos_dropout(table[low:high])
            made = [None if p is None else self._project(part, p) for p in projections]
        q_rows, k_rows = (None if r is None else RowPerDistance(r, index) for r in made)
        return q_rows, k_rows

    def _project(self, table: Tensor, projection: nn.Module) -> Tensor:
        # With the batch of one that transformers gives it: adapters may look at the shape.
        rows = projection(table[None])[0]
        return rows.unflatten(1, (self.num_attention_heads, -1)).transpose(0, 1)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        rows: Rows,
        ignored: Ignored,
        terms: int,
    ) -> Tensor:
        """[B, L, H D]; terms: what the scale counts, the content's included."""
        position = Terms(query_rows=rows[0], key_rows=rows[1], scale_factor=terms**-0.5)
        rate = self.dropout.p if self.dropout.training else 0.0
        out = attention(q, k, v, position, dropout=rate, key_padding_mask=ignored.keys)
        if ignored.queries is not None:
            out = averaged(out, v, ignored.queries[:, None, :, None])
        return out.transpose(1, 2).flatten(2)


class DisentangledStack:
    """In front of transformers' encoders: no matrices of tokens by tokens."""

    relative_attention: bool
    layer: Any
    attention_class: type[nn.Module]  # transformers'

    def _whole(self) -> bool:
        """Whether all attention inside is ours: some may have been restored."""
        return all(
            isinstance(attention_in(layer, "attention.self", self.attention_class), Disentangled)
            for layer in self.layer
        )

    def get_attention_mask(self, attention_mask: Tensor) -> Tensor | None:
        """Keys to see, [B, L] bool or None for all; other masks as they are."""
        if attention_mask.dim() == 2 and self._whole():
            return keys_of(attention_mask)
        return super().get_attention_mask(attention_mask)  # type: ignore[misc]

    def get_rel_pos(
        self, hidden_states: Tensor, query_states: Any = None, relative_pos: Any = None
    ) -> Any:
        """A word in place of a matrix, unless the caller brings one."""
        if not self._whole():
            inherited = super().get_rel_pos  # type: ignore[misc]
            return inherited(hidden_states, query_states, relative_pos)
        return STANDARD if self.relative_attention and relative_pos is None else relative_pos


def ignored_tokens(mask: Tensor | None) -> tuple[bool, Ignored]:
    """(whether a mask is about tokens and not pairs, what it hides).

    mask: None, ours [B, L] (see `keys_of`), or transformers' [B, 1, L or 1, L], nonzero to see.
    """
    if mask is None:
        return True, NONE
    if mask.dim() == 2:
        return True, Ignored(~mask, ~mask)
    seen = mask.bool()
    if seen.dim() != 4 or seen.shape[1] != 1:
        return False, NONE
    keys, queries = seen.any(2)[:, 0], seen.any(3)[:, 0]
    if seen.shape[2] == 1:
        return True, Ignored(~keys, ~queries)
    if is_traced():
        return False, NONE
    if bool(seen.all()):
        return True, NONE
    both = keys[:, None, None, :] & queries[:, None, :, None]
    return (True, Ignored(~keys, ~queries)) if torch.equal(seen, both) else (False, NONE)


def keys_of(mask: Tensor) -> Tensor | None:
    """[B, L] bool from the user's mask of tokens; None where every token is one."""
    keys = mask.bool()
    return None if not is_traced() and bool(keys.all()) else keys


def whole_mask(mask: Tensor | None, hidden_states: Tensor) -> Tensor:
    """The mask of tokens as transformers' layers want it, [B, 1, L, L] or broadcast."""
    if mask is None:
        return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=hidden_states.device)
    if mask.dim() == 2:
        return mask[:, None, None, :] & mask[:, None, :, None]
    return mask


def prepare_rows(module: nn.Module, buckets: int) -> None:
    """Sets what a replaced module holds; ValueError where the configuration has no such rows."""
    attention: Any = module
    rows = None
    if attention.relative_attention:
        rows = shared_rows(buckets, attention.max_relative_positions)
    module.__dict__[_ROWS] = rows
    module.__dict__[KEPT] = Kept()
    module.__dict__[_JUDGED] = Kept()


def has_rows(module: Any) -> bool:
    """Whether it was made with relative attention."""
    return module.__dict__[_ROWS] is not None


Get = Callable[[], Tensor | None]


def kept_table(encoder: Any, get: Get, sources: list[Tensor], eps: float | None) -> Tensor | None:
    """get(), in evaluation the same tensor as long as no source and not the norm's eps changes."""
    if not sources or not may_keep(encoder.training, sources):
        return get()
    kept = encoder.__dict__.setdefault(KEPT, Kept())
    return kept.get(sources, get, eps)

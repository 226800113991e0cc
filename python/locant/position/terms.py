"""What a scheme returns: terms, as tensors. The kernel executes them and knows no scheme.

Distance is key position minus query position, j - i, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

NO_ROW = -1
"""Row number that means "nothing is added at this distance"."""


def index_map(first: int, rows: Tensor, before: int = NO_ROW, after: int = NO_ROW) -> Tensor:
    """From distances to rows of a table.

    Distance d takes rows[d - first]; distances before `first` take row `before`, those past the
    end row `after` (NO_ROW: nothing is added). Returns int32 [3 + n], the form the kernel takes.
    """
    head = torch.tensor([first, before, after], dtype=torch.int32, device=rows.device)
    return torch.cat([head, rows.to(torch.int32)])


def identity_map(first: int, last: int, device: torch.device | None = None) -> Tensor:
    """Row d - first for the distances first ... last, nothing beyond."""
    return index_map(first, torch.arange(last - first + 1, device=device))


def clip_map(left: int, right: int) -> Tensor:
    """One row for each distance -left ... right; farther ones take the row at the end."""
    return index_map(-left, torch.arange(left + right + 1), 0, left + right)


def look_up(index: Tensor, distance: Tensor) -> Tensor:
    """Row numbers (int64) of the distances, NO_ROW where nothing is added."""
    first, before, after = index[0], index[1], index[2]
    rows = index[3:]
    at = distance - first
    inside = rows[at.clamp(0, rows.shape[0] - 1)]
    row = torch.where(at < 0, before, torch.where(at >= rows.shape[0], after, inside))
    return row.to(torch.int64)


class NumberPerDistance(NamedTuple):
    """Adds table[h, index(j - i)] to a score.

    table: [1 or H, rows]. index: an index map. scaled: inside the scale 1/sqrt(D) and the softcap.
    left, right: a number for each head of the table, or None; past the ends of the map, left[h] or
    right[h] times the number of steps past the end is added on top, so a linear penalty needs a
    table of one zero.
    """

    table: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    scaled: bool = False
    left: Tensor | None = None
    right: Tensor | None = None


class RowPerDistance(NamedTuple):
    """Adds q_i . rows[h, index(j - i)] (query rows) or k_j . rows[...] (key rows) to a score.

    rows: [1 or H, rows, D]. index: an index map. scaled: inside the scale.
    """

    rows: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    scaled: bool = True


class ValuePerDistance(NamedTuple):
    """Adds sum_j p_ij rows[h, index(j - i)] to an output. rows: [1 or H, rows, Dv]."""

    rows: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index, which nobody needs


class SchemeTerm(NamedTuple):
    """All terms from a scheme of the C++ registry by its text; then there are no others.

    parameters: its learned arrays one after the other, float64, in the registry's order; they get
    gradients. width: of the embeddings. layer: number of the layer. dense: the same addition to the
    scores from positions of queries [B or 1, Q] and keys, [B or 1, H, Q, K], where PyTorch has one.
    """

    specification: str
    parameters: Tensor
    width: int = 1
    layer: int = 0
    dense: Callable[[Tensor, Tensor], Tensor] | None = None


class Terms(NamedTuple):
    """All that a scheme can ask of one call of attention. None: not asked.

    content_bias: [1 or H, D], added to every query in the product with keys only (Transformer-XL's
    u). rotation: see `rotation`. scale_factor multiplies the scale of the call.
    Gradients flow into every tensor but the index maps and the rotation.
    """

    number: NumberPerDistance | None = None
    query_rows: RowPerDistance | None = None
    key_rows: RowPerDistance | None = None
    value_rows: ValuePerDistance | None = None
    content_bias: Tensor | None = None
    rotation: Tensor | None = None
    scale_factor: float = 1.0
    scheme: SchemeTerm | None = None


def rotation(
    frequency: Tensor,
    layout: str = "half-split",
    magnitude: float = 1.0,
    log_growth: Tensor | None = None,
    center: int = 0,
) -> Tensor:
    """Turns q and k by their positions, pair t of the first channels by p * frequency[t] radians.

    frequency: [n], turns the first 2 n channels. layout: "interleaved" pairs (2t, 2t + 1) or
    "half-split" pairs (t, t + n). The pairs are multiplied by `magnitude` and, with log_growth [n],
    q by exp((p - center) log_growth[t]) and k by its inverse (xPos), which must stay within single
    precision, so that no exponent exceeds 85 (a KVCache refuses it). Angles are computed in double.
    Returns float64 [5 + n] or [5 + 2n], the form the kernel takes.
    """
    if layout not in ("interleaved", "half-split"):
        raise ValueError(f"layout must be 'interleaved' or 'half-split', got {layout!r}")
    head = torch.tensor(
        [float(layout == "half-split"), magnitude, center, float(log_growth is not None), 0.0],
        dtype=torch.float64,
    )
    parts = [head, frequency.to("cpu", torch.float64)]
    if log_growth is not None:
        parts.append(log_growth.to("cpu", torch.float64))
    return torch.cat(parts)

"""The schemes once more, dense and in double, written from i and j: nothing of locant in here.

Every scheme is a function of (parameters, q, k, i, j) that returns an `Answer`: what is added to
the scores inside and outside the scale [B, H, Q, K], the rows added to the values [H, Q, K, Dv],
q and k turned, a factor on the scale. Gradients are PyTorch's own, through these formulas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass
class Answer:
    """What a scheme adds."""

    inside: Any = 0.0
    outside: Any = 0.0
    value_rows: Tensor | None = None
    q: Tensor | None = None
    k: Tensor | None = None
    factor: float = 1.0


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scheme: Any = None,
    *,
    i: Tensor | None = None,
    j: Tensor | None = None,
    causal: bool = False,
    left: int = -1,
    right: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    key_numbers: Tensor | None = None,
    keep: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(out, lse, magnitude): magnitude bounds sum p |v| times the relative error of a weight."""
    q, k, v = q.double(), k.double(), v.double()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    length_q, length_k = q.shape[2], k.shape[2]
    if i is None or j is None:
        start = max(0, length_k - length_q)
        i, j = torch.arange(start, start + length_q), torch.arange(length_k)
    answer = Answer() if scheme is None else scheme(q, k, i, j, causal)
    q = q if answer.q is None else answer.q
    k = k if answer.k is None else answer.k
    scale = (q.shape[3] ** -0.5 if scale is None else scale) * answer.factor
    scores = (torch.einsum("bhqd,bhkd->bhqk", q, k) + answer.inside) * scale
    size = (torch.einsum("bhqd,bhkd->bhqk", q.abs(), k.abs()) * abs(scale)).detach()
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + answer.outside
    size = size + scores.detach().abs()
    distance = j[None, :] - i[:, None]
    hidden = (distance > 0) & causal
    hidden = hidden | ((distance < -left) & (left >= 0)) | ((distance > right) & (right >= 0))
    hidden = hidden.expand(scores.shape)
    if key_numbers is not None:
        numbers = key_numbers.double()[:, :, None, :]
        hidden = hidden | torch.isinf(numbers)
        scores = scores + numbers.masked_fill(torch.isinf(numbers), 0)
    scores = scores.masked_fill(hidden, -math.inf)
    empty = hidden.all(3, keepdim=True)
    lse = torch.logsumexp(scores.masked_fill(empty, 0.0), 3, keepdim=True)
    p = torch.exp(scores - lse).masked_fill(hidden, 0.0)
    weights = p if keep is None else p * keep
    out = weights @ v
    if answer.value_rows is not None:
        out = out + torch.einsum("bhqk,hqkd->bhqd", weights, answer.value_rows)
    worst = (p.detach() * (1 + size)).masked_fill(hidden, 0.0)
    magnitude = worst @ v.detach().abs() + worst.sum(3, keepdim=True) * out.detach().abs()
    if answer.value_rows is not None:
        magnitude = magnitude + torch.einsum(
            "bhqk,hqkd->bhqd", worst, answer.value_rows.detach().abs()
        )
    return out, lse.masked_fill(empty, -math.inf).squeeze(3), magnitude


# --- helpers --------------------------------------------------------------------------------------


def pairs(i: Tensor, j: Tensor, f: Any) -> Tensor:
    """[Q, K] int64 of f(i, j) in Python's own integers."""
    return torch.tensor([[f(int(a), int(b)) for b in j] for a in i], dtype=torch.int64).reshape(
        len(i), len(j)
    )


def from_rows(table: Tensor, row: Tensor) -> Tensor:
    """table[..., row, :] with zeros where row is -1."""
    return table[..., row.clamp(min=0), :] * (row >= 0)[..., None]


def q_times(q: Tensor, rows: Tensor) -> Tensor:
    """q [B, H, Q, D] . rows [H or 1, Q, K, D]."""
    return torch.einsum("bhqd,hqkd->bhqk", q, rows.expand(q.shape[1], *rows.shape[1:]))


def k_times(k: Tensor, rows: Tensor) -> Tensor:
    """k [B, H, K, D] . rows [H or 1, Q, K, D]."""
    return torch.einsum("bhkd,hqkd->bhqk", k, rows.expand(k.shape[1], *rows.shape[1:]))


# --- the schemes ----------------------------------------------------------------------------------


def alibi(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    form: str = "symmetric",
    scaled: bool = False,
) -> Answer:
    """Slopes by the published recipe."""
    heads = q.shape[1]

    def of_power(n: int) -> list[float]:
        return [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]

    power = 2 ** (heads.bit_length() - 1)
    slopes = of_power(power) + of_power(2 * power)[0::2][: heads - power]
    m = torch.tensor(slopes, dtype=torch.float64)
    if "log_slope_factors" in p:
        m = m * p["log_slope_factors"].exp()
    distance = (j[None, :] - i[:, None]).double()
    away = distance.abs()
    if form == "deepmind" and not causal:
        away = torch.where(distance < 0, away - 0.5, away)
    bias = -m[:, None, None] * away
    return Answer(inside=bias) if scaled else Answer(outside=bias)


def t5_bucket(distance: int, buckets: int, max_distance: int, both: bool) -> int:
    """As in Mesh TensorFlow, in double."""
    row = 0
    if both:
        buckets //= 2
        if distance > 0:
            row += buckets
        n = abs(distance)
    else:
        n = max(-distance, 0)
    exact = buckets // 2
    if n < exact:
        return row + n
    steps = math.log(n / exact) / math.log(max_distance / exact) * (buckets - exact)
    return row + min(buckets - 1, exact + int(steps + 1e-9))


def t5(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    buckets: int = 32,
    max_distance: int = 128,
    both: bool | None = None,
) -> Answer:
    """A number for each bucket and head."""
    both = not causal if both is None else both
    row = pairs(i, j, lambda a, b: t5_bucket(b - a, buckets, max_distance, both))
    table = p["relative_attention_bias.weight"]
    return Answer(outside=table[row].permute(2, 0, 1))


def scalar_table(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    clip: int,
    order: int = 1,
) -> Answer:
    """A number for each clipped distance and head."""
    row = pairs(i, j, lambda a, b: max(-clip, min(clip, order * (b - a))) + clip)
    return Answer(outside=p["relative_position_bias_table"][row].permute(2, 0, 1))


def shaw(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    left: int,
    right: int,
    outside: str = "clip",
    order: int = 1,
    times_key: bool = False,
) -> Answer:
    """Rows on keys and values."""

    def row_of(a: int, b: int) -> int:
        distance = b - a
        if not -left <= distance <= right and outside == "zero":
            return -1
        distance = max(-left, min(right, distance))
        return distance + left if order > 0 else right - distance

    row = pairs(i, j, row_of)
    answer = Answer()
    if "relative_positions_keys" in p:
        table = p["relative_positions_keys"]
        rows = from_rows(table if table.dim() == 3 else table[None], row)
        answer.inside = q_times(q, rows) + (k_times(k, rows) if times_key else 0.0)
    if "relative_positions_values" in p:
        table = p["relative_positions_values"]
        rows = from_rows(table if table.dim() == 3 else table[None], row)
        answer.value_rows = rows.expand(q.shape[1], *rows.shape[1:])
    return answer


def music_transformer(
    p: dict[str, Tensor], q: Tensor, k: Tensor, i: Tensor, j: Tensor, causal: bool
) -> Answer:
    """Shaw's keys, unclipped; rows for 0 ... P-1 tokens back."""
    table = p["relative_embeddings_keys"]
    table = table if table.dim() == 3 else table[None]
    count = table.shape[1]
    row = pairs(i, j, lambda a, b: count - 1 - (a - b) if 0 <= a - b < count else -1)
    answer = Answer(inside=q_times(q, from_rows(table, row)))
    if "relative_embeddings_values" in p:
        rows = from_rows(p["relative_embeddings_values"][None], row)
        answer.value_rows = rows.expand(q.shape[1], *rows.shape[1:])
    return answer


def transformer_xl(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    style: str = "xl",
    clamp: int = 0,
) -> Answer:
    """The four terms, two of them already in q . k."""
    heads, size = q.shape[1], q.shape[3]
    if style == "conformer":
        u, v, matrix = p["pos_bias_u"], p["pos_bias_v"], p["linear_pos.weight"]
    else:
        u, v = p["r_w_bias"], p["r_r_bias"]
        matrix = p["r"].flatten(1).t() if style == "xlnet" else p["r_net.weight"]
    width = matrix.shape[1]
    x = (i[:, None] - j[None, :]).double()
    if clamp:
        x = x.clamp(-clamp, clamp)
    t = torch.arange(width // 2, dtype=torch.float64)
    angle = x[:, :, None] / 10000 ** (2 * t / width)
    if style == "conformer":
        sinusoid = torch.stack([angle.sin(), angle.cos()], 3).flatten(2)
    else:
        sinusoid = torch.cat([angle.sin(), angle.cos()], 2)
    r = torch.einsum("qkw,mw->qkm", sinusoid, matrix)
    r = r.reshape(*r.shape[:2], heads, size).permute(2, 0, 1, 3)
    u_part = torch.einsum("hd,bhkd->bhk", u, k)[:, :, None, :]
    return Answer(inside=u_part + q_times(q + v[:, None, :], r))


def deberta_log(x: int, span: int, most: int) -> int:
    """The log bucket of x = i - j, as transformers computes it, in double."""
    middle = span // 2
    if abs(x) <= middle:
        return x
    far = math.log(abs(x) / middle) / math.log((most - 1) / middle) * (middle - 1)
    return (1 if x > 0 else -1) * (math.ceil(far - 1e-9) + middle)


def deberta(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    version: str = "v2",
    buckets: int = 256,
    most: int = 512,
    norm: bool = False,
    share: bool = False,
) -> Answer:
    """Both terms with delta(i, j)."""
    heads, size = q.shape[1], q.shape[3]
    span = buckets if version == "v2" else most
    rel = (lambda x: deberta_log(x, span, most)) if version == "v2" else (lambda x: x)
    row = pairs(i, j, lambda a, b: max(0, min(2 * span - 1, rel(a - b) + span)))
    table = p["rel_embeddings.weight"]
    if norm:
        centred = table - table.mean(1, keepdim=True)
        deviation = (centred.square().mean(1, keepdim=True) + 1e-7).sqrt()
        table = centred / deviation * p["LayerNorm.weight"] + p["LayerNorm.bias"]
    names = (
        ("pos_proj", "pos_q_proj")
        if version == "v1"
        else (("key_proj", "query_proj") if share else ("pos_key_proj", "pos_query_proj"))
    )
    answer, terms = Answer(), 0
    inside: Any = 0.0
    for name, times, side in ((names[0], q_times, q), (names[1], k_times, k)):
        if name + ".weight" not in p:
            continue
        rows = table @ p[name + ".weight"].t() + p.get(name + ".bias", torch.zeros(()))
        rows = rows.reshape(-1, heads, size).transpose(0, 1)
        inside = inside + times(side, rows[:, row])
        terms += 1
    answer.inside, answer.factor = inside, 1 / math.sqrt(1 + terms)
    return answer


def turned(x: Tensor, positions: Tensor, theta: Tensor, layout: str, size: Tensor) -> Tensor:
    """Pairs of channels turned, one by one; size [L, n] multiplies them."""
    n = theta.shape[0]
    out = list(x.unbind(3))
    for t in range(n):
        a, b = (2 * t, 2 * t + 1) if layout == "interleaved" else (t, t + n)
        angle = positions.double() * theta[t]
        out[a], out[b] = (
            (x[..., a] * angle.cos() - x[..., b] * angle.sin()) * size[:, t],
            (x[..., a] * angle.sin() + x[..., b] * angle.cos()) * size[:, t],
        )
    return torch.stack(out, 3)


def rope(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    layout: str = "half-split",
    base: float = 1e4,
    width: int = 0,
    stretch: float = 1.0,
    dynamic: tuple[float, int] | None = None,
) -> Answer:
    """Turns q and k; `stretch` divides the frequencies, `dynamic` is (factor, original length)."""
    width = width or q.shape[3]
    if dynamic is not None:
        factor, original = dynamic
        n = max(int(j.max()) + 1, int(i.max()) + 1, original)
        base = base * (factor * n / original - (factor - 1)) ** (width / (width - 2))
    theta = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width) / stretch
    ones = torch.ones(1, dtype=torch.float64)
    return Answer(
        q=turned(q, i, theta, layout, ones.expand(len(i), width // 2)),
        k=turned(k, j, theta, layout, ones.expand(len(j), width // 2)),
    )


def xpos(p: dict[str, Tensor], q: Tensor, k: Tensor, i: Tensor, j: Tensor, causal: bool) -> Answer:
    """RoPE, interleaved, with zeta^(p/512)."""
    width = q.shape[3]
    theta = 1e4 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    zeta = (torch.arange(0, width, 2, dtype=torch.float64) / width + 0.4) / 1.4
    return Answer(
        q=turned(q, i, theta, "interleaved", zeta ** (i.double()[:, None] / 512)),
        k=turned(k, j, theta, "interleaved", zeta ** (-j.double()[:, None] / 512)),
    )


def kerple(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    power: bool = False,
) -> Answer:
    """Both kernels, for parameters within their bounds."""
    away = (j[None, :] - i[:, None]).double().abs()
    if power:
        away = away + (away == 0) * 1e-300  # 0^p and its derivative are 0
        return Answer(outside=-p["bias_a"] * away ** p["bias_p"])
    return Answer(outside=-p["bias_p"] * torch.log1p(p["bias_a"] * away))


def sandwich(
    p: dict[str, Tensor], q: Tensor, k: Tensor, i: Tensor, j: Tensor, causal: bool
) -> Answer:
    """Cosines of the distance, steeper for the first heads."""
    heads, width = q.shape[1], q.shape[3]
    away = (i[:, None] - j[None, :]).double()
    total = sum(torch.cos(away / 10000 ** (2 * t / width)) for t in range(1, width // 2 + 1))
    head = torch.arange(1, heads + 1, dtype=torch.float64)
    return Answer(outside=(heads / (8 * head))[:, None, None] * (total - width / 2))


def fire(
    p: dict[str, Tensor],
    q: Tensor,
    k: Tensor,
    i: Tensor,
    j: Tensor,
    causal: bool,
    *,
    length: float,
) -> Answer:
    """A network of the distance, relative to the query's position."""

    def psi(x: Tensor) -> Tensor:
        return torch.log((p["c"] * x).abs() + 1)

    away = (i[:, None] - j[None, :]).double().abs()
    farthest = torch.maximum(i.double(), (p["L_multiplier"] * length).abs())[:, None]
    x = psi(away) / (psi(farthest) + 1e-6)
    hidden = (x[..., None] * p["mlp.0.weight"][:, 0] + p["mlp.0.bias"]).clamp(min=0)
    return Answer(outside=(hidden @ p["mlp.2.weight"].t() + p["mlp.2.bias"]).permute(2, 0, 1))


def nothing(
    p: dict[str, Tensor], q: Tensor, k: Tensor, i: Tensor, j: Tensor, causal: bool
) -> Answer:
    """No positions in attention."""
    return Answer()

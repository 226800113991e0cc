#!/usr/bin/env python3
"""What one call costs beside PyTorch's SDPA where there is next to nothing to compute: 16 tokens.

Without gradients, with what backward needs kept ("in training"), and with the backward pass.

./run python bench/pytorch_call.py. Processor time of one thread, the smallest of several rounds, so
that other work on the machine disturbs it little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from locant import attention, position

sdpa = torch.nn.functional.scaled_dot_product_attention


def microseconds(f: Callable[[], Any], calls: int, rounds: int) -> float:
    """Of one call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(calls):
            f()
        best = min(best, (time.process_time() - start) / calls * 1e6)
    return best


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    a = parser.parse_args()
    torch.set_num_threads(1)
    q, k, v = (torch.randn(1, a.heads, a.length, 64) for _ in range(3))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    alibi, rope, t5 = position.Alibi(a.heads), position.Rope(64), position.T5(a.heads)
    learning = position.T5(a.heads)
    t5.requires_grad_(False)
    rows: list[tuple[str, Callable[..., Any]]] = [
        ("SDPA", sdpa),
        ("locant", attention),
        ("locant, alibi", lambda q, k, v: attention(q, k, v, alibi)),
        ("locant, rope", lambda q, k, v: attention(q, k, v, rope)),
        ("locant, t5", lambda q, k, v: attention(q, k, v, t5)),
        ("locant, t5 that learns", lambda q, k, v: attention(q, k, v, learning)),
    ]
    print(f"{a.length} tokens, {a.heads} heads, one thread; microseconds a call (times SDPA)")
    print(f"{'':26}{'forward':>16}{'in training':>16}{'and backward':>16}")
    base: list[float] = []
    for name, f in rows:
        found = [
            microseconds(lambda f=f: f(q, k, v), a.calls, a.rounds),
            microseconds(lambda f=f: f(*leaves), a.calls, a.rounds),
            microseconds(lambda f=f: f(*leaves).backward(q), a.calls // 4, a.rounds),
        ]
        base = base or found
        cells = [f"{x:.1f} ({x / y:.2f})" for x, y in zip(found, base, strict=True)]
        print(f"{name:26}" + "".join(f"{cell:>16}" for cell in cells))


if __name__ == "__main__":
    main()

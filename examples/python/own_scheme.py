"""A position scheme of your own, trained on a CPU: a penalty by the root of the distance."""

from __future__ import annotations

import torch

from locant import attention
from locant.position import Call, NumberPerDistance, Scheme, Terms, identity_map


class RootDistance(Scheme):
    """score_ij += -exp(s_h) sqrt|i - j|, with one s for each head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.log_slope = torch.nn.Parameter(torch.zeros(heads))

    def terms(self, call: Call) -> Terms:
        away = call.distances(self.log_slope.dtype).abs().sqrt()
        table = -self.log_slope.exp()[:, None] * away  # [heads, distances]
        index = identity_map(call.first_distance, call.last_distance)
        return Terms(number=NumberPerDistance(table, index))


def main(steps: int = 200) -> list[float]:
    """Learns the slopes of a teacher from its outputs; returns the loss of every step."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(4, 2, 64, 16) for _ in range(3))
    teacher, student = RootDistance(2), RootDistance(2)
    with torch.no_grad():
        teacher.log_slope.copy_(torch.tensor([-2.0, 1.0]))
        target = attention(q, k, v, teacher, causal=True)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        loss = (attention(q, k, v, student, causal=True) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


if __name__ == "__main__":
    history = main()
    print(f"loss {history[0]:.5f} -> {history[-1]:.7f}")

"""Fine-tunes a small T5-style model on generated data, before and after `locant.accelerate`.

./run python examples/python/finetune_t5.py. The task: say a sequence backwards. With dropout 0 both
runs have the same losses, up to the rounding of float32; the second takes less time per step where
sequences are long.
"""

from __future__ import annotations

import copy
import time

import torch
from transformers import T5Config, T5ForConditionalGeneration

import locant

WORDS = 32


def batch(size: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(a sequence, the same backwards); 0 is padding and 1 the end, which come as no word."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(2, WORDS, (size, length), generator=generator)
    end = torch.ones(size, 1, dtype=torch.int64)
    return torch.cat([words, end], 1), torch.cat([words.flip(1), end], 1)


def train(model: T5ForConditionalGeneration, steps: int, length: int) -> tuple[list[float], float]:
    """(the loss of every step, seconds a step without the first)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    losses, start = [], 0.0
    for step in range(steps):
        if step == 1:
            start = time.perf_counter()
        inputs, labels = batch(4, length, seed=step)
        loss = model(input_ids=inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, (time.perf_counter() - start) / max(1, steps - 1)


def main(steps: int = 40, length: int = 256, width: int = 128) -> tuple[list[float], list[float]]:
    """Trains twice from the same weights; returns both runs' losses."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=WORDS, d_model=width, d_kv=32, d_ff=2 * width, num_heads=width // 32,
        num_layers=2, dropout_rate=0.0, decoder_start_token_id=0,
    )  # fmt: skip
    before = T5ForConditionalGeneration(config)
    after = copy.deepcopy(before)
    print(locant.accelerate(after))
    losses_before, seconds_before = train(before, steps, length)
    losses_after, seconds_after = train(after, steps, length)
    print(
        f"{length} tokens, seconds a step: {seconds_before:.3f} before, {seconds_after:.3f} after"
    )
    print(f"loss before {losses_before[0]:.4f} -> {losses_before[-1]:.4f}")
    print(f"loss after  {losses_after[0]:.4f} -> {losses_after[-1]:.4f}")
    return losses_before, losses_after


if __name__ == "__main__":
    main()

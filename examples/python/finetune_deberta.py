"""Fine-tunes a DeBERTa-style classifier on generated data, before and after `locant.accelerate`.

./run python examples/python/finetune_deberta.py. The task: do the 2s come right after the 3s, or
right before them? The words alone do not tell, their order does. With dropout 0 both runs have the
same losses, up to the rounding of float32; the second takes less time per step.
"""

from __future__ import annotations

import copy
import time

import torch
from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

import locant

WORDS = 32


def batch(size: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(ids, mask, label): pairs of a 2 and a 3 among other words, padded with 0 to one length."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, WORDS, (size, length), generator=generator)
    lengths = torch.randint(length // 2, length + 1, (size,), generator=generator)
    label = torch.arange(size) % 2
    for row in range(size):
        pairs = (int(lengths[row]) - 1) // 2
        at = 1 + 2 * torch.randperm(pairs, generator=generator)[: max(1, pairs // 2)]
        ids[row, at], ids[row, at + 1] = (3, 2) if label[row] else (2, 3)
    ids[:, 0] = 1
    mask = torch.arange(length) < lengths[:, None]
    return ids * mask, mask.long(), label


def train(
    model: DebertaV2ForSequenceClassification, steps: int, length: int
) -> tuple[list[float], float]:
    """(the loss of every step, seconds a step without the first)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses, start = [], 0.0
    for step in range(steps):
        if step == 1:
            start = time.perf_counter()
        ids, mask, label = batch(8, length, seed=step)
        loss = model(input_ids=ids, attention_mask=mask, labels=label).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, (time.perf_counter() - start) / max(1, steps - 1)


def main(steps: int = 40, length: int = 256, width: int = 128) -> tuple[list[float], list[float]]:
    """Trains twice from the same weights; returns both runs' losses."""
    torch.manual_seed(0)
    config = DebertaV2Config(
        vocab_size=WORDS, hidden_size=width, num_hidden_layers=2, num_attention_heads=width // 32,
        intermediate_size=2 * width, relative_attention=True, pos_att_type="p2c|c2p",
        position_buckets=32, max_position_embeddings=512, position_biased_input=False,
        share_att_key=True, norm_rel_ebd="layer_norm", type_vocab_size=0, num_labels=2,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    before = DebertaV2ForSequenceClassification(config)
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

#!/usr/bin/env python3
"""Trains the same model in Locant and in PyTorch (eager and compiled) and prints both, in one run.

The model is locant/train/model.h's: pre-norm, GELU (tanh), tied head, learned positions, biases, no
dropout; AdamW, gradients clipped to norm 1, f32. All three take turns, several rounds, so that a busy
machine slows all alike; the ratio is the median over the rounds.

  python3 -m venv venv && venv/bin/pip install torch==2.13.0
  venv/bin/python bench/compare_pytorch_train.py --bench build/release/bin/bench/train_bench --threads 2
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

# Forces an older instruction set on OpenBLAS; whoever set it did not mean this comparison.
os.environ.pop("OPENBLAS_CORETYPE", None)


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", required=True, help="the built program train_bench")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--vocabulary", type=int, default=65)
    p.add_argument("--seconds", type=float, default=4, help="of each, a round")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    return p.parse_args()


def make_model(a):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(a.width), nn.LayerNorm(a.width)
            self.qkv, self.out = nn.Linear(a.width, 3 * a.width), nn.Linear(a.width, a.width)
            self.up, self.down = nn.Linear(a.width, 4 * a.width), nn.Linear(4 * a.width, a.width)

        def forward(self, x):
            b, n, w = x.shape
            q, k, v = (t.view(b, n, a.heads, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
            return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(a.vocabulary, a.width)
            self.positions = nn.Parameter(torch.zeros(a.length, a.width))
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
            self.norm = nn.LayerNorm(a.width)
            nn.init.normal_(self.tokens.weight, std=0.02)
            nn.init.normal_(self.positions, std=0.02)

        def forward(self, inputs, targets):
            x = self.tokens(inputs) + self.positions
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    torch.manual_seed(0)
    return Transformer()


class TorchRun:
    def __init__(self, a, compiled):
        import torch

        self.torch, self.threads = torch, a.threads
        self.model = make_model(a)
        self.call = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        self.inputs = torch.randint(a.vocabulary, (a.batch, a.length))
        self.targets = torch.randint(a.vocabulary, (a.batch, a.length))
        for _ in range(5):
            self.step()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.call(self.inputs, self.targets)
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()

    def rate(self, seconds):
        """Tokens a second by the clock, and by processor time (of all threads, times their number)."""
        rates, cpu_rates, begin = [], [], time.perf_counter()
        while time.perf_counter() - begin < seconds or len(rates) < 3:
            start, cpu_start = time.perf_counter(), time.process_time()
            self.step()
            rates.append(self.inputs.numel() / (time.perf_counter() - start))
            cpu_rates.append(self.inputs.numel() * self.threads / (time.process_time() - cpu_start))
        return statistics.median(rates), statistics.median(cpu_rates)


def locant_round(a):
    arguments = [a.bench, "--scheme", "learned", "--seconds", str(a.seconds)]
    for name in ("threads", "layers", "width", "heads", "length", "batch", "vocabulary"):
        arguments += ["--" + name, str(getattr(a, name))]
    lines = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split("\n")
    return {line.split()[0]: float(line.split()[1]) for line in lines if line}


def main():
    a = parse()
    try:
        import torch
    except ImportError:
        sys.exit("needs PyTorch in this Python: pip install torch==2.13.0")
    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    peers = {"eager": TorchRun(a, False)}
    if not a.no_compile:
        peers["compiled"] = TorchRun(a, True)
    if sum(p.numel() for p in peers["eager"].model.parameters()) != locant_round(a)["parameters"]:
        sys.exit("the two models differ")

    names = ["locant", *peers]
    rates, cpu_rates = {name: [] for name in names}, {name: [] for name in names}
    peaks, flops, shares = [], 0, []
    print(f"torch {torch.__version__}, {a.threads} thread(s): {a.layers} layers, d={a.width}, {a.heads} heads, "
          f"L={a.length}, batch {a.batch}; tokens/s")
    for number in range(a.rounds):
        ours = locant_round(a)
        rates["locant"].append(ours["tokens_per_second"])
        cpu_rates["locant"].append(ours["tokens_per_cpu_second"])
        peaks.append(ours["peak_gflops"])
        shares.append(ours["share_of_peak"])
        flops = ours["flops_per_token"]
        for name, peer in peers.items():
            rate, cpu_rate = peer.rate(a.seconds)
            rates[name].append(rate)
            cpu_rates[name].append(cpu_rate)
        print(f"round {number + 1}: " + ", ".join(f"{n} {rates[n][-1]:.0f}" for n in names)
              + f"; peak {peaks[-1]:.1f} GFLOP/s", flush=True)
    peak = statistics.median(peaks)
    for name in names:
        rate = statistics.median(rates[name])
        share = statistics.median(shares) if name == "locant" else rate * flops / peak / 1e9
        print(f"{name:10s} {rate:8.0f} tokens/s  {share:6.1%} of the FMA peak;  by processor time "
              f"{statistics.median(cpu_rates[name]):8.0f}")
    # The better of the two is the one that is faster over all rounds.
    best = max(peers, key=lambda n: statistics.median(rates[n]))
    best_cpu = max(peers, key=lambda n: statistics.median(cpu_rates[n]))
    ratio = statistics.median(x / y for x, y in zip(rates["locant"], rates[best]))
    cpu_ratio = statistics.median(x / y for x, y in zip(cpu_rates["locant"], cpu_rates[best_cpu]))
    print(f"locant against the better of PyTorch: {ratio:.2f}x ({best}); by processor time {cpu_ratio:.2f}x "
          f"({best_cpu}; the measure for a machine with other work, one thread)")


if __name__ == "__main__":
    main()

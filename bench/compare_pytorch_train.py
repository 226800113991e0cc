#!/usr/bin/env python3
"""Trains the same model in Locant and in PyTorch (eager and compiled) and prints both, in one run.

The model is locant/train/model.h's: pre-norm, GELU (tanh), tied head, biases, no dropout; learned
positions, or T5's learned bias (one table for all layers), which PyTorch adds to the causal mask of
its SDPA; AdamW, gradients clipped to norm 1, f32. All three take turns, several rounds, so that a
busy machine slows all alike; the ratio is the median over the rounds.

  ./run bench pytorch_train                           L=64, batch 32, learned positions, one thread
  ./run bench pytorch_train --scheme t5 --length 1024 --batch 2 --threads 2
  ./run bench pytorch_train --goals                   every configuration that has a goal
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import peers
from pytorch_peers import t5_bucket

# (scheme, length, batch, threads): Locant is to be so many times as fast as the best of PyTorch.
GOALS = {
    ("learned", 64, 32, 2): 1.6,
    ("learned", 64, 32, 1): 1.3,
    ("learned", 1024, 2, 2): 1.8,
    ("learned", 1024, 2, 1): None,
    ("t5", 1024, 2, 2): 5,
    ("t5", 1024, 2, 1): None,
}


def parse():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--bench",
        default=str(peers.ROOT / "build/release/bin/bench/train_bench"),
        help="the built program",
    )
    p.add_argument(
        "--scheme",
        choices=("learned", "t5"),
        default="learned",
        help="how the model knows positions",
    )
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
    p.add_argument("--json", action="store_true", help="print the result as a line of JSON")
    p.add_argument(
        "--goals", action="store_true", help="measure every configuration that has a goal"
    )
    peers.add_venv(p)
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

        def forward(self, x, bias):
            b, n, w = x.shape
            q, k, v = (
                t.view(b, n, a.heads, -1).transpose(1, 2)
                for t in self.qkv(self.norm_1(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
            return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(a.vocabulary, a.width)
            if a.scheme == "t5":
                self.bias = nn.Embedding(a.buckets, a.heads)
                nn.init.normal_(self.bias.weight, std=0.02)
            else:
                self.positions = nn.Parameter(torch.zeros(a.length, a.width))
                nn.init.normal_(self.positions, std=0.02)
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
            self.norm = nn.LayerNorm(a.width)
            nn.init.normal_(self.tokens.weight, std=0.02)

        def forward(self, inputs, targets):
            x, bias = self.tokens(inputs), None
            if a.scheme == "t5":  # as T5 does: once a pass, for all layers
                n = inputs.shape[1]
                at = torch.arange(n)
                distance = at[None, :] - at[:, None]
                bias = (
                    self.bias(t5_bucket(distance, False, a.buckets, a.max_distance))
                    .permute(2, 0, 1)
                    .unsqueeze(0)
                )
                bias = bias + torch.full((n, n), -math.inf).triu(1)
            else:
                x = x + self.positions
            for block in self.blocks:
                x = block(x, bias)
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
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-3, weight_decay=0.01, fused=True
        )
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
        """Tokens a second: by the clock, and by processor time (of all threads, x their number)."""
        rates, cpu_rates, begin = [], [], time.perf_counter()
        while time.perf_counter() - begin < seconds or len(rates) < 3:
            start, cpu_start = time.perf_counter(), time.process_time()
            self.step()
            rates.append(self.inputs.numel() / (time.perf_counter() - start))
            cpu_rates.append(self.inputs.numel() * self.threads / (time.process_time() - cpu_start))
        return statistics.median(rates), statistics.median(cpu_rates)


def locant_round(a):
    arguments = [a.bench, "--scheme", a.specification, "--seconds", str(a.seconds)]
    for name in ("threads", "layers", "width", "heads", "length", "batch", "vocabulary"):
        arguments += ["--" + name, str(getattr(a, name))]
    lines = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout.split("\n")
    return {line.split()[0]: float(line.split()[1]) for line in lines if line}


def measure_goals(a):
    """Each configuration in a process of its own, since compiled models and thread pools stay."""
    for (scheme, length, batch, threads), goal in GOALS.items():
        command = [
            sys.executable,
            __file__,
            "--json",
            "--bench",
            a.bench,
            "--scheme",
            scheme,
            "--length",
            str(length),
            "--batch",
            str(batch),
            "--threads",
            str(threads),
            "--seconds",
            str(a.seconds),
            "--rounds",
            str(a.rounds),
            *(["--no-compile"] if a.no_compile else []),
        ]
        result = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        )
        ratio = result["cpu_ratio" if threads == 1 else "ratio"]
        result["goal"] = goal
        if a.json:
            print(json.dumps(result), flush=True)
            continue
        judged = "" if goal is None else f"  goal {goal}x" + ("" if ratio >= goal else "  MISSED")
        rates = ", ".join(
            f"{name} {rate:.0f}" for name, rate in result["tokens_per_second"].items()
        )
        print(
            f"{scheme:8s} L={length:<5d} batch {batch:<3d} t{threads}: "
            f"{ratio:.2f}x{judged}  ({rates} tokens/s)",
            flush=True,
        )


def main():
    a = parse()
    peers.enter(a.venv, [f"torch=={peers.TORCH}", "numpy"])
    if a.goals:
        return measure_goals(a)
    # The scheme as Locant fits it to the length, said in full so that both sides have the same.
    a.buckets, a.max_distance = 32, max(a.length // 2, 2)
    a.specification = (
        "learned"
        if a.scheme == "learned"
        else f"t5(buckets={a.buckets},max_distance={a.max_distance})"
    )
    import torch

    torch.set_num_threads(a.threads)
    torch.set_num_interop_threads(1)
    others = {"eager": TorchRun(a, False)}
    if not a.no_compile:
        try:
            others["compiled"] = TorchRun(a, True)
        except Exception as error:
            print(
                f"compiled: left out, {type(error).__name__}: {str(error).strip()[:200]}",
                file=sys.stderr,
            )
    if sum(p.numel() for p in others["eager"].model.parameters()) != locant_round(a)["parameters"]:
        sys.exit("the two models differ")

    names = ["locant", *others]
    show = (lambda *words, **_: None) if a.json else print
    rates, cpu_rates = {name: [] for name in names}, {name: [] for name in names}
    peaks, flops, shares = [], 0, []
    show(
        f"torch {torch.__version__}, {a.threads} thread(s): "
        f"{a.specification}, {a.layers} layers, d={a.width}, "
        f"{a.heads} heads, L={a.length}, batch {a.batch}; tokens/s"
    )
    for number in range(a.rounds):
        ours = locant_round(a)
        rates["locant"].append(ours["tokens_per_second"])
        cpu_rates["locant"].append(ours["tokens_per_cpu_second"])
        peaks.append(ours["peak_gflops"])
        shares.append(ours["share_of_peak"])
        flops = ours["flops_per_token"]
        for name, peer in others.items():
            rate, cpu_rate = peer.rate(a.seconds)
            rates[name].append(rate)
            cpu_rates[name].append(cpu_rate)
        show(
            f"round {number + 1}: "
            + ", ".join(f"{n} {rates[n][-1]:.0f}" for n in names)
            + f"; peak {peaks[-1]:.1f} GFLOP/s",
            flush=True,
        )
    peak = statistics.median(peaks)
    for name in names:
        rate = statistics.median(rates[name])
        share = statistics.median(shares) if name == "locant" else rate * flops / peak / 1e9
        show(
            f"{name:10s} {rate:8.0f} tokens/s  {share:6.1%} of the FMA peak;  by processor time "
            f"{statistics.median(cpu_rates[name]):8.0f}"
        )
    # The better of the two is the one that is faster over all rounds.
    best = max(others, key=lambda n: statistics.median(rates[n]))
    best_cpu = max(others, key=lambda n: statistics.median(cpu_rates[n]))
    ratio = statistics.median(x / y for x, y in zip(rates["locant"], rates[best], strict=True))
    cpu_ratio = statistics.median(
        x / y for x, y in zip(cpu_rates["locant"], cpu_rates[best_cpu], strict=True)
    )
    show(
        f"locant against the better of PyTorch: {ratio:.2f}x ({best}); "
        f"by processor time {cpu_ratio:.2f}x "
        f"({best_cpu}; the measure for a machine with other work, one thread)"
    )
    if a.json:
        print(
            json.dumps(
                {
                    "scheme": a.specification,
                    "length": a.length,
                    "batch": a.batch,
                    "threads": a.threads,
                    "tokens_per_second": {n: statistics.median(rates[n]) for n in names},
                    "tokens_per_cpu_second": {n: statistics.median(cpu_rates[n]) for n in names},
                    "ratio": ratio,
                    "best": best,
                    "cpu_ratio": cpu_ratio,
                    "cpu_best": best_cpu,
                }
            )
        )


if __name__ == "__main__":
    main()

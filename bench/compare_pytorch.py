#!/usr/bin/env python3
"""Times attention in Locant and the way it is done in PyTorch and ONNX Runtime today, in one run.

Both sides take turns, round by round, so that a busy machine slows both alike; the ratio is the
median over the rounds (above 1: Locant is faster). One thread is measured by processor time,
several by the clock, on both sides. Batch 1, 8 heads of 64 unless the line says otherwise.

  ./run bench pytorch                      all of it, with one and two threads: about an hour
  ./run bench pytorch --only learned       what has "learned" in its name (a regular expression)
  ./run bench pytorch --smoke              every line once at an eighth of the length: does it run?

Leave the machine alone: where other programs take a core, PyTorch's threads wait for each other.
"""

import argparse
import dataclasses
import json
import re
import statistics
import subprocess
import sys
import time

import peers
from pytorch_peers import make_peer


@dataclasses.dataclass
class Line:
    name: str
    case: str  # of `locant bench`, with {n} for the length
    n: int
    peer: str  # a function of pytorch_peers, with its arguments
    goal: float = 0  # Locant is to be so many times as fast, one thread

    def locant_case(self, n, threads):
        return self.case.format(n=n) + f" t{threads}"


LINES = [
    # What everybody calls.
    *[
        Line(
            f"SDPA {mask}{way} {n}",
            f"b1 h8 q{{n}} d64 {mask}{way}",
            n,
            f"sdpa causal={bool(mask)} way={way}",
        )
        for n in (512, 2048, 4096)
        for mask in ("", "causal ")
        for way in ("fwd", "fwd+bwd")
    ],
    *[
        Line(
            f"SDPA bf16 {mask}{way} 2048",
            f"b1 h8 q{{n}} d64 {mask}bf16 {way}",
            2048,
            f"sdpa causal={bool(mask)} way={way} dtype=bfloat16",
        )
        for mask in ("", "causal ")
        for way in ("fwd", "fwd+bwd")
    ],
    *[
        Line(
            f"ONNX Runtime {mask}fwd {n}",
            f"b1 h8 q{{n}} d64 {mask}fwd",
            n,
            f"onnx causal={bool(mask)}",
        )
        for n in (512, 2048, 4096)
        for mask in ("", "causal ")
    ],
    # A bias that depends on the distance, T5's.
    *[
        Line(f"SDPA, ready bias matrix fwd {n}", "b1 h8 q{n} d64 t5 fwd", n, "bias built=False")
        for n in (512, 2048, 4096)
    ],
    *[
        Line(
            f"SDPA, bias matrix of each call fwd {n}", "b1 h8 q{n} d64 t5 fwd", n, "bias built=True"
        )
        for n in (512, 2048, 4096)
    ],
    *[
        Line(
            f"ONNX Runtime, ready bias matrix fwd {n}",
            "b1 h8 q{n} d64 t5 fwd",
            n,
            "onnx causal=False bias=True",
        )
        for n in (512, 2048)
    ],
    *[
        Line(
            f"SDPA, learned T5 bias fwd+bwd {n}",
            "b1 h8 q{n} d64 t5 fwd+bwd",
            n,
            "learned causal=False",
            goal,
        )
        for n, goal in ((512, 0), (2048, 3.5), (4096, 6))
    ],
    Line(
        "SDPA, learned T5 bias causal fwd+bwd 2048",
        "b1 h8 q{n} d64 causal t5 fwd+bwd",
        2048,
        "learned causal=True",
    ),
    *[
        Line(
            f"FlexAttention {mask}{kind or 'plain'} fwd 2048",
            f"b1 h8 q{{n}} d64 {mask}{kind} fwd",
            2048,
            f"flex causal={bool(mask)} kind={kind or 'plain'}",
        )
        for kind, mask in (
            ("", ""),
            ("t5", ""),
            ("alibi", ""),
            ("", "causal "),
            ("alibi", "causal "),
        )
    ],
    # Rows by distance, as people write them.
    Line("Shaw keys+values fwd 512", "b1 h8 q{n} d64 shaw(k=16) fwd", 512, "shaw way=fwd"),
    Line(
        "Shaw keys+values fwd+bwd 512", "b1 h8 q{n} d64 shaw(k=16) fwd+bwd", 512, "shaw way=fwd+bwd"
    ),
    Line(
        "Shaw keys+values fwd+bwd 1024",
        "b1 h8 q{n} d64 shaw(k=16) fwd+bwd",
        1024,
        "shaw way=fwd+bwd",
        12,
    ),
    Line(
        "Transformer-XL fwd+bwd 512",
        "b1 h8 q{n} d64 causal transformer_xl fwd+bwd",
        512,
        "xl way=fwd+bwd",
    ),
    Line("Transformer-XL fwd 2048", "b1 h8 q{n} d64 causal transformer_xl fwd", 2048, "xl way=fwd"),
    Line(
        "Transformer-XL fwd+bwd 2048",
        "b1 h8 q{n} d64 causal transformer_xl fwd+bwd",
        2048,
        "xl way=fwd+bwd",
        3.8,
    ),
    # One new query against many keys.
    *[
        Line(
            f"decode {name} {n} keys",
            f"b1 {sizes} q1 k{{n}} decode {dtype}",
            n,
            f"decode {how} dtype={long}",
        )
        for n in (4096, 32768)
        for dtype, long in (("f32", "float32"), ("bf16", "bfloat16"))
        for name, sizes, how in (
            (f"{dtype}", "h8 d64", "h=8 g=8 d=64"),
            (f"{dtype} 32q/8kv", "h32 g8 d128", "h=32 g=8 d=128"),
        )
    ],
]


# --- measuring ------------------------------------------------------------------------------------


def clock(threads):
    return time.process_time() if threads == 1 else time.perf_counter()


def time_peer(step, threads, at_least=0.3):
    times, begin = [], time.perf_counter()
    while not times or time.perf_counter() - begin < at_least:
        start = clock(threads)
        step()
        times.append(clock(threads) - start)
    return 1e3 * statistics.median(times)


def measure(a, line, threads):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    n = max(32, line.n // 8) if a.smoke else line.n
    case = line.locant_case(n, threads)
    ours, theirs = [], []
    ours.append(
        peers.locant_bench(a.locant, case)["median_ms"]
    )  # a case that is refused is known before the work
    ours.clear()
    step = make_peer(line.peer, n)
    step()  # compiles, and fills caches
    for _ in range(a.rounds):
        theirs.append(time_peer(step, threads))
        time.sleep(0.2)  # until the peer's idle threads no longer spin
        ours.append(peers.locant_bench(a.locant, case)["median_ms"])
    result = {
        "name": line.name,
        "threads": threads,
        "case": case,
        "locant_ms": statistics.median(ours),
        "peer_ms": statistics.median(theirs),
        "ratio": statistics.median(y / x for x, y in zip(ours, theirs, strict=True)),
    }
    if line.goal and threads == 1 and not a.smoke:
        result["goal"] = line.goal
        result["reached"] = result["ratio"] >= line.goal
    return result


# --- memory ---------------------------------------------------------------------------------------


def memory_of_peer(n, threads):
    """In a process of its own: MB it grows by in a forward+backward with a learned T5 bias."""
    import torch

    torch.set_num_threads(threads)
    make_peer("learned causal=False", 64)()  # loads what is loaded at the first call
    step = make_peer("learned causal=False", n)
    print(json.dumps({"extra_mb": peers.growth(step)}))


def measure_memory(a, n, share):
    """Peak of one forward+backward with a learned T5 table, results included on both sides."""
    if a.smoke:
        n //= 8
    child = [sys.executable, __file__, "--memory-of-peer", str(n), "--threads", "2"]
    theirs = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)[
        "extra_mb"
    ]
    case = f"b1 h8 q{n} d64 t5 fwd+bwd t2"
    call = peers.locant_bench(a.locant, case)["extra_mb"]
    results = 4e-6 * (
        4 * 8 * n * 64 + 8 * n
    )  # out, three gradients, lse; a table of 32 x 8 does not show
    ours = call + results
    result = {
        "name": f"memory, learned T5 bias fwd+bwd {n}",
        "threads": 2,
        "case": case,
        "locant_mb": ours,
        "locant_beyond_results_mb": call,
        "peer_mb": theirs,
        "share": ours / theirs,
    }
    if not a.smoke:
        result["goal"] = share
        result["reached"] = ours / theirs <= share
    return result


# --- the table ------------------------------------------------------------------------------------


def show(result):
    goal = ""
    if "goal" in result:
        goal = f"  goal {result['goal']:.3g}{'' if result['reached'] else '  MISSED'}"
    if "share" in result:
        print(
            f"{result['name']:48s} t{result['threads']} {result['locant_mb']:9.1f} MB "
            f"{result['peer_mb']:9.1f} MB "
            f"{result['share']:8.3f}{goal}",
            flush=True,
        )
    else:
        print(
            f"{result['name']:48s} t{result['threads']} {result['locant_ms']:9.2f} ms "
            f"{result['peer_ms']:9.2f} ms "
            f"{result['ratio']:7.2f}x{goal}",
            flush=True,
        )


def parse():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--locant", default=str(peers.ROOT / "build/release/bin/locant"), help="the built command"
    )
    p.add_argument("--threads", default="1,2", help="as in 1,2 (the default)")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="lines whose name has this regular expression in it")
    p.add_argument("--json", action="store_true", help="a line of JSON for each")
    p.add_argument("--smoke", action="store_true", help="an eighth of the length, one round")
    p.add_argument("--list", action="store_true", help="print the names of the lines")
    p.add_argument("--memory-of-peer", type=int, help=argparse.SUPPRESS)
    peers.add_venv(p)
    a = p.parse_args()
    if a.smoke:
        a.rounds = 1
    return a


def main():
    a = parse()
    memory = [(2048, 0.1), (8192, 0.02)]
    if a.list:
        print(
            *[line.name for line in LINES],
            *[f"memory, learned T5 bias fwd+bwd {n}" for n, _ in memory],
            sep="\n",
        )
        return 0
    peers.enter(a.venv, [f"torch=={peers.TORCH}", "numpy", "onnx", "onnxruntime"])
    import onnxruntime
    import torch

    torch.set_num_interop_threads(1)
    if a.memory_of_peer:
        memory_of_peer(a.memory_of_peer, int(a.threads))
        return 0
    if not a.json:
        print(
            f"torch {torch.__version__}, onnxruntime {onnxruntime.__version__}; "
            "locant, peer, how many times as fast"
        )
    failed = 0
    jobs = [
        (line.name, lambda line=line, t=t: measure(a, line, t))
        for line in LINES
        for t in map(int, a.threads.split(","))
    ]
    jobs += [
        (
            f"memory, learned T5 bias fwd+bwd {n}",
            lambda n=n, share=share: measure_memory(a, n, share),
        )
        for n, share in memory
    ]
    for name, job in jobs:
        if not re.search(a.only, name):
            continue
        try:
            result = job()
        except Exception as error:  # one line that cannot be had is no reason to lose the others
            failed += 1
            print(
                f"{name}: {type(error).__name__}: {str(error).strip()[:300]}",
                file=sys.stderr,
                flush=True,
            )
            continue
        if a.json:
            print(json.dumps(result), flush=True)
        else:
            show(result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Hugging Face models on Locant's kernel and on their own attention, in one run.

  ./run bench huggingface                    all of it
  ./run bench huggingface --part modules --threads 1   one part (modules, memory, models) or several
  ./run bench huggingface --list             the lines, and about how long each part takes
  ./run bench huggingface --goals            with what is to be reached beside it
  ./run bench huggingface --only 'deberta.*512'   lines whose name has this regular expression in it
  ./run bench huggingface --smoke            every line once, short: does it run?

Lines named "attention" time one self-attention module with its projections: 12 heads of 64, batch
1, no padding, float32, the configuration of the family's base model, dropout 0. Lines named "model"
time the whole model with 12 layers (a vocabulary of 8192): inference, and a training step with the
model's own dropout of 0.1 and AdamW. The other side is the module's own best path: of eager and
sdpa, where it has both, whichever is faster there. Both sides take turns, round by round; the ratio
is the median over the rounds, above 1 where Locant is faster; long lines stop after two rounds. One
thread is measured by processor time, several by the clock. "kept": projected positions come from
the call before, as in evaluation; else they are made again. Memory is what a process grows by in
one call, results included, each side in a process of its own. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import peers
import torch
from huggingface_models import attention_step, config_of, model_of, model_step, paths_of

# Times as fast as the module's own best path, or that of GOAL_AGAINST: what is to be reached.
GOALS = {
    ("deberta_v2", "forward", 512): 2.4,
    ("deberta_v2", "forward kept", 512): 3.3,
    ("deberta_v2", "forward", 2048): 8.0,
    ("t5", "forward", 512): 1.45,
    ("t5", "forward", 2048): 3.5,
    ("deberta_v2", "forward+backward", 512): 1.4,
    ("deberta_v2", "forward+backward", 2048): 4.5,
    ("t5", "forward+backward", 512): 1.35,
    ("t5", "forward+backward", 2048): 3.0,
}
GOAL_AGAINST = {"t5": "sdpa"}  # else the best path
MEMORY_GOAL = 0.1  # of the other side's, at 2048
LONG = 45.0  # seconds, after which two rounds are enough
PARTS = {"modules": "attention", "memory": "memory", "models": "model"}
FAMILIES = ("t5", "t5_decoder", "mpnet", "deberta", "deberta_v2")


# --- measuring ------------------------------------------------------------------------------------


def time_of(step: Callable[[], Any], threads: int, at_least: float) -> float:
    """Milliseconds of a call: the median of as many as fit."""
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[float] = []
    begin = time.perf_counter()
    while not times or time.perf_counter() - begin < at_least:
        start = clock()
        step()
        times.append(clock() - start)
    return 1e3 * statistics.median(times)


def measure(a: Any, what: str, family: str, way: str, n: int, threads: int) -> dict[str, Any]:
    """Both sides in turns."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    layers = (1 if what == "attention" else 12) if not a.smoke else 1
    model = model_of(family, config_of(family, 0.0 if what == "attention" else 0.1, layers))
    make = attention_step if what == "attention" else model_step
    at_least = 0.0 if a.smoke else 0.3
    paths = [p for p in paths_of(family) if a.path in ("", p)] or list(paths_of(family))
    if a.side == "ours":
        paths = []
    steps = {path: make(family, way, n, path, model) for path in paths}
    first = {path: time_of(step, threads, 0.0) for path, step in steps.items()}
    if what == "model" and len(steps) > 1:  # rounds of each would take very long
        tried = first
        if max(first.values()) < 2e3:
            tried = {path: time_of(step, threads, at_least) for path, step in steps.items()}
        best = min(tried, key=lambda path: tried[path])
        steps = {best: steps[best]}
        gc.collect()
    ours_step = make(family, way, n, "locant", model)
    ours_step()
    ours: list[float] = []
    theirs: dict[str, list[float]] = {path: [] for path in steps}
    begin = time.perf_counter()
    for n_round in range(a.rounds):
        if n_round >= 2 and time.perf_counter() - begin > LONG:
            break
        for path, step in steps.items():
            theirs[path].append(time_of(step, threads, at_least))
            time.sleep(0.0 if a.smoke else 0.1)  # until idle threads no longer spin
        ours.append(time_of(ours_step, threads, at_least))
    result: dict[str, Any] = {"threads": threads, "ours_ms": statistics.median(ours), "path": ""}
    if theirs:
        medians = {path: statistics.median(times) for path, times in theirs.items()}
        result["path"] = best = min(medians, key=lambda path: medians[path])
        result["ratios"] = {
            path: statistics.median(y / x for x, y in zip(ours, times, strict=True))
            for path, times in theirs.items()
        }
        result.update(theirs_ms=medians[best], ratio=result["ratios"][best])
    return result


def memory_of_one_call(a: Any, family: str, way: str, n: int) -> float:
    """By how many MB this process grows in one call of the attention module."""
    torch.set_num_threads(2)
    model = model_of(family, config_of(family, 0.0, 1))
    attention_step(family, way, 64, a.path, model)()  # loads what is loaded at the first call
    step = attention_step(family, way, n, a.path, model)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before would be used again unseen
    return peers.growth(step)


def child(a: Any, *words: str) -> dict[str, Any] | None:
    """The JSON that this program prints in a process of its own; None if that was killed."""
    command = [sys.executable, __file__, "--json", "--rounds", str(a.rounds), *words]
    if a.smoke:
        command.append("--smoke")
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode < 0 or done.returncode == 137:
        return None
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[2:])} failed")
    return json.loads(done.stdout.strip().splitlines()[-1])


# --- lines ----------------------------------------------------------------------------------------


def lines_of(a: Any) -> list[tuple[str, str, str, int]]:
    """(what, family, way, length)."""
    lines = []
    wanted = [PARTS[part] for part in a.part]
    for n in a.lengths:
        for family in FAMILIES:
            ways = ["forward", "forward+backward"]
            if family.startswith("deberta"):
                ways.insert(1, "forward kept")
            lines += [("attention", family, way, n) for way in ways]
    lines += [
        ("memory", family, way, max(a.lengths))
        for family in FAMILIES
        for way in ("forward", "forward+backward")
    ]
    for n in a.lengths:
        for family in ("t5", "mpnet", "deberta_v2"):
            lines += [("model", family, way, n) for way in ("inference", "training")]
    return [x for x in lines if x[0] in wanted and re.search(a.only, name_of(*x))]


def name_of(what: str, family: str, way: str, n: int) -> str:
    """As it is printed."""
    return f"{what} {family} {way} {n}"


# Milliseconds of a forward pass of one eager attention module on one thread of the machine that
# docs/results/speed.md describes, and by how much Locant's is faster, for 128, 512 and 2048 tokens.
EAGER_MS = {
    "t5": (10, 47, 1200), "t5_decoder": (10, 50, 1300), "mpnet": (10, 50, 1300),
    "deberta": (17, 75, 1800), "deberta_v2": (27, 80, 2000),
}  # fmt: skip
FASTER = (1.2, 1.6, 5)


def seconds_of(a: Any, line: tuple[str, str, str, int]) -> float:
    """About how long a line takes on two idle cores, for all of its numbers of threads."""
    what, family, way, n = line
    size = min(range(3), key=lambda s: abs(n - (128, 512, 2048)[s]))
    ms = EAGER_MS[family][size] * (n / (128, 512, 2048)[size]) ** (1 + (n > 512))
    sides = [ms / FASTER[size]] + [ms] * (len(paths_of(family)) if what != "model" else 1)
    once = [1e-3 * x * (2.8 if way in ("forward+backward", "training") else 1) for x in sides]
    if what == "memory":
        return sum(x + 5 for x in once)
    if what == "model":
        feed_forward = 1.1e-4 * n * (3 if way == "training" else 1)
        once = [12 * (x + feed_forward) + 0.15 * (way == "training") for x in once]
    total = 0.0
    for threads in a.threads:
        each = [x / min(threads, 1.7) for x in once]
        turn = sum(max(x, 0.3) for x in each)
        rounds = min(a.rounds, max(2, 1 + int(LONG / turn)))
        tries = len(paths_of(family)) * max(each) if what == "model" else 0
        total += (rounds + 1) * turn + tries + (8 if what == "model" else 1)
    return total


def run_line(a: Any, line: tuple[str, str, str, int]) -> list[dict[str, Any]]:
    """The results of a line, one for each number of threads."""
    what, family, way, n = line
    exact = ["--line", what, family, way, str(n)]
    if what == "memory":
        sides = {}
        for path in ("locant", *paths_of(family)):
            found = child(a, *exact, "--path", path)
            sides[path] = float("inf") if found is None else found["mb"]
        ours = sides.pop("locant")
        best = min(sides, key=lambda path: sides[path])
        result = {"ours_mb": ours, "theirs_mb": sides[best], "path": best, "threads": 2}
        result["share"] = ours / max(sides[best], 1e-3)  # a short call may take nothing
        if a.goals and n >= 2048:
            result.update(goal=MEMORY_GOAL, reached=result["share"] <= MEMORY_GOAL)
        return [result]
    results = []
    for threads in a.threads:
        if what == "attention":
            result = measure(a, what, family, way, n, threads)
        else:
            words = [*exact, "--threads", str(threads), "--path", a.path]
            found = child(a, *words)
            if found is None:  # the other side does not fit into memory
                found = child(a, *words, "--side", "ours")
            if found is None:
                raise RuntimeError("does not fit into memory")
            result = found
            result["ours_tokens_per_s"] = 1e3 * n / result["ours_ms"]
            if "theirs_ms" in result:
                result["theirs_tokens_per_s"] = 1e3 * n / result["theirs_ms"]
        goal = GOALS.get((family, way, n)) if what == "attention" else None
        if a.goals and goal and "ratio" in result:
            against = GOAL_AGAINST.get(family, result["path"])
            ratio = result["ratios"].get(against, result["ratio"])
            result.update(goal=goal, against=against, reached=ratio >= goal)
        results.append(result)
    return results


def show(name: str, result: dict[str, Any]) -> None:
    """One line of the table."""
    goal = ""
    if "goal" in result:
        goal = f"  goal {result['goal']:.3g}{'' if result['reached'] else '  MISSED'}"
        if result.get("against", result["path"]) != result["path"]:
            against = result["against"]
            goal += f" (against {against}: {result['ratios'][against]:.2f}x)"
    head = f"{name:44s} t{result['threads']}"
    against = f"{result['path']:>6}"
    if "share" in result:
        print(
            f"{head} {result['ours_mb']:10.1f} MB {result['theirs_mb']:10.1f} MB {against}"
            f" {result['share']:7.3f} {goal}",
            flush=True,
        )
        return
    unit, cells = "ms   ", [result["ours_ms"], result.get("theirs_ms")]
    if "ours_tokens_per_s" in result:
        unit, cells = "tok/s", [result["ours_tokens_per_s"], result.get("theirs_tokens_per_s")]
    theirs = "out of memory   " if cells[1] is None else f"{cells[1]:10.1f} {unit}"
    ratio = "" if "ratio" not in result else f"{result['ratio']:7.2f}x"
    print(f"{head} {cells[0]:10.1f} {unit} {theirs} {against} {ratio}{goal}", flush=True)


def parts_of(text: str) -> list[str]:
    """Of --part."""
    parts = text.split(",")
    for part in parts:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"{part!r} is none of {', '.join(PARTS)}")
    return parts


def parse() -> Any:
    """The arguments."""
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole = lambda text: [int(x) for x in text.split(",")]  # noqa: E731
    p.add_argument("--threads", type=whole, default=[1, 2], help="as in 1,2 (the default)")
    p.add_argument("--lengths", type=whole, default=[128, 512, 2048], help="default 128,512,2048")
    p.add_argument("--part", type=parts_of, default=[*PARTS], help="as in modules,memory,models")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", default="", help="a regular expression that the name has in it")
    p.add_argument("--goals", action="store_true", help="what is to be reached, and what missed it")
    p.add_argument("--json", action="store_true", help="a line of JSON for each result")
    p.add_argument("--list", action="store_true", help="print the names of the lines")
    p.add_argument("--smoke", action="store_true", help="32 tokens, one round, one layer")
    p.add_argument("--line", nargs=4, help=argparse.SUPPRESS)  # of a child
    p.add_argument("--path", default="", help="the other side: eager or sdpa, not the better one")
    p.add_argument("--side", default="", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.smoke:
        a.rounds, a.lengths = 1, [32]
    return a


def main() -> int:
    """Prints a table; 1 if a line could not be had."""
    a = parse()
    if a.list:
        for part in a.part:
            lines = [line for line in lines_of(a) if line[0] == PARTS[part]]
            print(*(name_of(*line) for line in lines), sep="\n")
            minutes = sum(seconds_of(a, line) for line in lines) / 60
            print(f"--part {part}: {len(lines)} lines, about {minutes:.0f} minutes\n")
        return 0
    import logging

    import transformers

    import locant

    logging.getLogger("transformers").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_interop_threads(1)
    if a.line:
        what, family, way, n = a.line[0], a.line[1], a.line[2], int(a.line[3])
        if what == "memory":
            print(json.dumps({"mb": memory_of_one_call(a, family, way, n)}))
        else:
            print(json.dumps(measure(a, what, family, way, n, a.threads[0])))
        return 0
    if not a.json:
        print(
            f"torch {torch.__version__}, transformers {transformers.__version__}, "
            f"{locant.instruction_set()}; locant, its own best path, which that is, times as fast"
        )
    failed = 0
    for line in lines_of(a):
        name = name_of(*line)
        try:
            results = run_line(a, line)
        except Exception as error:  # one line that cannot be had is no reason to lose the others
            failed += 1
            print(
                f"{name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True
            )
            continue
        for result in results:
            if a.json:
                print(json.dumps({"name": name, **result}), flush=True)
            else:
                show(name, result)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

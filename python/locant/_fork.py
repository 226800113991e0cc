"""A forked child: PyTorch's threads are gone there, and what waits for them hangs.

The kernel sees that for itself (python/ops/executor.cc). PyTorch's operators, which make tables and
whatever surrounds attention in a model, do not: the thread that forked keeps to itself, as it does
in PyTorch's own DataLoader. Threads that the child starts have pools of their own.
"""

from __future__ import annotations

import os

_had_threads = False


def _look() -> None:
    global _had_threads
    try:
        _had_threads = len(os.listdir("/proc/self/task")) > 1
    except OSError:  # no Linux
        _had_threads = True


def _begin_child() -> None:
    if _had_threads:
        import torch

        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_look, after_in_child=_begin_child)

"""Calls after a fork: PyTorch's threads are gone in the child, where what waits for them hangs.

The kernel sees that for itself (python/ops/executor.cc); PyTorch's operators, which make tables, do
not.
"""

from __future__ import annotations

import os

import torch

_in_new_child = False


def _begin_child() -> None:
    global _in_new_child
    _in_new_child = True


def settle() -> None:
    """In a forked child, before the first call: PyTorch's operators run on one thread there."""
    global _in_new_child
    if not torch.compiler.is_compiling() and _in_new_child:
        _in_new_child = False
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)

"""Calls that are recorded and played again with other inputs."""

from __future__ import annotations

import torch


def is_traced() -> bool:
    """Whether a call is recorded by torch.compile, torch.export or torch.jit.trace.

    What it reads from tensors would be fixed for all later inputs, and so would what it kept.
    """
    return torch.compiler.is_compiling() or torch._C._is_tracing()

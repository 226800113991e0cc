"""Tensors that outlive the call that makes them: index maps, rotations, rows by distance.

The call may be anybody's: under torch.inference_mode, while gradients are transformed, with fake
tensors, with another default device. What is kept of it must serve every later call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes


@contextmanager
def lasting(device: str = "cpu") -> Iterator[None]:
    """Inside of it tensors are plain ones on the CPU unless they say otherwise, without a gradient.

    device: type of the device on which autocast is switched off.
    """
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        torch.autocast(device, enabled=False),
        torch.device("cpu"),
        temporarily_clear_interpreter_stack(),
        _disable_current_modes(),
    ):
        yield


def is_plain() -> bool:
    """Whether an operator without tensors among its arguments returns plain ones; costs little."""
    return not (
        torch.is_inference_mode_enabled()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
    )

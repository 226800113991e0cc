"""Tensors that outlive the call that makes them: index maps, rotations, rows by distance.

The call may be anybody's: under torch.inference_mode, while gradients are transformed, with fake
tensors, with another default device. What is kept of it must serve every later call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

_no_transforms: Callable[[], AbstractContextManager[Any]] = nullcontext
_no_modes: Callable[[], AbstractContextManager[Any]] = nullcontext
try:
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack as _no_transforms
    from torch.utils._python_dispatch import _disable_current_modes as _no_modes
except ImportError:  # pragma: no cover - a later torch that names them otherwise
    pass
_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)


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
        _no_transforms(),
        _no_modes(),
    ):
        yield


def is_plain() -> bool:
    """Whether an operator without tensors among its arguments returns plain ones; costs little."""
    return not (
        torch.is_inference_mode_enabled() or _modes() or torch._C._are_functorch_transforms_active()
    )

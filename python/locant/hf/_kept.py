"""What is made of parameters and kept while they do not change."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._lasting import lasting
from .._traced import is_traced
from ._projection import Projection

_LAYERS = (nn.Linear, Projection, nn.LayerNorm, nn.Embedding)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_steps = 0


def _count_step(*_: Any) -> None:
    global _steps
    _steps += 1


# Fused optimizers change parameters without a new version.
register_optimizer_step_post_hook(_count_step)


class Kept:
    """A value, and the versions of the tensors that it was made of.

    Copies and pickles of a Kept are empty: a model's copy makes its own.
    """

    def __init__(self) -> None:
        self._held: tuple[list[Any], list[tuple[Any, ...]], Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()

    def drop(self) -> None:
        """Forgets the value."""
        self._held = None

    def get(
        self, sources: list[Tensor], make: Callable[[], Any], number: float | None = None
    ) -> Any:
        """The value of make(), from before where no source and no `number` has changed.

        Made without autograd and without autocast, so that it serves every later call.
        """
        if any(source.is_inference() for source in sources):  # these have no versions
            return make()
        stamp = [(_steps, number), *((s._version, s.data_ptr(), s.dtype) for s in sources)]
        held = self._held
        # The tensors themselves: another one may have taken the address.
        if (
            held is not None
            and held[1] == stamp
            and all(kept() is s for kept, s in zip(held[0], sources, strict=True))
        ):
            return held[2]
        with lasting(sources[0].device.type):
            value = make()
        self._held = ([weakref.ref(s) for s in sources], stamp, value)
        return value


def plain(layer: nn.Module) -> bool:
    """Whether a layer is its weight and bias and no more: no adapter, no hook."""
    if type(layer) not in _LAYERS or "forward" in layer.__dict__:
        return False
    return not any(getattr(layer, name) for name in _HOOKS) and not any(
        getattr(modules, "_global" + name, None) for name in _HOOKS
    )


def may_keep(training: bool, sources: list[Tensor]) -> bool:
    """Whether a call may use kept values: none that learns, and none that is recorded."""
    if training or is_traced():
        return False
    return not torch.is_grad_enabled() or not any(s.requires_grad for s in sources)

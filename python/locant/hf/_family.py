"""What a family of models tells `accelerate` about itself."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from torch import nn

NAME = "locant"
"""Of the attention implementation, in configs."""
PREFIX = "_locant_"
"""Attributes that a replaced module holds beside its own; `restore` removes them."""


def attention_in(layer: Any, path: str, kind: type[nn.Module]) -> nn.Module | None:
    """The attention of a stack's layer, also of a layer in a wrapper; None where it is not one."""
    try:
        found: nn.Module = attrgetter(path)(layer)
        return found
    except AttributeError:
        inside = [m for m in layer.modules() if isinstance(m, kind)]
        return inside[0] if len(inside) == 1 else None


class Family(NamedTuple):
    """Classes of a modeling file of transformers, and what takes their place.

    A module is replaced by giving it a class derived from its own: parameters, hooks, names and
    state_dict stay as they are, and `restore` gives the old class back.
    attention: class -> class of the attention modules. stacks: the same of the modules around them
    that make masks and positions once for all layers; replaced where all attention inside is.
    how: for the report. prepare: sets what the new class needs; a ValueError says why it cannot be.
    interface: whether masks come from the config's attention implementation (of the stack, where
    there are stacks), which is then switched to "locant".
    """

    attention: dict[type[nn.Module], type[nn.Module]]
    stacks: dict[type[nn.Module], type[nn.Module]]
    how: str
    prepare: Callable[[nn.Module], None]
    interface: bool

"""Rotations that depend on the length of a call."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from .._lasting import is_plain, lasting
from .built_in import BuiltIn, _checked
from .scheme import Call


def rotation_of_length(scheme: BuiltIn, call: Call, numbers: int) -> Tensor:
    """The rotation for the length of the call, kept until another length comes."""
    length = call.length
    arguments = (scheme.specification, scheme.head_size, scheme.layer, length, numbers)
    if torch.compiler.is_compiling():
        return torch.ops.locant.scheme_rotation(*arguments)
    kept = scheme.kept
    if kept is None or kept[0] != length:
        with nullcontext() if is_plain() else lasting():
            kept = (length, _checked(torch.ops.locant.scheme_rotation, *arguments))
        scheme.kept = kept
    return kept[1]


def _fake(specification: str, head_size: int, layer: int, length: int, numbers: int) -> Tensor:
    del specification, head_size, layer, length
    return torch.empty(numbers, dtype=torch.float64)


torch.library.register_fake("locant::scheme_rotation", _fake)

"""`accelerate` and `restore`: give the attention in a model other classes, and take them back."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from torch import nn

from ._family import NAME, PREFIX, Family
from ._projection import Projection, replace_projections
from ._report import Done, Report

# transformers' modeling files and ours that knows them. Only what is imported can be in a model.
_KNOWN = {
    "transformers.models.t5.modeling_t5": "t5",
    "transformers.models.mt5.modeling_mt5": "mt5",
    "transformers.models.umt5.modeling_umt5": "umt5",
    "transformers.models.mpnet.modeling_mpnet": "mpnet",
    "transformers.models.deberta.modeling_deberta": "deberta",
    "transformers.models.deberta_v2.modeling_deberta_v2": "deberta_v2",
}
_IMPLEMENTATION = PREFIX + "implementation"  # what the config had before


def accelerate(model: nn.Module) -> Report:
    """Runs a Hugging Face model's attention in Locant's kernel, in training and in evaluation.

    model: T5, mT5, UMT5, MPNet, DeBERTa v1, v2 or v3, or a module that holds such models. Weights
    and state_dict stay as they are. Dropout on the attention happens inside of the kernel. A call
    that wants attention weights (output_attentions), or brings a mask for every pair of tokens,
    runs as before, with a warning once.
    Returns a `Report` of what was replaced, and of what was left alone and why. Twice is once.
    On AMD's processors with AVX-512 the modules' linear layers go through oneDNN in float32 (a
    subclass of torch.nn.Linear takes their place), which is faster there than MKL.
    Two differences: a query that sees no key gives the mean of all values, as in transformers, but
    no gradient to scores, where transformers' functions disagree, and no dropout; and in evaluation
    DeBERTa's projected positions are kept until a parameter's version changes, so after writing to
    a parameter's `.data` call model.train() or model.eval().
    Errors: TypeError when model is no torch.nn.Module.
    """
    _check("accelerate", model)
    report = Report(type(model).__name__)
    families, unusable = _families()
    for name, module in model.named_modules():
        kind = type(module)
        original = _original(kind)
        for family in families:
            if original in family.attention:
                why = None if original is not kind else _replace(module, family)
                if why is None:
                    report.replaced.append(Done(name, original.__name__, family.how))
                else:
                    report.left_alone.append(Done(name, kind.__name__, why))
                break
        else:
            why = _why_not(module, families, unusable)
            if why is not None:
                report.left_alone.append(Done(name, kind.__name__, why))
    for module in model.modules():
        for family in families:
            _finish(module, family)
    return report


def restore(model: nn.Module) -> int:
    """Undoes `accelerate` in a model and all that is inside; returns how many modules it was."""
    _check("restore", model)
    count = 0
    for module in model.modules():
        original = _original(type(module))
        if original is type(module):
            continue
        count += original is not Projection.replaces
        if _IMPLEMENTATION in module.__dict__:
            config: Any = module.config
            if config._attn_implementation == NAME:  # nobody has changed it since
                config._attn_implementation_internal = module.__dict__[_IMPLEMENTATION]
        module.__class__ = original
        for attribute in [a for a in module.__dict__ if a.startswith(PREFIX)]:
            del module.__dict__[attribute]
    return count


def _check(operation: str, model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"{operation}: model must be a torch.nn.Module, got {type(model).__name__}")


def _original(kind: type[nn.Module]) -> type[nn.Module]:
    """The class of transformers that `kind` took the place of, or `kind` itself."""
    return kind.__dict__.get("replaces", kind)


def _families() -> tuple[list[Family], dict[str, str]]:
    """Those that the program has imported, and the modeling files that are not as expected."""
    found, unusable = [], {}
    for modeling, ours in _KNOWN.items():
        if modeling in sys.modules:
            try:
                found.append(importlib.import_module(f"{__package__}.{ours}").FAMILY)
            except (ImportError, AttributeError) as error:
                unusable[modeling] = str(error)
    return found, unusable


def _replace(module: nn.Module, family: Family) -> str | None:
    """Gives the module its new class; returns why not where that cannot be."""
    if "forward" in module.__dict__ or "compute_bias" in module.__dict__:
        return "somebody has given this one a forward of its own"
    try:
        family.prepare(module)
    except ValueError as error:
        return str(error)
    module.__class__ = family.attention[type(module)]
    replace_projections(module)
    if family.interface and not family.stacks:
        _switch(module)
    return None


def _finish(module: nn.Module, family: Family) -> None:
    """Replaces a stack where all attention inside is replaced."""
    other = family.stacks.get(type(module))
    if other is None or any(name in module.__dict__ for name in _own_names(other)):
        return
    inside = [m for m in module.modules() if isinstance(m, tuple(family.attention))]
    if inside and all(_original(type(m)) is not type(m) for m in inside):
        module.__class__ = other
        if family.interface:
            _switch(module)


def _own_names(kind: type[nn.Module]) -> set[str]:
    """What a class of ours defines in front of the one of transformers."""
    classes = kind.__mro__
    ours = classes[: classes.index(kind.__dict__["replaces"])]
    return {name for c in ours for name in vars(c)}


def _switch(module: nn.Module) -> None:
    """Has the module's config, which others may share, ask for our attention and masks."""
    config: Any = module.config
    if config._attn_implementation != NAME:
        module.__dict__[_IMPLEMENTATION] = config._attn_implementation
        config._attn_implementation_internal = NAME


def _why_not(module: nn.Module, families: list[Family], unusable: dict[str, str]) -> str | None:
    """Why a module that computes attention is not replaced; None for all other modules."""
    kind = type(module)
    for family in families:
        for known in family.attention:
            if isinstance(module, known):
                return f"a subclass of {known.__name__} may compute something else"
    ours = tuple(one for family in families for one in family.attention)
    if not _is_attention(module) or any(
        _is_attention(m) or isinstance(m, ours) for m in module.modules() if m is not module
    ):
        return None
    if kind.__module__ in unusable:
        return f"its file is not as in transformers 5.24: {unusable[kind.__module__]}"
    return "not of a family that Locant knows"


def _is_attention(module: nn.Module) -> bool:
    """Whether the name says so; transformers has no better sign."""
    return "Attention" in type(module).__name__

"""What the built-in schemes share: they are described by the C++ registry, by name and options."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from .. import _library  # noqa: F401
from .._lasting import lasting
from .scheme import Call, Scheme, check_whole
from .terms import SchemeTerm, Terms


class InvalidScheme(ValueError):
    """A scheme, an option or a call that the scheme refuses."""


def _checked(operator: Any, *arguments: Any) -> Any:
    try:
        return operator(*arguments)
    except (RuntimeError, ValueError) as error:
        message = str(error).split("\n")[0]
        raise InvalidScheme(message) from None


def scheme_names() -> list[str]:
    """Names of all schemes, as in `locant schemes`."""
    return list(torch.ops.locant.scheme_names())


def scheme_info(specification: str, sizes: Sequence[int]) -> dict[str, Any]:
    """What the registry says: specification, description, options, parameters."""
    return json.loads(_checked(torch.ops.locant.scheme_info, specification, list(sizes)))


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "/".join(repr(float(x)) for x in value)
    return str(value)


def specification_of(name: str, options: dict[str, Any]) -> str:
    """name(option=value,...), in the grammar of the command line. None and () are left out."""
    given = [f"{key}={_word(value)}" for key, value in options.items() if value not in (None, ())]
    return f"{name}({','.join(given)})" if given else name


def check_size(operation: str, name: str, value: Any, least: int = 1) -> None:
    """TypeError unless a size is a whole number, ValueError when it is below `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{operation}: {name} must be an int, got {value!r}")
    if value < least:
        raise InvalidScheme(f"{operation}: {name} must be {least} or more, got {value}")


def check_text(operation: str, specification: Any) -> None:
    """TypeError unless a specification is text."""
    if not isinstance(specification, str):
        raise TypeError(
            f"{operation}: specification must be text such as 't5(buckets=32)', got "
            f"{specification!r}"
        )


class BuiltIn(Scheme):
    """A scheme of the C++ registry.

    specification: the canonical text, as in records. description: title, paper, what it acts on.
    num_heads, head_size, width (of embeddings), value_size: sizes of the model; those that a scheme
    does not use are 1.
    """

    def __init__(
        self,
        specification: str,
        num_heads: int = 1,
        head_size: int = 1,
        width: int = 1,
        value_size: int | None = None,
        layer: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        own = type(self).__name__
        check_text(own, specification)
        value_size = head_size if value_size is None else value_size
        sizes = {"num_heads": num_heads, "head_size": head_size, "width": width}
        for size, number in sizes.items():
            check_size(own, size, number)
        check_size(own, "value_size", value_size, 0)
        check_size(own, "layer", layer, 0)
        self.num_heads = num_heads
        self.head_size = head_size
        self.width = width
        self.value_size = value_size
        self.layer = layer
        self.kept: tuple[int, Tensor] | None = None  # a length and what was made for it
        info = scheme_info(specification, self.sizes())
        self.specification: str = info["specification"]
        self.description: dict[str, str] = info["description"]
        self.embeds: bool = info["embeds"]
        self.table_length: int = info["table_length"]
        self._parameter_specs: list[dict[str, Any]] = info["parameters"]
        for spec in self._parameter_specs:
            self._add(spec["name"], torch.empty(spec["shape"], device=device, dtype=dtype))
        self.reset_parameters()

    def _add(self, name: str, data: Tensor) -> None:
        *path, last = name.split(".")
        module: nn.Module = self
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module.get_submodule(part)
        module.register_parameter(last, nn.Parameter(data))

    def array(self, name: str) -> Tensor:
        """The learned array of this (dotted) name, also where functional_call put a tensor."""
        found: Any = self
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def sizes(self) -> list[int]:
        """[heads, head_size, width, value_size], as the registry takes them."""
        return [self.num_heads, self.head_size, self.width, self.value_size]

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draws the parameters as the scheme's paper or published code does."""
        for spec in self._parameter_specs:
            parameter = self.array(spec["name"])
            if spec["init"] == "normal":
                parameter.normal_(0.0, spec["scale"])
            elif spec["init"] == "uniform":
                parameter.uniform_(spec["low"], spec["high"])
            else:
                parameter.zero_()

    def extra_repr(self) -> str:
        """The specification, for print(module)."""
        return self.specification

    def check_heads(self, call: Call) -> None:
        """Raises ValueError when the call has other heads than the scheme was made for."""
        if call.heads not in (self.num_heads, 1):
            raise InvalidScheme(
                f"{type(self).__name__} was made for num_heads={self.num_heads}, the call has "
                f"{call.heads} heads"
            )

    def check_head_size(self, call: Call) -> None:
        """Raises ValueError when the call has another head size than the scheme was made for."""
        if call.head_size not in (self.head_size, 1):
            raise InvalidScheme(
                f"{type(self).__name__} was made for head_size={self.head_size}, the call has "
                f"head size {call.head_size}"
            )

    def check_parameters(self, operation: str) -> None:
        """Raises ValueError when a parameter has not the shape it was made with."""
        for spec in self._parameter_specs:
            shape = list(self.array(spec["name"]).shape)
            if shape != spec["shape"]:
                raise InvalidScheme(
                    f"{operation}: {spec['name']} of {type(self).__name__} must be "
                    f"{spec['shape']}, got {shape}"
                )

    # --- the registry's own answers ---------------------------------------------------------------

    def call_numbers(self, call: Call) -> list[int]:
        """The call, as the registry takes it."""
        first, last, length = call.span()
        return [*self.sizes(), self.layer, int(call.causal), first, last, length]

    def lowered(self, call: Call) -> list[Tensor]:
        """What the C++ scheme lowers to (python/ops/scheme_ops.h) with parameters of 0: float64."""
        return self._lower(self.call_numbers(call), self._parameter_specs)

    def structure(self, causal: bool = False, length: int = 1) -> list[Tensor]:
        """`lowered` for a model of the smallest sizes: index maps and rotations without numbers."""
        sizes = [1, 1, 1, 1]
        specs = scheme_info(self.specification, sizes)["parameters"]
        return self._lower([*sizes, self.layer, int(causal), 1 - length, length - 1, length], specs)

    def _lower(self, numbers: list[int], specs: list[dict[str, Any]]) -> list[Tensor]:
        with lasting():
            parameters = [torch.zeros(spec["shape"], dtype=torch.float64) for spec in specs]
            return _checked(torch.ops.locant.scheme_lower, self.specification, numbers, parameters)

    def by_registry(self, dense: Callable[[Tensor, Tensor], Tensor] | None = None) -> Terms:
        """The scheme's text and its parameters, which get gradients: the operator lowers them."""
        arrays = [self.array(spec["name"]).double().flatten() for spec in self._parameter_specs]
        flat = torch.cat(arrays) if arrays else torch.empty(0, dtype=torch.float64)
        return Terms(scheme=SchemeTerm(self.specification, flat, self.width, self.layer, dense))


class Registered(BuiltIn):
    """Any scheme of the registry by its text, lowered by the C++ code inside of the operator.

    The schemes of this package that have a class of their own make their tables in PyTorch, which
    is faster for large ones; the results are the same.
    """

    def terms(self, call: Call) -> Terms:
        """The scheme's text and its parameters, which get gradients."""
        if self.embeds:
            return Terms()
        self.check_heads(call)
        if self.head_size > 1:
            self.check_head_size(call)
        return self.by_registry(self.dense())

    def dense(self) -> Callable[[Tensor, Tensor], Tensor] | None:
        """The same addition in PyTorch's operators, where there is one."""
        return None

    def embed(self, positions: Tensor) -> Tensor | None:
        """Rows [..., width] by the C++ code, without gradients; None where it adds none."""
        return embed(self, positions) if self.embeds else None


def embed(scheme: BuiltIn, positions: Tensor) -> Tensor:
    """Rows [..., width] float64 that the registry's scheme adds to embeddings; no gradients."""
    check_whole(f"{type(scheme).__name__}.embed", "positions", positions)
    flat = positions.reshape(-1).to("cpu", torch.int64)
    parameters = [
        scheme.array(spec["name"]).detach().to("cpu", torch.float64).contiguous()
        for spec in scheme._parameter_specs
    ]
    rows = _checked(
        torch.ops.locant.scheme_embed, scheme.specification, scheme.sizes(), flat, parameters
    )
    return rows.reshape(*positions.shape, scheme.width).to(positions.device)


def _embed_fake(
    specification: str, sizes: Sequence[int], positions: Tensor, parameters: list[Tensor]
) -> Tensor:
    del specification, parameters
    return positions.new_empty((positions.shape[0], sizes[2]), dtype=torch.float64)


torch.library.register_fake("locant::scheme_embed", _embed_fake)

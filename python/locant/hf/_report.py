"""What `accelerate` did, to read and to print."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple


class Done(NamedTuple):
    """A module of the model: its name, its class, and how it was replaced or why it was not."""

    name: str
    kind: str
    text: str


class Report:
    """replaced and left_alone: lists of (name, kind, text); str() of it is for people.

    model: the class of the model.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.replaced: list[Done] = []
        self.left_alone: list[Done] = []

    def __str__(self) -> str:
        lines = [f"locant.accelerate({self.model})"]
        for title, list_ in (("replaced", self.replaced), ("left alone", self.left_alone)):
            groups: dict[tuple[str, str], list[str]] = defaultdict(list)
            for done in list_:
                groups[done.kind, done.text].append(done.name or "the model itself")
            if not groups:
                lines.append(f"  {title}: nothing")
            for (kind, text), names in groups.items():
                lines.append(f"  {title}: {len(names)} {kind}: {text}")
                first = ", ".join(names[:2]) + (", ..." if len(names) > 2 else "")
                lines.append(f"    {first}")
        return "\n".join(lines)

    __repr__ = __str__

"""Position schemes: one module each, and the base of your own.

Names and options are those of the command line (`locant schemes`); parameters have the names of the
published checkpoints. `make("t5(buckets=32)", num_heads=8)` reads the command line's grammar.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from .alibi import Alibi
from .built_in import (
    BuiltIn,
    InvalidScheme,
    Registered,
    check_size,
    check_text,
    scheme_info,
    scheme_names,
)
from .deberta import Deberta
from .fire import Fire
from .kerple import Kerple
from .learned import Learned
from .mpnet import Mpnet
from .music_transformer import MusicTransformer
from .nope import Nope
from .rope import Rope
from .sandwich import Sandwich
from .scalar_table import ScalarTable
from .scheme import Call, Scheme
from .shaw import Shaw
from .sinusoidal import Sinusoidal
from .t5 import T5
from .terms import (
    NO_ROW,
    NumberPerDistance,
    RowPerDistance,
    SchemeTerm,
    Terms,
    ValuePerDistance,
    clip_map,
    identity_map,
    index_map,
    look_up,
    rotation,
)
from .transformer_xl import TransformerXl
from .xpos import Xpos

__all__ = [
    "NO_ROW",
    "T5",
    "Alibi",
    "BuiltIn",
    "Call",
    "Deberta",
    "Fire",
    "InvalidScheme",
    "Kerple",
    "Learned",
    "Mpnet",
    "MusicTransformer",
    "Nope",
    "NumberPerDistance",
    "Registered",
    "Rope",
    "RowPerDistance",
    "Sandwich",
    "ScalarTable",
    "Scheme",
    "SchemeTerm",
    "Shaw",
    "Sinusoidal",
    "Terms",
    "TransformerXl",
    "ValuePerDistance",
    "Xpos",
    "clip_map",
    "identity_map",
    "index_map",
    "look_up",
    "make",
    "rotation",
    "scheme_names",
]

_CLASSES: dict[str, type[BuiltIn]] = {
    "alibi": Alibi,
    "deberta": Deberta,
    "fire": Fire,
    "kerple": Kerple,
    "learned": Learned,
    "mpnet": Mpnet,
    "music_transformer": MusicTransformer,
    "nope": Nope,
    "rope": Rope,
    "sandwich": Sandwich,
    "scalar_table": ScalarTable,
    "shaw": Shaw,
    "sinusoidal": Sinusoidal,
    "t5": T5,
    "transformer_xl": TransformerXl,
    "xpos": Xpos,
}
# Options about who shares a table among layers: a module is one layer, and sharing is sharing it.
_OF_MODELS = ("layers", "untie_r")


def _value(text: str, like: Any) -> Any:
    if text in ("yes", "no"):
        return text == "yes" if isinstance(like, bool) or like is None else text
    if "/" in text or isinstance(like, tuple):
        return [float(part) for part in text.split("/") if part]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def make(
    specification: str,
    *,
    num_heads: int = 1,
    head_size: int = 64,
    width: int | None = None,
    value_size: int | None = None,
    layer: int = 0,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> BuiltIn:
    """A scheme by its text, "t5(buckets=32,max_distance=128)".

    num_heads, head_size, width (of embeddings; default num_heads * head_size) and value_size are
    the model's; layer is the number of this layer, where a scheme depends on it. Unknown names and
    options are a ValueError that says what exists.
    """
    check_text("make", specification)
    for size, number in (("num_heads", num_heads), ("head_size", head_size)):
        check_size("make", size, number)
    if width is None:
        width = num_heads * head_size
    check_size("make", "width", width)
    if value_size is not None:
        check_size("make", "value_size", value_size, 0)
    check_size("make", "layer", layer, 0)
    sizes: dict[str, Any] = {
        "num_heads": num_heads,
        "head_size": head_size,
        "width": width,
        "value_size": value_size,
        "layer": layer,
        "device": device,
        "dtype": dtype,
    }
    name = scheme_info(specification, [num_heads, head_size, width, 0])["name"]
    if name not in _CLASSES:
        return Registered(specification, **sizes)
    made = _CLASSES[name]
    signature = inspect.signature(made.__init__).parameters
    if made in (Rope, Sandwich):  # theirs is an option: channels that turn, number of sinusoids
        del sizes["width"]
    arguments = {key: value for key, value in sizes.items() if key in signature}
    text = specification.replace(" ", "")
    inside = text[text.index("(") + 1 : -1] if "(" in text else ""
    for part in filter(None, inside.split(",")):
        key, _, value = part.partition("=")
        if key in _OF_MODELS:
            continue
        if key in signature:
            arguments[key] = _value(value, signature[key].default)
    return made(**arguments)

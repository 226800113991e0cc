"""Loads the operators; says clearly what is missing when it cannot."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

OLDEST_TORCH = (2, 10)

try:
    import torch
except ImportError as error:  # pragma: no cover - needs an environment without torch
    raise ImportError(
        "locant needs PyTorch (torch>=2.10), and this Python has none. "
        "Install it: pip install 'torch>=2.10'"
    ) from error


def check_torch_version(version: str) -> None:
    """Raise ImportError unless `version` ("2.13.0+cpu") is 2.10 or later."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_TORCH:
        raise ImportError(
            f"locant needs torch>=2.10 (the LibTorch Stable ABI of that release), found {version}. "
            "Upgrade it: pip install --upgrade 'torch>=2.10'"
        )


def find_library(folder: Path) -> Path:
    """The extension in `folder`. Raises ImportError when it was never built."""
    for name in ("_locant.so", "_locant.dylib", "_locant.dll"):
        if (folder / name).is_file():
            return folder / name
    raise ImportError(
        f"locant's extension (_locant.so) is not in {folder}: this is the source folder, or the "
        "installation is incomplete. Install the package: pip install ."
    )


check_torch_version(torch.__version__)
torch.ops.load_library(str(find_library(Path(__file__).parent)))
if problem := torch.ops.locant.instruction_set_problem():
    warnings.warn(f"locant: {problem}", RuntimeWarning, stacklevel=3)

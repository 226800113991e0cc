"""What a user without the right PyTorch, or without the built extension, reads."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import locant
from locant import _library


@pytest.mark.parametrize("version", ["2.9.1", "1.13.1+cpu", "nonsense"])
def test_old_torch_is_refused(version: str) -> None:
    with pytest.raises(ImportError, match=r"needs torch>=2\.10"):
        _library.check_torch_version(version)


@pytest.mark.parametrize("version", ["2.10.0", "2.13.0+cpu", "3.0.0a0"])
def test_later_torch_is_taken(version: str) -> None:
    _library.check_torch_version(version)


def test_missing_extension_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="pip install"):
        _library.find_library(tmp_path)


def test_stable_abi_only() -> None:
    """The extension asks PyTorch for C symbols alone, and for nothing of Python."""
    library = _library.find_library(Path(locant.__file__).parent)
    try:
        listed = subprocess.run(
            ["nm", "-D", "--undefined-only", str(library)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except FileNotFoundError:
        pytest.skip("needs nm")
    symbols = [line.split()[-1] for line in listed.splitlines()]
    assert any(s.startswith("torch_parallel_for") for s in symbols)
    for symbol in symbols:
        assert not symbol.startswith(("_ZN2at", "_ZN3c10", "_ZNK3c10", "_ZN5torch", "Py", "_Py"))


def test_packaging() -> None:
    assert (Path(locant.__file__).parent / "py.typed").is_file()
    assert locant.__version__.count(".") == 2
    assert locant.instruction_set() in ("scalar", "neon", "avx2", "avx512", "avx512bf16")
    assert set(locant.__all__) <= set(dir(locant))


def imported_with(isa: str) -> tuple[str, str]:
    """What a process of its own says that imports the package twice: the set, and its warnings."""
    code = "import locant, locant.nn; print(locant.instruction_set())"
    run = subprocess.run(
        [sys.executable, "-W", "always::RuntimeWarning", "-c", code],
        env={**os.environ, "LOCANT_ISA": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip(), run.stderr


def test_isa_is_followed() -> None:
    used, said = imported_with("scalar")
    assert used == "scalar"
    assert "Warning" not in said
    assert "Warning" not in imported_with("")[1]  # as if it were not set


OF_OTHERS = "avx2" if platform.machine() in ("aarch64", "arm64") else "neon"


@pytest.mark.parametrize("isa", ["avx1024", "AVX2", " scalar", OF_OTHERS])
def test_isa_that_is_not_there_is_named(isa: str) -> None:
    """Once, with what there is and what is used: the best of these."""
    used, said = imported_with(isa)
    assert said.count("RuntimeWarning") == 1
    found = re.search(r"locant: LOCANT_ISA=(.*): not available here \((.*)\); using (\w+)\n", said)
    assert found is not None, said
    assert found[1] == isa
    assert found[2].split(", ")[0] == "scalar"
    assert found[2].split(", ")[-1] == found[3] == used


def test_operators_are_registered() -> None:
    for name in ("attention", "attention_forward", "attention_backward", "scheme_lower"):
        assert hasattr(torch.ops.locant, name)

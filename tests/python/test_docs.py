"""Every block of Python in the documents runs, in order, as one program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["README.md", "docs/pytorch.md"])
def test_code_runs(document: str) -> None:
    text = (ROOT / document).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks, f"{document} shows no Python"
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, document, "exec"), names)

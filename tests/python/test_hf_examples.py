"""The fine-tuning examples: the same losses before and after `accelerate`."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


@pytest.mark.parametrize("name", ["finetune_t5", "finetune_deberta"])
def test_losses_are_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")["main"]
    before, after = main(steps=6, length=48, width=64)
    assert "seconds a step" in capsys.readouterr().out
    # The first differ by rounding alone; each step of AdamW may double what differs.
    for step, (one, other) in enumerate(zip(before, after, strict=True)):
        assert math.isclose(one, other, rel_tol=2.0**step * 1e-5), (step, one, other)
    assert after[-1] != after[0]

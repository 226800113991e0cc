"""Same numbers in every run, and one door to the package: what `import locant` finds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import configuration

# Nothing is kept from run to run, and what hypothesis writes stays out of the sources.
configuration.set_hypothesis_home_dir(str(Path(__file__).parents[2] / "build" / "hypothesis"))


@pytest.fixture(autouse=True)
def same_numbers() -> Iterator[None]:
    """A fixed seed, and as many threads after a test as before."""
    torch.manual_seed(1234)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)

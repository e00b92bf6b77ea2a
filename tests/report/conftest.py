from __future__ import annotations

import pytest
from tests.support import corpus

from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.packages.container import read_container


@pytest.fixture(scope="session")
def mobilenet() -> PackageFile:
    """A classifier of the corpus whose parameters stay on the chip."""
    path = corpus() / "coral" / "mobilenet_v1_0.25_128_quant_edgetpu.tflite"
    return read_container(path.read_bytes(), str(path)).packages[0]

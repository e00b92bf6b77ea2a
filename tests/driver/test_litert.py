"""TFLite models on LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.driver.runtime import litert
from fitzroy.driver.runtime.litert import LiteRtModel

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "models" / "digits.tflite"


@pytest.mark.parametrize("xnnpack", [False, True])
def test_models_run(xnnpack: bool) -> None:
    need_litert()
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    model = LiteRtModel(DIGITS.read_bytes(), xnnpack=xnnpack)
    wanted = fitzroy.evaluate(fitzroy.load(DIGITS), {"image": image})["probabilities"]
    for _ in range(2):
        (found,) = model.run([image])
        assert np.abs(found.astype(int) - wanted).max() <= 1
    # Results of LiteRT are views of memory that the next run overwrites; these are not.
    model.run([image[:, ::-1]])
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_what_litert_refuses() -> None:
    need_litert()
    with pytest.raises(DeviceError, match="refuses the model"):
        LiteRtModel(b"no model at all", xnnpack=True)
    model = LiteRtModel(DIGITS.read_bytes(), xnnpack=False)
    with pytest.raises(DeviceError, match="LiteRT fails"):
        model.run([np.zeros((1, 9, 9, 1), np.int8)])


def test_without_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(litert, "_MODULE", "no_such_package.interpreter")
    assert not litert.available()
    with pytest.raises(UsageError, match="pip install"):
        LiteRtModel(DIGITS.read_bytes(), xnnpack=True)

"""TFLite models on LiteRT."""

from __future__ import annotations

import gc
import signal
from pathlib import Path

import numpy as np
import pytest
from tests.support import need_litert

import fitzroy
from fitzroy.base.errors import DeviceError, UsageError
from fitzroy.driver.runtime import litert
from fitzroy.driver.runtime.litert import IsolatedModel, LiteRtModel

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


def test_models_in_a_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    need_litert()
    image = np.random.default_rng(0).integers(-128, 128, (1, 8, 8, 1)).astype(np.int8)
    model = IsolatedModel(DIGITS.read_bytes(), xnnpack=True, threads=2)
    (wanted,) = LiteRtModel(DIGITS.read_bytes(), xnnpack=True).run([image])
    for _ in range(2):
        np.testing.assert_array_equal(model.run([image])[0], wanted)
    with pytest.raises(DeviceError, match="LiteRT fails"):
        model.run([np.zeros((1, 9, 9, 1), np.int8)])
    with pytest.raises(DeviceError, match="refuses the model"):
        IsolatedModel(b"no model at all", xnnpack=True)
    np.testing.assert_array_equal(model.run([image])[0], wanted)
    # Another process takes the place of one that has ended.
    process = litert._child().process
    process.kill()
    process.wait()
    np.testing.assert_array_equal(model.run([image])[0], wanted)
    # One that hangs is ended.
    litert._child().process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(litert, "_RUN_SECONDS", 0.2)
    with pytest.raises(DeviceError, match="LiteRT could not run the model") as caught:
        model.run([image])
    assert caught.value.reason.startswith("no answer within 0.2 s")
    monkeypatch.undo()
    np.testing.assert_array_equal(model.run([image])[0], wanted)


def test_models_that_nobody_has_are_forgotten() -> None:
    need_litert()
    model = IsolatedModel(DIGITS.read_bytes(), xnnpack=True)
    number = model._number
    del model
    gc.collect()
    assert number in litert._stale
    IsolatedModel(DIGITS.read_bytes(), xnnpack=True)
    assert number not in litert._stale

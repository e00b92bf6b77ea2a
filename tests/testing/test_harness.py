"""What the fixture ``edgetpu`` gives: models on devices, and test files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.base.errors import DeviceError, MismatchError, UsageError
from fitzroy.driver.runtime.devices import DeviceOptions
from fitzroy.formats import tflite
from fitzroy.linker.packages.container import wrapped
from fitzroy.testing.harness import Harness

X = np.arange(SIZE, dtype=np.uint8).reshape(1, 8, 8, 4)


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    """A program that gives back what it is given."""
    path = tmp_path / "echo_edgetpu.tflite"
    path.write_bytes(tflite.write_model(wrapped(echo())))
    return path


def test_models_share_a_device_and_are_measured(compiled: Path) -> None:
    with Harness() as harness:
        first, second = harness.load(compiled), harness.load(compiled)
        for model in (first, second):
            np.testing.assert_array_equal(model.run([X])["y"], X.reshape(1, SIZE))
            np.testing.assert_array_equal(model.run({"x": X})["y"], X.reshape(1, SIZE))
        assert first.figures.values["cycles"] > 0
        assert first.host == {}
        assert harness.device == "sim:direct"


def test_files(compiled: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    with Harness() as harness:
        model = harness.load(compiled)
        outputs = model.run_files(tmp_path / "x.npy")
        np.testing.assert_array_equal(outputs["y"], X.reshape(1, SIZE))
        with pytest.raises(UsageError, match="inputs for 2 inferences"):
            model.run_files(tmp_path / "x.npy", tmp_path / "x.npy")


def test_a_session_that_is_recorded_can_be_replayed(compiled: Path, tmp_path: Path) -> None:
    session = tmp_path / "s.jsonl"
    with Harness("sim", DeviceOptions(record=session)) as harness:
        wanted = harness.load(compiled).run([X])["y"]
    with Harness(f"replay:{session}") as harness:
        model = harness.load(compiled)
        np.testing.assert_array_equal(model.run([X])["y"], wanted)
        with pytest.raises(DeviceError):
            model.run([X ^ 1])


def test_test_files_run_on_the_device_that_was_asked_for(compiled: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X.reshape(1, SIZE))
    spec = tmp_path / "t.toml"
    case = '[[case]]\ninput = "x.npy"\nexpect = "y.npy"\n'
    spec.write_text(f'model = "{compiled.name}"\ndevice = "sim"\n{case}')
    with Harness() as harness:
        assert harness.check(spec).ran_on == "the virtual accelerator with a simulated chip"
    with Harness("sim:direct") as harness:
        model = harness.load(compiled)
        assert harness.check(spec).ran_on == "the simulated chip"
        # The device is still open.
        assert model.run([X])
    np.save(tmp_path / "y.npy", np.zeros((1, SIZE), np.uint8))
    with Harness() as harness, pytest.raises(MismatchError) as caught:
        harness.check(spec)
    assert "1 of 1 checks did not pass" in str(caught.value)
    assert "255 of 256 elements differ" in caught.value.reason

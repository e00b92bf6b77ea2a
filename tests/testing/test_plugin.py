"""The plugin of pytest, in sessions of pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.test_project import PROJECT

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def session(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A session of pytest in a folder.

    The plugin is named, because an entry point is there only where the project is installed; where
    it is, it is kept from being loaded twice.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:fitzroy", "-p", "no:cacheprovider"]
    # Otherwise pytest rewrites the assertions of every module of a package that has a plugin.
    command += ["--assert", "plain"]
    command += ["-p", "fitzroy.testing.plugin", "--rootdir", str(folder), *arguments]
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_entry_point_names_the_plugin() -> None:
    (target,) = PROJECT["project"]["entry-points"]["pytest11"].values()
    assert target == "fitzroy.testing.plugin"
    for point in entry_points(group="pytest11"):
        assert point.name != "fitzroy" or point.value == target


@pytest.mark.long
def test_a_model_on_devices(tmp_path: Path) -> None:
    (tmp_path / "test_digits.py").write_text(
        f"EXAMPLES = {str(EXAMPLES)!r}\n"
        "def test_four(edgetpu):\n"
        "    model = edgetpu.load(EXAMPLES + '/models/digits.tflite')\n"
        "    outputs = model.run_files(EXAMPLES + '/images/digit_4_1.png')\n"
        "    assert outputs['probabilities'].argmax() == 4\n"
        "    assert model.figures.values['cycles'] < 20_000\n"
        "    assert not model.host\n"
        "    print('on', edgetpu.device, edgetpu.conditions.clock)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nedgetpu_device = twin\n")
    result = session(tmp_path, "-s", "--edgetpu-clock", "low")
    assert result.returncode == 0, result.stdout
    assert "on twin low" in result.stdout
    result = session(tmp_path, "--edgetpu-device", "nowhere")
    assert result.returncode == 1
    assert "no device 'nowhere'" in result.stdout


@pytest.mark.long
def test_test_files_are_tests(tmp_path: Path) -> None:
    model = f"model = {str(EXAMPLES / 'models' / 'digits.tflite')!r}\n"
    (tmp_path / "good.edgetpu.toml").write_text(model + "[limits]\ncycles = 20000\n")
    (tmp_path / "bad.edgetpu.toml").write_text(model + "[limits]\ncycles = 2\n")
    (tmp_path / "broken.edgetpu.toml").write_text("model = 2\n")
    (tmp_path / "other.toml").write_text("x = 1\n")
    result = session(tmp_path)
    assert result.returncode == 1
    assert "2 failed, 1 passed" in result.stdout
    assert "limit cycles: " in result.stdout
    assert ", at most 2" in result.stdout
    assert "model: a text is wanted, not '2'" in result.stdout
    assert "Traceback" not in result.stdout


def test_the_plugin_imports_little() -> None:
    code = (
        "import sys, fitzroy.testing.plugin;"
        "print({'numpy', 'networkx', 'flatbuffers', 'typer'} & set(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"

"""``fitzroy shim``."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.tflite_runtime.shim import MARK, PACKAGES, shim_files


def test_packages_are_written_and_written_again(fitzroy: Run, tmp_path: Path) -> None:
    result = fitzroy("shim", "folder/deep", "--json")
    assert result.json["packages"] == ["tflite_runtime", "pycoral"]
    assert "PYTHONPATH=folder/deep" in fitzroy("shim", "folder/deep").err
    written = {
        path.relative_to(tmp_path / "folder" / "deep").as_posix(): path.read_text()
        for path in (tmp_path / "folder").rglob("*")
        if path.is_file()
    }
    assert written == shim_files(PACKAGES)
    assert all(MARK in text for text in written.values())
    project = tomllib.loads(written["pyproject.toml"])
    packages = {path.removesuffix("/__init__.py") for path in written if "__init__" in path}
    assert {
        name.replace(".", "/") for name in project["tool"]["setuptools"]["packages"]
    } == packages


def test_one_package(fitzroy: Run, tmp_path: Path) -> None:
    assert fitzroy("shim", ".", "--only", "pycoral", "--quiet").out == ""
    assert (tmp_path / "pycoral" / "utils" / "edgetpu.py").is_file()
    assert not (tmp_path / "tflite_runtime").exists()
    result = fitzroy("shim", ".", "--only", "tensorflow")
    assert (result.code, "there are tflite_runtime, pycoral" in result.err) == (2, True)


def test_packages_of_others_are_left_alone(fitzroy: Run, tmp_path: Path) -> None:
    other = tmp_path / "tflite_runtime" / "interpreter.py"
    other.parent.mkdir()
    other.write_text("class Interpreter: ...\n")
    result = fitzroy("shim", ".")
    assert result.code == 2
    assert "a file of others is there" in result.err
    assert "tflite_runtime/interpreter.py" in result.err
    assert not (tmp_path / "pycoral").exists()
    (tmp_path / "file").write_text("")
    result = fitzroy("shim", "file")
    assert (result.code, "cannot be made" in result.err) == (2, True)


@pytest.mark.parametrize("name", PACKAGES)
def test_modules_pass_on_what_there_is(name: str) -> None:
    assert hasattr(import_module(f"fitzroy.{name}"), "__version__")
    files = shim_files([name])
    for module in filter(None, PACKAGES[name]):
        found = import_module(f"fitzroy.{name}.{module}")
        if f"{name}/{module.replace('.', '/')}.py" in files:
            assert all(hasattr(found, item) for item in found.__all__)

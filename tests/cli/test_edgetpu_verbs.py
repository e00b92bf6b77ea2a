"""``dis``, ``as`` and ``link`` on packages made here, and on a compiled model of the corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.support import Run
from tests.linker.edgetpu import small_object
from tests.support import corpus

from fitzroy.formats import darwinn, tflite
from fitzroy.formats.object_file import write_object
from fitzroy.linker.packages.container import read_container, wrapped
from fitzroy.linker.packages.darwinn import link


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    path = tmp_path / "small_edgetpu.tflite"
    path.write_bytes(tflite.write_model(wrapped(link([small_object()])[0])))
    return path


@pytest.fixture
def obj(tmp_path: Path) -> Path:
    path = tmp_path / "small.o"
    path.write_bytes(write_object(small_object()))
    return path


def test_text_and_back(fitzroy: Run, compiled: Path, tmp_path: Path) -> None:
    assert fitzroy("dis", compiled, "-o", "m.s").code == 0
    text = (tmp_path / "m.s").read_text()
    assert text.startswith(".chip beagle\n\n.package 0\n.executable execution_only\n.chunk 0")
    printed = fitzroy("dis", compiled)
    assert (printed.code, printed.out) == (0, text)
    result = fitzroy("as", "m.s", "--like", compiled, "-o", "again.tflite")
    assert (result.code, result.out) == (0, "")
    assert (tmp_path / "again.tflite").read_bytes() == compiled.read_bytes()
    (tmp_path / "m.s").write_text(text.replace("mov s30, 0x40", "mov s30, 0x20", 1))
    result = fitzroy("as", "m.s", "--like", compiled, "-o", "edited.tflite", "--json")
    assert json.loads(result.out)["changed"] is True
    assert "mov s30, 0x20" in fitzroy("dis", "edited.tflite").out


def test_bare_packages(fitzroy: Run, tmp_path: Path) -> None:
    (package,) = link([small_object()])
    (tmp_path / "p.dwn").write_bytes(darwinn.write_package(package))
    assert fitzroy("dis", "p.dwn", "-o", "p.s", "--no-comments").code == 0
    assert ";" not in (tmp_path / "p.s").read_text()
    assert fitzroy("as", "p.s", "--like", "p.dwn", "-o", "q.dwn").code == 0
    assert (tmp_path / "q.dwn").read_bytes() == (tmp_path / "p.dwn").read_bytes()


def test_objects(fitzroy: Run, obj: Path, tmp_path: Path) -> None:
    assert fitzroy("dis", obj, "-o", "small.o.s").code == 0
    assert fitzroy("as", "small.o.s", "-o", "again.o").code == 0
    assert (tmp_path / "again.o").read_bytes() == obj.read_bytes()
    result = fitzroy("link", obj, "-o", "m.tflite")
    assert result.code == 0
    assert "m.tflite" in result.out
    assert fitzroy("link", obj, "-o", "m.dwn", "--format", "package", "-q").out == ""
    model = read_container((tmp_path / "m.tflite").read_bytes())
    package = darwinn.read_package((tmp_path / "m.dwn").read_bytes())
    assert darwinn.diff(model.packages[0], package) == []
    assert fitzroy("link", "m.tflite", "--format", "object", "-o", "back.o").code == 0
    assert fitzroy("dis", "m.tflite", "--object", "-o", "m.o.s").code == 0
    assert fitzroy("as", "m.o.s", "-o", "m.o").code == 0
    result = fitzroy("link", "m.o", "-o", "relinked.dwn", "--format", "package")
    assert result.code == 0
    assert "STAND_ALONE" not in result.out


def test_linking_together(fitzroy: Run, obj: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.o"
    other.write_bytes(write_object(small_object("other")))
    (tmp_path / "out").mkdir()
    result = fitzroy("link", obj, other, "-d", "out", "--json")
    rows = json.loads(result.out)["results"]
    assert [row["output"] for row in rows] == ["out/small.tflite", "out/other.tflite"]
    assert len({row["token"] for row in rows}) == 1
    assert all(row["cached_bytes"] == 512 for row in rows)
    result = fitzroy("link", obj, other, "-d", "out", "--token", "0x77", "--json")
    assert {row["token"] for row in json.loads(result.out)["results"]} == {"0x0000000000000077"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["dis", "missing"], 2, "no such file"),
        (["dis", "digits"], 2, "no Edge TPU operator"),
        (["dis", "model", "--package", "1"], 2, "no package 1"),
        (["dis", "object", "--package", "0"], 2, "no packages"),
        (["as", "text", "-o", "x"], 2, "--like"),
        (["as", "text", "--like", "digits", "-o", "x"], 2, "no Edge TPU operator"),
        (["as", "bad", "--like", "model", "-o", "x"], 3, "line 4"),
        (["as", "empty", "--like", "model", "-o", "x"], 3, "no program"),
        (["as", "model", "--like", "model", "-o", "x"], 3, "UTF-8"),
        (["as", "text", "--like", "model", "-o", "text"], 2, "overwrite"),
        (["link", "object"], 2, "where the results go"),
        (["link", "object", "model", "-o", "x"], 2, "one output"),
        (["link", "digits", "-o", "x"], 2, "no Edge TPU operator"),
        (["link", "object", "-o", "x", "--min-runtime-version", "9"], 2, "10 to 14"),
        (["link", "object", "-o", "x", "--token", "q"], 3, "not a number"),
        (["link", "object", "-o", "x", "--token", "-5"], 2, "64 bits"),
        (["link", "object", "-o", "nowhere/x"], 2, "does not exist"),
        (["link", "full", "-o", "x"], 5, "do not fit"),
    ],
)
def test_mistakes(
    fitzroy: Run,
    compiled: Path,
    obj: Path,
    digits: Path,
    tmp_path: Path,
    arguments: list[str],
    code: int,
    what: str,
) -> None:
    assert fitzroy("dis", compiled, "-o", "text").code == 0
    text = (tmp_path / "text").read_text()
    (tmp_path / "bad").write_text(".package 0\n.executable execution_only\n.chunk 0\nfly\n")
    (tmp_path / "empty").write_text("; nothing\n")
    full = small_object()
    assert full.resources is not None
    assert full.resources.staging is not None
    full.resources.staging[0].row, full.resources.staging[0].rows = 0, 2080
    (tmp_path / "full").write_bytes(write_object(full))
    names = {"model": str(compiled), "object": str(obj), "digits": str(digits)}
    result = fitzroy(*[names.get(argument, argument) for argument in arguments])
    assert result.code == code
    assert what in result.err
    assert "Traceback" not in result.err
    assert not (tmp_path / "x").exists()
    assert (tmp_path / "text").read_text() == text


@pytest.mark.corpus
def test_a_compiled_model_of_several_packages(fitzroy: Run, tmp_path: Path) -> None:
    model = corpus() / "coral" / "split_concat_edgetpu.tflite"
    assert fitzroy("dis", model, "-o", "m.s").code == 0
    assert fitzroy("as", "m.s", "--like", model, "-o", "n.tflite").code == 0
    assert (tmp_path / "n.tflite").read_bytes() == model.read_bytes()


@pytest.mark.corpus
def test_weights_of_a_retrained_source(fitzroy: Run, tmp_path: Path) -> None:
    folder = corpus() / "templates"
    compiled, source = folder / "dense_256_edgetpu.tflite", folder / "dense_256.tflite"
    result = fitzroy("patch-weights", compiled, source, "-o", "same.tflite", "--json")
    assert json.loads(result.out)["packages"][0]["operands"][0]["changed"] == 0
    assert (tmp_path / "same.tflite").read_bytes() == compiled.read_bytes()
    model = tflite.read_model(source.read_bytes())
    for buffer in model.buffers or ():
        if buffer.data is not None and len(buffer.data) == 256 * 256:
            buffer.data = buffer.data[::-1].copy()
    (tmp_path / "retrained.tflite").write_bytes(tflite.write_model(model))
    result = fitzroy("patch-weights", compiled, "retrained.tflite", "-o", "out.tflite", "-q")
    assert (result.code, result.out, result.err) == (0, "", "")
    old = read_container(compiled.read_bytes()).packages[0]
    new = read_container((tmp_path / "out.tflite").read_bytes()).packages[0]
    assert old.main.parameter_caching_token != new.main.parameter_caching_token
    assert old.caching is not None
    assert new.caching is not None
    differing = [line for line in darwinn.diff(old, new) if "parameters" in line]
    assert differing
    result = fitzroy("patch-weights", compiled, folder / "dense_512.tflite", "-o", "x.tflite")
    assert result.code == 6
    shaped = ("--input", "x=1x224x224x3")
    result = fitzroy("patch-weights", compiled, "retrained.tflite", "-o", "x.tflite", *shaped)
    assert result.code == 2
    assert "has no record of its compilation" in result.err
    assert not (tmp_path / "x.tflite").exists()

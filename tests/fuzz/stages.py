"""Texts of the Edge TPU compiler's stages: those of golden cases, after the name of the stage."""

from __future__ import annotations

from tests.compiler.edgetpu.test_cases import CASES, FORMS, case

from fitzroy.base.errors import FormatError
from fitzroy.compiler.targets.edgetpu.program.stages import Readable, text


def files() -> list[bytes]:
    """A text of a stage each, with the stage in its first line."""
    return [
        f"{stage}\n{content}".encode()
        for path in CASES
        for (stage, _), content in case(path).stages.items()
        if len(content) < 4096
    ]


def read(data: bytes) -> Readable:
    """The form with some text.

    Raises:
        FormatError: there is none.
    """
    stage, _, content = data.decode("utf-8", "replace").partition("\n")
    if stage not in FORMS:
        raise FormatError(f"no stage is called {stage!r}")
    return FORMS[stage].parse(content, "fuzz.txt")


def target(data: bytes) -> None:
    """Read a text, print it and verify it.

    Raises:
        FormatError: no form has it.
    """
    form = read(data)
    if text(form.lines()) != data.decode("utf-8", "replace").partition("\n")[2]:
        raise AssertionError("a form changes when parsed and printed")
    for fault in form.faults():
        assert fault

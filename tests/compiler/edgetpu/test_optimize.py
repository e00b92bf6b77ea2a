"""How much is tried for fewer cycles, and that the record says what was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.compiler.edgetpu_models import differing_bytes
from tests.given import DIGITS

from fitzroy.base.progress import Progress
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, compile_edgetpu
from fitzroy.compilation.patching import patch_weights
from fitzroy.compilation.records import generator_options
from fitzroy.compiler.targets.edgetpu.layers.options import (
    ALTERNATIVES,
    DEFAULT,
    QUICK,
    Options,
    Search,
)
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions, Optimize
from fitzroy.compiler.targets.edgetpu.settings import generator_options as settings_of
from fitzroy.execution.whole import predict
from fitzroy.formats.compilation_record import read_record
from fitzroy.formats.tflite import read_model


def taken(result: EdgeTpuCompilation) -> float:
    return predict(result.data, "digits").total


@pytest.fixture(scope="module")
def levels() -> dict[Optimize, EdgeTpuCompilation]:
    return {
        level: compile_edgetpu(DIGITS, generator=settings_of(EdgeTpuOptions(optimize=level)))
        for level in Optimize
    }


def test_more_effort_is_never_slower(levels: dict[Optimize, EdgeTpuCompilation]) -> None:
    assert levels[Optimize.ESTIMATED].data == compile_edgetpu(DIGITS).data
    assert taken(levels[Optimize.TIMED]) <= taken(levels[Optimize.ESTIMATED])
    assert taken(levels[Optimize.ESTIMATED]) <= taken(levels[Optimize.QUICK])


@pytest.mark.parametrize("level", Optimize)
def test_results_are_the_same(levels: dict[Optimize, EdgeTpuCompilation], level: Optimize) -> None:
    (segment,) = levels[level].segments
    assert not differing_bytes(segment.segment.graph, segment.package, seeds=(1,))


def test_every_variant_is_compiled_and_the_first_of_the_fastest_taken() -> None:
    """The usual program comes first, so that variants must be faster to take its place."""
    told: list[str] = []

    def progress(text: str) -> None:
        if isinstance(text, Progress) and text.startswith("variant"):
            told.append(text)

    same = replace(DEFAULT, alternatives=(Search(), Search()))
    assert compile_edgetpu(DIGITS, generator=same, progress=progress).data == (
        compile_edgetpu(DIGITS).data
    )
    assert told == ["variant 1 of 2", "variant 2 of 2"]


@pytest.mark.parametrize("search", [Search(), QUICK, *ALTERNATIVES])
def test_records_say_what_was_compared(search: Search) -> None:
    options = Options(search=search)
    record = read_record(read_model(compile_edgetpu(DIGITS, generator=options).data, "digits"))
    assert record is not None
    (package,) = record.packages
    assert generator_options(package.options).search == search
    assert (package.options.search is None) == (search == Search())


def test_weights_are_patched_in_programs_of_any_search(tmp_path: Path) -> None:
    """The program is made again, in the way in which it was made."""
    compiled = tmp_path / "compiled.tflite"
    compiled.write_bytes(compile_edgetpu(DIGITS, generator=replace(DEFAULT, search=QUICK)).data)
    data, report = patch_weights(compiled, DIGITS)
    assert data == compiled.read_bytes()
    assert not report.changed

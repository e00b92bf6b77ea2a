"""Forms between graph and object: their texts, their rules, and faults that break them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.errors import InternalError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.program.stages import (
    Allocated,
    Emitted,
    Form,
    Legalized,
    Parameters,
    text,
)
from fitzroy.formats.object_file import write_object
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence

F = TypeVar("F", bound=Form)


def small() -> Graph:
    graph = chain(DType.INT8, (20, 12, 5))
    grow(graph, "conv_2d", 24, (3, 3), (2, 2))
    grow(graph, "depthwise_conv_2d", 24, (3, 3))
    grow(graph, "conv_2d", 9, (1, 1))
    return graph


def forms(graph: Graph) -> list[Form]:
    found: list[Form] = []
    lower(graph, observe=found.append)
    return found


def of(kind: type[F]) -> F:
    return next(form for form in forms(small()) if isinstance(form, kind))


def test_forms_come_in_order_and_keep_their_rules() -> None:
    found = forms(small())
    assert [form.stage for form in found] == ["legalized", "allocated", "parameters", "emitted"]
    for form in found:
        form.check()
        assert list(form.lines())


def test_texts_are_the_same_again() -> None:
    one, other = ([text(form.lines()) for form in forms(small())] for _ in range(2))
    assert one == other


def test_watching_changes_nothing() -> None:
    graph = small()
    watched = lower(graph, observe=lambda form: form.check())
    assert write_object(watched) == write_object(lower(small()))


@pytest.mark.parametrize("seed", range(8))
def test_random_models_keep_the_rules(seed: int) -> None:
    for part in divide(random_model(seed))[0]:
        lower(part.graph, observe=lambda form: form.check())


@pytest.mark.parametrize("narrow_bytes", [196_608, 9_000, 6_000])
def test_strips_keep_the_rules(narrow_bytes: int) -> None:
    graph = chain(DType.INT8, (83, 45, 3))
    grow(graph, "conv_2d", 24, (3, 3), (2, 2))
    grow(graph, "depthwise_conv_2d", 24, (3, 3))
    grow(graph, "conv_2d", 48, (1, 1))
    lower(graph, Options(narrow_bytes=narrow_bytes), observe=lambda form: form.check())


def test_windows_that_lack_something() -> None:
    form = of(Allocated)
    image = next(live.tensor for live in form.lives if isinstance(live.tensor, Image))
    image.rows = replace(image.rows, window=((0, 0),) * len(image.rows.window))
    with pytest.raises(InternalError, match="and keeps 0:0"):
        form.check()


def test_text_names_layers_windows_and_rows() -> None:
    legalized = text(of(Legalized).lines())
    assert "reads 'x': rows 3 at stride 2" in legalized
    allocated = text(of(Allocated).lines())
    assert "rows 20, owned 0:5 5:10 10:15 15:20, windows" in allocated
    assert "words on the chip" in text(of(Parameters).lines())
    assert "depthwise" in text(of(Emitted).lines())


def test_layers_that_read_what_is_not_there() -> None:
    form = of(Legalized)
    with pytest.raises(InternalError, match="before it is there"):
        replace(form, layers=form.layers[::-1]).check()


def test_tensors_that_overlap() -> None:
    form = of(Allocated)
    for live in form.lives:
        live.tensor.base = 0
    with pytest.raises(InternalError, match="overlap"):
        form.check()


def test_tensors_outside_of_the_memory() -> None:
    form = of(Allocated)
    form.lives[0].tensor.base = form.narrow_bytes
    with pytest.raises(InternalError, match="is not below byte"):
        form.check()


def test_pieces_that_share_rows() -> None:
    form = of(Parameters)
    first = next(iter(form.pieces.values()))[0]
    twice = {**form.pieces, "other": [first]}
    with pytest.raises(InternalError, match=f"share rows of tile {first.tile}"):
        replace(form, pieces=twice).check()


def test_pieces_in_rows_of_others() -> None:
    form = of(Parameters)
    with pytest.raises(InternalError, match="are not between 9 and"):
        replace(form, taken=(9,) * 16).check()


def test_steps_out_of_order() -> None:
    form = of(Emitted)
    with pytest.raises(InternalError, match="not in the order"):
        replace(form, marks=form.marks[::-1]).check()


def test_phases_are_those_of_the_fences() -> None:
    form = of(Emitted)
    lines = list(form.lines())
    fences = [
        (chunk, bundle)
        for chunk, bundle, instruction in form.program
        if isinstance(instruction, TileFence) and instruction.set
    ]
    begun = [line.split()[0] for line in lines if line.startswith("  ")]
    assert {f"{chunk}:{bundle}" for chunk, bundle in fences} <= set(begun)
    assert any("all tiles" in line and "mac" in line for line in lines)
    assert sum("mac " in line for line in lines) > 2


def test_signals_without_wait() -> None:
    form = of(Emitted)
    waits = [
        index
        for index, (_, _, instruction) in enumerate(form.program)
        if isinstance(instruction, ScalarFence) and instruction.wait_tiles
    ]
    for index in (waits[1], waits[-1]):
        program = [item for number, item in enumerate(form.program) if number != index]
        with pytest.raises(InternalError, match="signal"):
            replace(form, program=program).check()

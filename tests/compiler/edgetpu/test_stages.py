"""Forms between graph and object: their texts, their rules, and faults that break them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from typing import TypeVar

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import random_model

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.fitting.wide import assigned
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.allocated import Allocated
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted, Outline
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.compiler.targets.edgetpu.program.stages import (
    Form,
    Legalized,
    Parameters,
    Readable,
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


def test_stages_hand_on_what_nothing_changes() -> None:
    layered = legalized(small())
    schedule = assigned(layered).schedule
    step = schedule.steps[1]
    values = [layered, schedule, step, step.layer, step.result, *schedule.tensors.values()]
    for value in values:
        for name in [field.name for field in fields(value)]:
            with pytest.raises(FrozenInstanceError):
                setattr(value, name, getattr(value, name))


def test_a_program_leaves_its_layers_as_they_were() -> None:
    """Two programs of the same layers, of which the first streams, are those of new layers."""
    layered = legalized(small())
    streamed = replace(layered, options=Options(parameter_rows=0))
    for one in (streamed, layered, streamed):
        again = replace(legalized(small()), options=one.options)
        found, wanted = (text(Parameters.of(assigned(item)).lines()) for item in (one, again))
        assert found == wanted


READABLE: dict[str, type[Readable]] = {
    form.stage: form for form in (Legalized, Allocated, Parameters, Outline)
}


def test_texts_parse_back() -> None:
    for form in forms(small()):
        content = text(form.lines())
        found = READABLE[form.stage].parse(content)
        assert text(found.lines()) == content
        assert found == (form.outline() if isinstance(form, Emitted) else form)
        found.check()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("reads", "rends"), "does not belong there"),
        (("    reads", "        reads"), "indented by 8 spaces"),
        (("    reads", "  reads"), "indented by 2 spaces"),
        (("21 words", "021 words"), "written"),
        (('"x"', '"\\q"'), "does not belong there"),
    ],
)
def test_texts_that_no_form_has(change: tuple[str, str], match: str) -> None:
    content = text(of(Legalized).lines())
    assert change[0] in content
    with pytest.raises(FormatError, match=match):
        Legalized.parse(content.replace(*change, 1))


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
    tensor = next(tensor for tensor in form.tensors if tensor.axes)
    rows, columns = tensor.axes
    axes = (replace(rows, window=((0, 0),) * len(rows.window)), columns)
    with pytest.raises(InternalError, match="and keeps 0:0"):
        replace(form, tensors=(replace(tensor, axes=axes),)).check()


def test_windows_that_lack_what_a_step_reads() -> None:
    form = of(Allocated)
    tensors = {tensor.name: tensor for tensor in form.tensors}
    rows, columns = tensors["x"].axes
    axes = (replace(rows, window=rows.owned), columns)
    changed = {**tensors, "x": replace(tensors["x"], axes=axes)}
    with pytest.raises(InternalError, match="step 2 reads more of 'x' than tiles keep"):
        replace(form, tensors=tuple(changed.values())).check()


def test_text_names_layers_windows_and_rows() -> None:
    legalized = text(of(Legalized).lines())
    assert 'reads "x": rows 3 at stride 2' in legalized
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
    tensors = tuple(replace(one, base=0, end=one.end - one.base) for one in form.tensors)
    with pytest.raises(InternalError, match="overlap"):
        replace(form, tensors=tensors).check()


def test_tensors_outside_of_the_memory() -> None:
    form = of(Allocated)
    tensor = replace(form.tensors[0], end=form.nbytes + 1)
    with pytest.raises(InternalError, match="is not below byte"):
        replace(form, tensors=(tensor,)).check()


def test_pieces_that_share_rows() -> None:
    form = of(Parameters)
    first = form.operands[0]
    twice = (*form.operands, replace(first, name="other"))
    with pytest.raises(InternalError, match=f"share rows of tile {first.pieces[0].tile}"):
        replace(form, operands=twice).check()


def test_pieces_in_rows_of_others() -> None:
    form = of(Parameters)
    with pytest.raises(InternalError, match="are not between 9 and"):
        replace(form, rows=(replace(form.rows[0], taken=(9,) * 16),)).check()


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
    begun = [line.split()[0] for line in lines if line.endswith(tuple("0123456789"))]
    assert {f"{chunk}:{bundle}" for chunk, bundle in fences} <= set(begun)
    assert any("all tiles" in line and "mesh" in line for line in lines)
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

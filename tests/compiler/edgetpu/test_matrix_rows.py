"""Small matrices that are loaded with parameters, and those that programs make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import differences

from fitzroy.base.types import DType, Quantization
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.targets.edgetpu.layers.matrix_rows import IDENTITY, LOADED, MatrixRows
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.memory.allocation import WIDE_ROWS
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY, TILES
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.compiler.targets.edgetpu.program.stages import Form
from fitzroy.formats.object_file import ObjectFile, Operand, OperandKind, Part
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.linker.packages.darwinn import link

FACTORS = (((1,) * 4),) * 2
"""Two rows that are not the identity."""


def sums(count: int) -> Graph:
    """A layer, and sums of what it gives with the input, all with the same factors."""
    graph = chain(DType.UINT8, (8, 8, 4))
    (x,) = graph.outputs
    grow(graph, "conv_2d", 4, (1, 1))
    type = graph.type(x)
    other = replace(type, quantization=Quantization.per_tensor(0.09, 120))
    (y,) = graph.outputs
    results = []
    for _ in range(count):
        results.append(graph.emit("add", [x, y], other, ActivationAttributes()))
    graph.outputs = results
    return graph


def lowered(graph: Graph, options: Options = DEFAULT) -> tuple[ObjectFile, int]:
    """The object, and how often meshes fill words of all tiles for matrices."""
    forms: list[Form] = []
    item = lower(graph, options, forms.append)
    (emitted,) = [form for form in forms if isinstance(form, Emitted)]
    filling = [
        one
        for _, _, one in emitted.program
        if isinstance(one, Mesh) and one.tiles == EVERY and one.fill and one.send is None
    ]
    return item, len(filling)


def matrices_of(item: ObjectFile) -> Operand | None:
    found = [operand for operand in item.operands or () if operand.name == "matrices"]
    return found[0] if found else None


def test_parameters_bring_matrices() -> None:
    item, filled = lowered(sums(1))
    operand = matrices_of(item)
    assert operand is not None
    assert not filled
    assert operand.kind == OperandKind.MATRICES
    runs = operand.runs or []
    assert [run.tile for run in runs] == list(range(TILES))
    assert len({(run.row, run.words, run.group) for run in runs}) == 1
    assert operand.data is not None
    rows = operand.data.view("<u4").reshape(TILES, -1, operand.lanes)
    assert (rows == rows[0]).all()
    assert tuple(rows[0][0][: len(IDENTITY)]) == IDENTITY
    assert not rows[0][0][len(IDENTITY) :].any()


def test_operations_refer_to_the_rows_of_matrices() -> None:
    item, _ = lowered(sums(1))
    symbols = item.symbols or []
    fixups = [
        fixup
        for text in item.text or ()
        for fixup in text.fixups or ()
        if symbols[fixup.symbol].name == "matrices"
    ]
    assert fixups
    assert {fixup.part for fixup in fixups} == {Part.QUARTER_ROW}
    operand = matrices_of(item)
    assert operand is not None
    rows = (operand.runs or [])[0].words
    assert all(0 <= fixup.addend < 4 * rows for fixup in fixups)


def test_each_matrix_is_loaded_once() -> None:
    one, three = (matrices_of(lowered(sums(count))[0]) for count in (1, 3))
    assert one is not None
    assert three is not None
    np.testing.assert_array_equal(one.data, three.data)


def test_programs_make_matrices_where_no_parameters_stay() -> None:
    item, filled = lowered(sums(1), Options(parameter_rows=0))
    assert matrices_of(item) is None
    assert filled


def test_programs_make_matrices_for_which_no_row_is_left() -> None:
    graph = sums(1)
    weights = sum(run.words for o in lower(graph).operands or () for run in o.runs or ())
    matrices = matrices_of(lower(graph))
    assert matrices is not None
    weights -= sum(run.words for run in matrices.runs or ())
    item, filled = lowered(graph, Options(parameter_rows=weights))
    assert matrices_of(item) is None
    assert filled


def test_the_linker_moves_matrices_of_models_that_share_a_chip() -> None:
    graphs = [sums(2), sums(1)]
    objects = [lower(graph) for graph in graphs]
    firsts = {(operand.runs or [])[0].row for item in objects if (operand := matrices_of(item))}
    packages = link(objects)
    assert len(firsts) == 1
    for graph, package in zip(graphs, packages, strict=True):
        assert differences(graph, package, 1) == ""


def test_room_is_kept_for_the_identity() -> None:
    rows = MatrixRows(room=2, top=WIDE_ROWS - 1)
    assert rows.find(FACTORS) is None
    assert rows.identity == LOADED
    assert rows.find(FACTORS) is None
    rows = MatrixRows(room=3, top=WIDE_ROWS - 1)
    assert rows.find(FACTORS) == LOADED
    assert rows.identity == LOADED + 2
    assert rows.find(FACTORS) == LOADED
    assert rows.rows == [*FACTORS, IDENTITY]


def test_the_identity_is_made_without_room() -> None:
    rows = MatrixRows(room=0, top=7)
    assert not rows.needs_identity
    assert rows.identity == 7
    assert rows.needs_identity
    assert rows.rows == []

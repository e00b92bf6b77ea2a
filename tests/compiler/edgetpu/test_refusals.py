"""What the code generator finds out late: the host runs that operator, the chip the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow, image
from tests.compiler.edgetpu_models import differences
from tests.support import corpus_path
from tests.work import calls_at_most

import fitzroy
from fitzroy.base.errors import CapacityError, FormatError, InternalError, UnsupportedError
from fitzroy.base.types import DType, TensorType
from fitzroy.compilation.edgetpu import EdgeTpuCompilation, compile_edgetpu
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.targets.edgetpu.chip import Divided, lower_together
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.kernels.walks import Walk
from fitzroy.compiler.targets.edgetpu.layers import matrices
from fitzroy.compiler.targets.edgetpu.layers.layer import Context
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import (
    CAPACITY,
    ENCODING,
    Refused,
    refusing,
)
from fitzroy.compiler.targets.edgetpu.lowerings.convolution import Convolution
from fitzroy.compiler.targets.edgetpu.partition.divide import concerned, divide, refusals
from fitzroy.compiler.targets.edgetpu.program import lower
from fitzroy.compiler.targets.edgetpu.program.stages import Observer
from fitzroy.formats import tflite
from fitzroy.formats.object_file import ObjectFile
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.traversal import BYTES

I8 = DType.INT8


def convolutions(count: int, channels: int = 24) -> Graph:
    """Convolutions one after the other."""
    graph = chain(I8, (12, 12, 8))
    for number in range(count):
        grow(graph, "conv_2d", channels, (3, 3), seed=number)
    return graph


def compiled(graph: Graph, tmp_path: Path, **more: Any) -> EdgeTpuCompilation:
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    return compile_edgetpu(path, costs=None, **more)


def left(result: EdgeTpuCompilation) -> list[tuple[str, str]]:
    """Results of the operators on the host, and the codes of their reasons."""
    reasons = {reject.where: reject.code for reject in result.reasons}
    return [
        (node.outputs[0], next(code for where, code in reasons.items() if repr(node.name) in where))
        for node in result.unmapped
    ]


def assert_right(result: EdgeTpuCompilation) -> None:
    for part in result.segments:
        assert not differences(part.segment.graph, part.package, 3)


# --- where refusals come from --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CapacityError("too much", reason="2 of 1"), CAPACITY),
        (FormatError("'9' is not a loop of 3 bits"), ENCODING),
    ],
)
def test_an_operator_that_cannot_be_emitted_stays_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    graph = convolutions(4)
    emit, second = Convolution.emit, [node.outputs[0] for node in graph.nodes()][1]

    def limited(self: Convolution, context: Context) -> None:
        if self.writes == second:
            raise error
        emit(self, context)

    monkeypatch.setattr(Convolution, "emit", limited)
    result = compiled(graph, tmp_path)
    assert left(result) == [(second, code)]
    assert len(result.segments) == 2
    assert_right(result)
    assert result.data == compiled(graph, tmp_path).data


@pytest.mark.long
def test_an_operator_whose_instructions_do_not_encode_stays_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = strided()
    plain = compiled(graph, tmp_path)
    assert not plain.unmapped
    assert_right(plain)

    # As if loops that run once kept strides that do not fit.
    monkeypatch.setattr(Walk, "bytes", property(lambda walk: walk.traversal(BYTES)))
    result = compiled(graph, tmp_path)
    assert left(result) == [(graph.outputs[0], ENCODING)]
    (reason,) = result.reasons
    assert "does not encode" in reason.what
    assert "is not a loop of 18 bits" in reason.what


def test_a_loop_that_is_too_long_stays_on_the_host(tmp_path: Path) -> None:
    graph = convolutions(2)
    (kept,), tall = graph.outputs, graph.add_input("tall", image((1, 70_000, 1, 3), I8))
    added = graph.emit("add", [tall, tall], graph.type(tall), ActivationAttributes())
    graph.outputs = [kept, added]
    result = compiled(graph, tmp_path)
    assert left(result) == [(added, ENCODING)]
    assert len(result.mapped) == 2
    assert_right(result)
    (reason,) = result.reasons
    assert "17500 is not a count of 1 to 16384" in reason.what
    assert reason.hint


def strided() -> Graph:
    """A convolution, and another one whose stride is as large as its image; both are outputs."""
    graph = chain(I8, (512, 512, 3))
    grow(graph, "conv_2d", 4, (1, 1))
    (whole,) = graph.outputs
    grow(graph, "conv_2d", 8, (1, 1), (512, 512))
    graph.outputs.append(whole)
    return graph


def test_what_belongs_to_no_operator_is_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(builder: Builder, row: int, words: int) -> None:
        builder.emit(TileFence(tiles=1 << 16, idle=0))

    monkeypatch.setattr(matrices, "put_identity", wrong)
    # Without parameters on the chip, a program makes the matrix before its first operator.
    with pytest.raises(InternalError, match="the program does not encode"):
        lower.lower(convolutions(1), Options(parameter_rows=0))


def test_an_operator_without_memory_stays_on_the_host(tmp_path: Path) -> None:
    graph = convolutions(2)
    (x,) = graph.outputs
    moved = graph.emit("transpose", [x], graph.type(x).with_shape((1, 24, 12, 12)), _turned())
    graph.outputs = [moved]
    grow(graph, "conv_2d", 8, (3, 3))
    # The transposition needs a copy of the whole tensor on every tile.
    result = compiled(graph, tmp_path, generator=Options(narrow_bytes=3500))
    assert left(result) == [(moved, CAPACITY)]
    assert len(result.mapped) == 3
    assert_right(result)
    assert "of 3500 bytes of narrow memory" in result.reasons[0].what


def _turned() -> TransposeAttributes:
    return TransposeAttributes((0, 3, 1, 2))


def test_the_layer_that_cannot_run_in_strips_is_refused() -> None:
    graph = convolutions(2)
    (x,) = graph.outputs
    graph.outputs = [
        graph.emit("transpose", [x], graph.type(x).with_shape((1, 24, 12, 12)), _turned())
    ]
    with pytest.raises(Refused) as caught:
        lower.lower(graph, Options(narrow_bytes=3500))
    assert caught.value.operators == (graph.nodes()[-1].name,)


# --- division ------------------------------------------------------------------------------------


def test_a_refusal_of_an_input_concerns_its_readers() -> None:
    graph = convolutions(2)
    first, second = graph.nodes()
    assert set(concerned(graph, Refused([graph.inputs[0]], "x"))) == {first.name}
    assert set(concerned(graph, Refused([second.name], "x", code="other"))) == {second.name}
    assert [
        item.rule
        for item in concerned(graph, Refused([second.name], "x", code="other"))[second.name]
    ] == ["other"]


def test_refusals_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, asked = convolutions(5), []

    def never(self: Builder, bundles: int) -> None:
        asked.append(bundles)
        raise CapacityError("no room")

    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.chip._MOST_DIVISIONS", 3)
    monkeypatch.setattr(Convolution, "emit", lambda self, context: never(context.builder, 1))
    with pytest.raises(UnsupportedError, match="no operator can be mapped") as caught:
        compiled(graph, tmp_path)
    # Three divisions, and then every operator alone.
    assert len(asked) == 3 + 5
    assert [(item.code, item.what) for item in caught.value.rejects] == [(CAPACITY, "no room")] * 5


def test_one_operator_that_does_not_fit_refuses_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, emit = convolutions(3), Convolution.emit
    first, second, third = (node.outputs[0] for node in graph.nodes())

    def limited(self: Convolution, context: Context) -> None:
        if self.writes == third:
            # As if a tensor in the way got the blame.
            raise Refused([first, second], "too much", reason="2 of 1", hint="less")
        emit(self, context)

    monkeypatch.setattr(Convolution, "emit", limited)
    result = compiled(graph, tmp_path)
    assert [node.outputs[0] for node in result.mapped] == [first, second]
    assert left(result) == [(third, CAPACITY)]
    [reason] = result.reasons
    assert (reason.what, reason.hint) == ("too much: 2 of 1", "less")
    assert_right(result)
    assert result.data == compiled(graph, tmp_path).data


def test_parts_that_stay_are_laid_out_once_when_a_model_is_divided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, emit, rows = convolutions(7), Convolution.emit, lower.parameter_rows
    names = [node.outputs[0] for node in graph.nodes()]
    asked: list[tuple[str, ...]] = []

    def limited(self: Convolution, context: Context) -> None:
        if self.writes in (names[2], names[4]):
            raise Refused([self.writes], "too much", reason="2 of 1", hint="less")
        emit(self, context)

    def counted(part: Graph, options: Options) -> int:
        asked.append(tuple(node.outputs[0] for node in part.nodes()))
        return rows(part, options)

    monkeypatch.setattr(Convolution, "emit", limited)
    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.chip.parameter_rows", counted)
    result = compiled(graph, tmp_path)
    assert [name for name, _ in left(result)] == [names[2], names[4]]
    parts = [names[:2], names[3:], names[3:4], names[5:]]
    assert asked == [tuple(part) for part in parts]


def test_parts_that_stay_keep_their_programs_until_all_are_known_to_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, emit, make = convolutions(13), Convolution.emit, lower.lower
    names = [node.outputs[0] for node in graph.nodes()]
    refused, asked = names[1::2], []

    def limited(self: Convolution, context: Context) -> None:
        if self.writes in refused:
            raise Refused([self.writes], "too much", reason="2 of 1", hint="less")
        emit(self, context)

    def counted(part: Graph, options: Options, observe: Observer | None = None) -> ObjectFile:
        asked.append(part.nodes()[0].outputs[0])
        return make(part, options, observe)

    monkeypatch.setattr(Convolution, "emit", limited)
    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.chip.lower", counted)
    result = compiled(graph, tmp_path)
    assert [name for name, _ in left(result)] == refused
    # Each refused part and each one that fits once, and those that fit again with their own rows.
    assert len(asked) <= len(refused) + 2 * len(result.segments)
    # Programs are those of a model that has been divided like that from the beginning.
    known = Divided(result.graph, "", result.placements)
    (again,) = lower_together([known], Options(), None)
    assert [part.object for part in again.parts] == [part.object for part in result.segments]


def test_layers_that_refuse_the_same_divide_a_model_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, emit, refused, known = convolutions(3), Convolution.emit, [], list[str]()
    for _ in range(3):
        (x,) = graph.outputs
        real = TensorType(graph.type(x).shape, DType.FLOAT32)
        floor = graph.emit("floor", [graph.emit("dequantize", [x], real)], real)
        graph.outputs = [graph.emit("quantize", [floor], graph.type(x))]
        for number in range(3):
            grow(graph, "conv_2d", 24, (3, 3), seed=number)
        refused.append(graph.producer(graph.outputs[0]).inputs[0])  # type: ignore[union-attr]

    def limited(self: Convolution, context: Context) -> None:
        if self.writes in refused:
            raise Refused([self.writes], "too much", reason="2 of 1", hint="less")
        emit(self, context)

    def counted(*given: Any) -> Any:
        known.append("divided")
        return divide(*given)

    monkeypatch.setattr(Convolution, "emit", limited)
    monkeypatch.setattr("fitzroy.compiler.targets.edgetpu.chip.divide", counted)
    result = compiled(graph, tmp_path)
    assert {name for name, code in left(result) if code == CAPACITY} == set(refused)
    assert known == ["divided"]
    assert_right(result)


def test_the_layers_before_a_node_are_not_looked_at_again_for_every_node() -> None:
    def calls(count: int) -> int:
        graph = chain(I8, (4, 4, 8))
        for _ in range(count):
            (last,) = graph.outputs
            total = [last, last]
            graph.outputs = [graph.emit("add", total, graph.type(last), ActivationAttributes())]
        with calls_at_most(10_000_000) as made:
            assert not refusals(graph)
        return made.count

    calls(1)
    few, some, many = (calls(count) for count in (20, 120, 220))
    assert many - some <= 1.1 * (some - few)


def test_explanations_know_what_programs_show(tmp_path: Path) -> None:
    graph = chain(I8, (9, 9, 8))
    grow(graph, "conv_2d", 8, (3, 3))
    tall = graph.add_input("tall", image((1, 70_000, 1, 3), I8))
    graph.outputs.append(graph.emit("add", [tall, tall], graph.type(tall), ActivationAttributes()))
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite.write_model(export_model(graph)))
    _, placements = fitzroy.explain(path, target="edgetpu", partition="all")
    result = compile_edgetpu(path, costs=None)
    assert [(item.target, item.nodes) for item in placements] == [
        (item.target, item.nodes) for item in result.placements
    ]
    reasons = [reject for item in placements for reject in item.rejects]
    assert reasons == list(result.reasons)
    assert len(reasons) == 1


def test_errors_within_become_refusals() -> None:
    with pytest.raises(Refused) as caught, refusing("a"):
        raise CapacityError("too much", reason="2 of 1", hint="less")
    assert (caught.value.operators, caught.value.reason) == (("a",), "2 of 1")
    with pytest.raises(Refused) as outer, refusing("b"):
        raise caught.value
    assert outer.value.operators == ("a",)


# --- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operators"),
    [("model_stride_512x512x3", 1), ("model_padding_stride_512x256x3", 2)],
)
def test_models_with_large_strides(name: str, operators: int) -> None:
    path = corpus_path().parent / f"study/models/{name}.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    result = compile_edgetpu(path)
    assert len(result.mapped) == operators
    assert_right(result)


@pytest.mark.slow
def test_a_detector_keeps_all_but_a_few_operators_on_the_chip() -> None:
    path = corpus_path().parent / "study/models/yolov5nu_352_full_integer_quant.tflite"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    result = compile_edgetpu(path)
    assert len(result.unmapped) <= 9
    assert {reason.where.split()[0] for reason in result.reasons} == {
        node.spelled for node in result.unmapped
    }
    last = result.segments[-1]
    assert {"softmax", "mul"} <= {node.op for node in last.segment.nodes}
    assert not differences(last.segment.graph, last.package, 3)

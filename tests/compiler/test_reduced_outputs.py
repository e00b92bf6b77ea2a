"""What the chip reduces before it sends: scores of detectors, and positions of largest channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu_models import differing_bytes, findings
from tests.support import need_litert

import fitzroy
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.patching import patch_weights
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, Node, print_graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.reduction import ArgAttributes
from fitzroy.compiler.ops.shape import ConcatenationAttributes, ReshapeAttributes
from fitzroy.compiler.passes.arg_max import ArgMaxima
from fitzroy.compiler.passes.base import named_passes, run_passes
from fitzroy.compiler.passes.heads.post_processing import BestScores
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS
from fitzroy.compiler.targets.edgetpu.partition.reduction import REDUCING, reducing
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.twin import TwinDevice
from fitzroy.formats import tflite
from fitzroy.formats.annotations import annotated
from fitzroy.hw_models.numerics import Arithmetic

CLASSES = 40
SIDES = (6, 3)
BOXES = 2
I8, U8 = DType.INT8, DType.UINT8


def picture(dtype: DType, shape: tuple[int, ...], seed: int) -> Array:
    low, high = dtype.limits
    drawn: Array = np.random.default_rng(seed).integers(low, high + 1, shape)
    return drawn.astype(dtype.numpy)


class Heads:
    """A detector whose layers read images of random bytes; its scores are joined, then squashed."""

    def __init__(self, dtype: DType, background: int = 1, classes: int = CLASSES) -> None:
        self.graph, self.dtype = Graph("heads"), dtype
        self.random = np.random.default_rng(7)
        self.low = int(dtype.limits[0])
        images = [
            self.graph.add_input(f"level{side}", self.type((1, side, side, 8), 1 / 64, self.low))
            for side in SIDES
        ]
        wide = background + classes
        rows = [self.rows(image, wide) for image in images]
        count = BOXES * sum(side * side for side in SIDES)
        joined = self.joined(rows, (1, count, wide), 1 / 16, self.low + 128)
        squashed = self.type((1, count, wide), 1 / 256, self.low)
        self.scores = self.graph.emit("sigmoid", [joined], squashed, stem="scores")
        coded = self.joined(
            [self.rows(x, 4) for x in images], (1, count, 4), 1 / 16, self.low + 128
        )
        anchors = self.random.uniform(0.2, 0.7, (count, 4)).astype(np.float32)
        operands = [self.real(coded), self.real(self.scores)]
        operands.append(self.graph.add_constant("anchors", anchors))
        a = DetectionAttributes(10, 1, classes, 0.3, 0.5, 10.0, 10.0, 5.0, 5.0)
        outputs = ("where", "what", "sure", "number")
        types = [TensorType(s, DType.FLOAT32) for s in ((1, 10, 4), (1, 10), (1, 10), (1,))]
        node = Node("found", "detection_post_process", tuple(operands), outputs, a)
        self.node = self.graph.add_node(node, types)
        self.graph.outputs = list(outputs)

    def type(self, shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
        return TensorType(shape, self.dtype, Quantization.per_tensor(scale, zero))

    def rows(self, image: str, width: int) -> str:
        _, height, breadth, depth = self.graph.type(image).shape
        weights = self.random.integers(-64, 64, (BOXES * width, 1, 1, depth))
        unsigned = self.dtype is U8
        step = Quantization.per_tensor(1 / 128, 128 if unsigned else 0)
        stored = (weights + 128 * unsigned).astype(self.dtype.numpy)
        filters = self.graph.add_constant("filters", stored, step)
        bias = self.random.integers(-24000, -8000, BOXES * width).astype(np.int32)
        biases = self.graph.add_constant("bias", bias, Quantization.per_tensor(1 / 8192))
        made = self.type((1, height, breadth, BOXES * width), 1 / 16, self.low + 128)
        x = self.graph.emit("conv_2d", [image, filters, biases], made, ConvAttributes())
        shape = (1, BOXES * height * breadth, width)
        return self.graph.emit("reshape", [x], made.with_shape(shape), ReshapeAttributes(shape))

    def joined(self, rows: list[str], shape: tuple[int, ...], scale: float, zero: int) -> str:
        a = ConcatenationAttributes(1)
        return self.graph.emit("concatenation", rows, self.type(shape, scale, zero), a)

    def real(self, name: str) -> str:
        type = TensorType(self.graph.type(name).shape, DType.FLOAT32)
        return self.graph.emit("dequantize", [name], type)

    def inputs(self, seed: int) -> dict[str, Array]:
        return {
            name: picture(self.dtype, self.graph.type(name).shape, seed + 100 * number)
            for number, name in enumerate(self.graph.inputs)
        }


def by_litert(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=tflite.write_model(export_model(graph)))
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], inputs[details["name"]])
    interpreter.invoke()
    outputs = interpreter.get_output_details()
    return {details["name"]: interpreter.get_tensor(details["index"]) for details in outputs}


@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize("background", [0, 1])
def test_post_processing_of_the_best_scores(dtype: DType, background: int) -> None:
    """Every byte is that of all scores, in any arithmetic, and scores that are equal are there."""
    heads = Heads(dtype, background)
    after = run_passes(heads.graph, (BestScores(),))
    (node,) = [node for node in after.nodes() if node.op == "detection_post_process"]
    assert after.producer(str(node.inputs[1])).op == "mul"  # type: ignore[union-attr]
    ties = found = 0
    for seed in range(4):
        inputs = heads.inputs(seed)
        for arithmetic in Arithmetic:
            first, second = (
                fitzroy.evaluate(graph, inputs, arithmetic) for graph in (heads.graph, after)
            )
            for name, array in first.items():
                assert array.tobytes() == second[name].tobytes(), (name, seed, arithmetic)
            found += int(first["number"][0])
        scores = fitzroy.evaluate(heads.graph.cut([heads.scores]), inputs)[heads.scores]
        best = scores[0, :, background:].max(axis=1, keepdims=True)
        ties += int(((scores[0, :, background:] == best).sum(axis=1) > 1).sum())
    assert found > 20
    assert ties > 3


@pytest.mark.parametrize("dtype", [I8, U8])
def test_litert_finds_the_same_objects(dtype: DType) -> None:
    """The kernel that the rule is about, before and after, byte by byte."""
    need_litert()
    heads = Heads(dtype)
    after = run_passes(heads.graph, (BestScores(),))
    found = 0
    for seed in range(8):
        first, second = (by_litert(graph, heads.inputs(seed)) for graph in (heads.graph, after))
        count = int(first["number"][0])
        found += count
        assert first["number"].tobytes() == second["number"].tobytes()
        for name in ("where", "what", "sure"):
            # Further rows hold what was in memory.
            assert first[name][0, :count].tobytes() == second[name][0, :count].tobytes()
    assert found > 20


def with_attributes(**changes: object) -> Callable[[Heads], None]:
    def change(heads: Heads) -> None:
        attributes = replace(heads.node.attributes, **changes)
        heads.graph.update(replace(heads.node, attributes=attributes))

    return change


def with_output(heads: Heads) -> None:
    heads.graph.outputs.append(heads.scores)


def with_negative_scores(heads: Heads) -> None:
    value = heads.graph.value(heads.scores)
    quantization = Quantization.per_tensor(1 / 128, heads.low + 128)
    heads.graph.set_value(replace(value, type=replace(value.type, quantization=quantization)))


@pytest.mark.parametrize(
    "change",
    [
        with_attributes(use_regular_nms=True),
        with_output,
        with_negative_scores,
    ],
)
def test_what_reads_more_than_the_best_score(change: Callable[[Heads], None]) -> None:
    heads = Heads(I8)
    change(heads)
    assert print_graph(run_passes(heads.graph, (BestScores(),))) == print_graph(heads.graph)


def test_few_classes_are_sent() -> None:
    heads = Heads(I8, classes=10)
    assert print_graph(run_passes(heads.graph, (BestScores(),))) == print_graph(heads.graph)


def positions(dtype: DType, shape: tuple[int, ...], result: DType = DType.INT32) -> Graph:
    graph = Graph("positions")
    type = TensorType(shape, dtype, Quantization.per_tensor(0.25, 3))
    image = graph.add_input("image", type)
    small = graph.emit("quantize", [image], replace(type, quantization=Quantization.per_tensor(3)))
    types = [TensorType(shape[:3], result)]
    graph.add_node(Node("largest", "arg_max", (small,), ("where",), ArgAttributes(3)), types)
    graph.outputs = ["where"]
    return graph


@pytest.mark.parametrize("dtype", [I8, U8])
@pytest.mark.parametrize(
    ("shape", "result"),
    [
        ((1, 5, 8, 21), DType.INT64),
        ((1, 3, 7, 2), DType.INT32),
        ((1, 2, 5, 127), DType.INT32),
        ((1, 2, 3, 128), DType.INT64),
        ((1, 3, 1, 256), DType.INT32),
    ],
)
def test_positions_on_the_chip(dtype: DType, shape: tuple[int, ...], result: DType) -> None:
    """The first of equal channels, whatever arithmetic the parts are computed in."""
    before = positions(dtype, shape, result)
    after = run_passes(before, (ArgMaxima(),))
    assert not any(node.op == "arg_max" for node in after.nodes())
    for seed in range(3):
        inputs = {"image": picture(dtype, shape, seed)}
        for arithmetic in Arithmetic:
            wanted = fitzroy.evaluate(before, inputs, arithmetic)["where"]
            given = fitzroy.evaluate(after, inputs, arithmetic)["where"]
            assert given.dtype == wanted.dtype
            np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("final", [DType.UINT8, DType.FLOAT32])
def test_positions_are_cast_once(final: DType) -> None:
    """Exporters let positions be int64 and cast these."""
    before = positions(I8, (1, 5, 8, 21), DType.INT64)
    (where,) = before.outputs
    type = TensorType(before.type(where).shape, final)
    before.outputs = [before.emit("cast", [where], type)]
    after = run_passes(before, (ArgMaxima(),))
    assert [node.op for node in after.nodes()].count("cast") == 1
    inputs = {"image": picture(I8, (1, 5, 8, 21), 0)}
    (wanted,), (given,) = (fitzroy.evaluate(x, inputs).values() for x in (before, after))
    assert given.dtype == wanted.dtype
    np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("shape", [(2, 5, 8, 21), (1, 5, 8, 257), (1, 5, 8, 1)])
def test_positions_for_the_host(shape: tuple[int, ...]) -> None:
    before = positions(I8, shape)
    assert print_graph(run_passes(before, (ArgMaxima(),))) == print_graph(before)


@pytest.mark.long
@pytest.mark.parametrize("graph", [Heads(I8).graph, positions(U8, (1, 22, 19, 21))])
def test_programs_of_reduced_models(graph: Graph) -> None:
    """Less leaves the chip; bytes are those of the reference, and the verifier is silent."""
    sent, slow = [], replace(COSTS, out=1.0)
    for reduced in (False, True):
        generator = replace(DEFAULT, reduced=reduced)
        done = compile_edgetpu(Source.of(graph), generator=generator, costs=slow)
        types = [part.graph.type(x) for part in (s.segment for s in done.segments)
                 for x in part.graph.outputs]  # fmt: skip
        sent.append(sum(type.nbytes for type in types))
    assert sent[1] < sent[0] / 3
    for part in done.segments:
        assert not differing_bytes(part.segment.graph, part.package)
        assert not findings(part.package, envelope=True)


@pytest.mark.long
def test_sources_of_reduced_programs(tmp_path: Path) -> None:
    """The twin computes them, and patching finds their weights, from the model as it was."""
    heads = Heads(I8)
    paths = [tmp_path / name for name in ("a.tflite", "b.tflite", "a_edgetpu.tflite")]
    retrained = Heads(I8).graph
    for value in [*retrained.values.values()]:
        if value.data is not None and value.name.startswith("filters"):
            retrained.set_value(replace(value, data=value.data[::-1].copy()))
    for path, graph in zip(paths, (heads.graph, retrained), strict=False):
        path.write_bytes(tflite.write_model(export_model(graph)))
    slow = replace(COSTS, out=1.0)
    compiled = compile_edgetpu(paths[0], costs=slow)
    paths[2].write_bytes(compiled.data)
    patched, _ = patch_weights(paths[2], paths[1], original=paths[0])
    assert patched == compile_edgetpu(paths[1], costs=slow).data
    with (
        Interpreter(compiled.data, device="sim:direct") as chip,
        Interpreter(compiled.data, device=TwinDevice(load(paths[0]))) as twin,
    ):
        first, second = (one.run(heads.inputs(2)) for one in (chip, twin))
    for name, array in first.items():
        assert array.tobytes() == second[name].tobytes()


def test_what_would_take_longer_stays() -> None:
    """What decides are the costs by which a model is divided."""
    slow = replace(COSTS, out=1.0)
    assert reducing(Heads(I8).graph, DEFAULT, slow) == named_passes(REDUCING)
    assert reducing(Heads(I8).graph, replace(DEFAULT, reduced=False), slow) == ()
    assert reducing(Heads(I8).graph, DEFAULT, replace(COSTS, out=1e6)) == ()
    assert reducing(positions(I8, (1, 5, 8, 257)), DEFAULT, COSTS) == ()


def test_metadata_and_signatures_stay() -> None:
    """Labels of a detector are in its metadata, and programs call it by its signature."""
    model = export_model(Heads(I8).graph)
    (subgraph,) = model.subgraphs or []
    names = [tensor.name for tensor in subgraph.tensors or ()]
    maps = [
        [tflite.TensorMap(name=f"{own}_", tensor_index=names.index(own)) for own in some]
        for some in (("level6", "level3"), ("where", "number"))
    ]
    labels = np.frombuffer(b"person\ncar", np.uint8)
    like = replace(
        model,
        description="detector",
        buffers=[*(model.buffers or ()), tflite.Buffer(data=labels)],
        metadata=[tflite.Metadata(name="LABELS", buffer=len(model.buffers or ()))],
        signature_defs=[
            tflite.SignatureDef(inputs=maps[0], outputs=maps[1], signature_key="serve"),
            tflite.SignatureDef(
                inputs=[], outputs=[tflite.TensorMap(name="x", tensor_index=names.index("scores"))]
            ),
        ],
    )
    other = export_model(run_passes(Heads(I8).graph, (BestScores(),)))
    made = tflite.read_model(tflite.write_model(annotated(other, like)))
    assert made.description == "detector"
    (entry,) = made.metadata or []
    assert bytes((made.buffers or [])[entry.buffer].data) == b"person\ncar"  # type: ignore[arg-type]
    (signature,) = made.signature_defs or []
    assert signature.signature_key == "serve"
    tensors = (made.subgraphs or [])[0].tensors or []
    assert [tensors[x.tensor_index].name for x in signature.inputs or ()] == ["level6", "level3"]
    assert [tensors[x.tensor_index].name for x in signature.outputs or ()] == ["where", "number"]

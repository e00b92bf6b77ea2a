"""Post-processing operators: by hand, and against LiteRT where that has a kernel."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.support import corpus, need_litert

import fitzroy
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Attributes, Graph, Node, parse_graph, print_graph
from fitzroy.compiler.ops.catalog import CUSTOM, OPS, attributes_of
from fitzroy.compiler.ops.definition import Call, TypeRuleError
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.opaque import OpaqueAttributes
from fitzroy.compiler.ops.pose import KEYPOINTS, PoseAttributes
from fitzroy.formats import flexbuffer, tflite

Arrays = dict[str, Array]
Floats = npt.NDArray[np.float32]

DETECTOR = DetectionAttributes(
    max_detections=4,
    max_classes_per_detection=1,
    num_classes=2,
    nms_score_threshold=0.25,
    nms_iou_threshold=0.5,
    y_scale=10.0,
    x_scale=10.0,
    h_scale=5.0,
    w_scale=5.0,
)
POSES = PoseAttributes(max_detections=5, score_threshold=0.2, stride=16, nms_radius=10.0)


def applied(op: str, a: Attributes, inputs: dict[str, TensorType], constants: Arrays) -> Graph:
    """A graph of one operator, with results of the types that it says."""
    graph = Graph(op)
    for name, type in inputs.items():
        graph.add_input(name, type)
    quantization = next(iter(inputs.values())).quantization
    names = [*inputs]
    for name, data in constants.items():
        quantized = Quantization.per_tensor(1 / 64) if quantization is not None else None
        names.append(graph.add_constant(name, data, quantized))
    node = Node("node", op, tuple(names), (), a)
    call = Call(node, tuple(graph.value(name) for name in names), ())
    expected = OPS[op].infer(call)
    outputs = tuple(f"y{number}" for number in range(len(expected)))
    types = [TensorType(item.shape, item.dtype or DType.FLOAT32) for item in expected]
    graph.add_node(replace(node, outputs=outputs), types)
    graph.outputs = list(outputs)
    return graph


def real(*shape: int) -> TensorType:
    return TensorType(shape, DType.FLOAT32)


def detector(
    anchors: Array, a: DetectionAttributes, *, background: int = 0, quantized: bool = False
) -> Graph:
    boxes, scores = (1, len(anchors), 4), (1, len(anchors), a.num_classes + background)
    types = {"boxes": real(*boxes), "scores": real(*scores)}
    if quantized:
        types = {
            "boxes": TensorType(boxes, DType.UINT8, Quantization.per_tensor(0.03, 117)),
            "scores": TensorType(scores, DType.UINT8, Quantization.per_tensor(1 / 256)),
        }
    return applied("detection_post_process", a, types, {"anchors": anchors})


# --- detectors, by hand --------------------------------------------------------------------------

ANCHORS = np.array([[0.5, 0.5, 0.4, 0.2], [0.5, 0.52, 0.4, 0.2], [0.2, 0.2, 0.1, 0.1]], np.float32)
SCORES = np.array([[[0.5, 0.4], [0.6, 0.3], [0.1, 0.9]]], np.float32)


def detect(a: DetectionAttributes, scores: Array = SCORES) -> list[Array]:
    graph = detector(ANCHORS, a)
    boxes = np.zeros((1, 3, 4), np.float32)
    results = fitzroy.evaluate(graph, {"boxes": boxes, "scores": scores})
    return [results[name] for name in graph.outputs]


def test_overlapping_boxes_are_one_object() -> None:
    boxes, classes, scores, number = detect(DETECTOR)
    assert number.tolist() == [2]
    np.testing.assert_allclose(boxes[0, 0], [0.15, 0.15, 0.25, 0.25], atol=1e-6)
    np.testing.assert_allclose(boxes[0, 1], [0.3, 0.42, 0.7, 0.62], atol=1e-6)
    assert classes[0].tolist() == [1, 0, 0, 0]
    np.testing.assert_array_equal(scores[0], np.array([0.9, 0.6, 0, 0], np.float32))
    assert not boxes[0, 2:].any()


def test_overlap_in_each_class() -> None:
    other = np.array([[[0.5, 0.4], [0.3, 0.6], [0.1, 0.9]]], np.float32)
    _, classes, scores, number = detect(replace(DETECTOR, use_regular_nms=True), other)
    # Boxes 0 and 1 overlap, but box 0 is the best of class 0, and box 1 among those of class 1.
    assert number.tolist() == [3]
    assert classes[0, :3].tolist() == [1, 1, 0]
    np.testing.assert_array_equal(scores[0, :3], np.array([0.9, 0.6, 0.5], np.float32))


def test_thresholds_and_bounds() -> None:
    assert detect(replace(DETECTOR, max_detections=1))[3].tolist() == [1]
    assert detect(replace(DETECTOR, nms_score_threshold=0.7))[3].tolist() == [1]
    assert detect(replace(DETECTOR, nms_iou_threshold=0.9))[3].tolist() == [3]
    assert detect(replace(DETECTOR, nms_score_threshold=2.0))[3].tolist() == [0]
    several = detect(replace(DETECTOR, max_classes_per_detection=2))
    assert several[0].shape == (1, 8, 4)
    assert several[1][0, :4].tolist() == [1, 0, 0, 1]


def test_offsets_move_and_scale_anchors() -> None:
    graph = detector(ANCHORS[:1], DETECTOR)
    boxes = np.array([[[1.0, 2.0, 5 * np.log(2.0), 0.0]]], np.float32)
    found = fitzroy.evaluate(graph, {"boxes": boxes, "scores": SCORES[:, :1]})["y0"][0, 0]
    # Centre (0.5 + 0.1 * 0.4, 0.5 + 0.2 * 0.2), twice as high.
    np.testing.assert_allclose(found, [0.14, 0.44, 0.94, 0.64], atol=1e-6)


def test_negative_extents_are_refused() -> None:
    anchors = ANCHORS.copy()
    anchors[1, 2] = -0.1
    graph = detector(anchors, DETECTOR)
    with pytest.raises(UsageError, match="negative extent"):
        fitzroy.evaluate(graph, {"boxes": np.zeros((1, 3, 4), np.float32), "scores": SCORES})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_classes": 4}, "2 scores for 4 classes"),
        ({"nms_iou_threshold": 0.0}, "an overlap of 0"),
        ({"max_classes_per_detection": 0}, "no detections"),
        ({"max_detections": 1 << 30}, "detections"),
    ],
)
def test_detectors_that_make_no_sense(change: dict[str, Any], text: str) -> None:
    graph = detector(ANCHORS, DETECTOR)
    node = graph.nodes()[0]
    call = Call.of(graph, replace(node, attributes=replace(DETECTOR, **change)))
    with pytest.raises(TypeRuleError, match=text):
        OPS[node.op].infer(call)


# --- detectors, against LiteRT -------------------------------------------------------------------


@pytest.mark.parametrize("regular", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_detectors_agree_with_litert(seed: int, quantized: bool, regular: bool) -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    rng = np.random.default_rng(seed)
    count, classes = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    # The kernel leaves the order of equal scores open, if there is more than one class to sort.
    several = 1 if quantized or regular else int(rng.integers(1, 4))
    a = replace(
        DETECTOR,
        max_detections=int(rng.integers(1, 12)),
        max_classes_per_detection=several,
        num_classes=classes,
        nms_score_threshold=float(np.float32(rng.uniform(0, 0.6))),
        nms_iou_threshold=float(np.float32(rng.uniform(0.1, 0.9))),
        use_regular_nms=regular,
        detections_per_class=int(rng.integers(1, 9)),
    )
    anchors = rng.uniform(0.05, 1, (count, 4)).astype(np.float32)
    if quantized:
        anchors = np.rint(64 * anchors).clip(1).astype(np.uint8)
    graph = detector(anchors, a, background=seed % 2, quantized=quantized)
    inputs: Arrays = {}
    for name in graph.inputs:
        type = graph.type(name)
        drawn: Array = rng.normal(0, 2, type.shape)
        if quantized:
            drawn = rng.integers(60, 180, type.shape)
        elif name == "scores":
            # All different.
            drawn = (rng.permutation(type.size) / type.size).reshape(type.shape)
        inputs[name] = drawn.astype(type.dtype.numpy)
    interpreter = Interpreter(model_content=tflite.write_model(export_model(graph)))
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        interpreter.set_tensor(details["index"], inputs[details["name"]])
    interpreter.invoke()
    wanted = {
        details["name"]: interpreter.get_tensor(details["index"])
        for details in interpreter.get_output_details()
    }
    found = fitzroy.evaluate(graph, inputs)
    assert found["y3"].tolist() == wanted["y3"].tolist()
    # Further rows hold what was in memory.
    given = min(several, classes)
    rows = [a * several + b for a in range(int(found["y3"][0])) for b in range(given)]
    for name in ("y0", "y1", "y2"):
        assert found[name].shape == wanted[name].shape
        np.testing.assert_allclose(found[name][0, rows], wanted[name][0, rows], rtol=1e-6)


# --- poses ---------------------------------------------------------------------------------------

SIDE = 25
LIMBS = [
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15), (0, 6),
    (6, 8), (8, 10), (6, 12), (12, 14), (14, 16),
]  # fmt: skip


def scene(persons: Floats) -> list[Floats]:
    """Fields that describe persons [n,17,2], whose coordinates are in elements.

    Heatmaps have a peak for every keypoint, and around it all offsets are those of its person.
    """
    heat = np.full((SIDE, SIDE, 17), -8, np.float32)
    short = np.zeros((SIDE, SIDE, 34), np.float32)
    mid = np.zeros((SIDE, SIDE, 64), np.float32)
    long = np.zeros((SIDE, SIDE, 34), np.float32)
    grid = np.indices((SIDE, SIDE)).transpose(1, 2, 0)
    for rank, person in enumerate(persons):
        for number, point in enumerate(person):
            y, x = np.rint(point).astype(int)
            around = np.s_[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2]
            heat[around][..., number] = 2 - rank
            heat[y, x, number] = 3 - rank
            short[around][..., [number, number + 17]] = point - grid[around]
            for edge, (parent, child) in enumerate(LIMBS):
                for start, end, first in ((parent, child, edge), (child, parent, edge + 32)):
                    if start == number:
                        mid[around][..., [first, first + 16]] = person[end] - grid[around]
    middles = persons.mean(axis=1)
    nearest = ((grid[:, :, None] - middles) ** 2).sum(axis=-1).argmin(axis=-1)
    target = persons[nearest]
    long[..., :17], long[..., 17:] = target[..., 0] - grid[..., :1], target[..., 1] - grid[..., 1:]
    return [heat, 16 * short, 16 * mid, 16 * long]


def person(y: float, x: float, seed: int) -> Floats:
    """Seventeen keypoints that are at least two elements apart."""
    rng = np.random.default_rng(seed)
    cells = np.array([(3 * row, 2.5 * column) for row in range(6) for column in range(3)])[:17]
    jitter = rng.uniform(-0.4, 0.4, cells.shape)
    return (cells + jitter + (y, x)).astype(np.float32)


def decode(fields: list[Floats], a: PoseAttributes = POSES) -> list[Array]:
    names = ["heatmaps", "short", "mid", "long"][: len(fields)]
    types = {name: real(1, *field.shape) for name, field in zip(names, fields, strict=True)}
    graph = applied("pose_decoder", a, types, {})
    inputs = {name: field[None] for name, field in zip(names, fields, strict=True)}
    results = fitzroy.evaluate(graph, inputs)
    return [results[name] for name in graph.outputs]


def test_limbs_are_those_of_the_names() -> None:
    assert [KEYPOINTS[child] for parent, child in LIMBS if KEYPOINTS[parent] == "nose"] == [
        "left eye", "right eye", "left shoulder", "right shoulder",
    ]  # fmt: skip


def test_persons_are_found() -> None:
    persons = np.stack([person(3, 2, 1), person(4, 14, 2)])
    points, scores, totals, number, masks = decode(scene(persons))
    assert number.tolist() == [2]
    np.testing.assert_allclose(points[0, :2] / 16, persons, atol=0.2)
    assert (scores[0, :2] > 0.5).all()
    assert totals[0, 0] > totals[0, 1] > 0.5
    assert not points[0, 2:].any()
    assert not totals[0, 2:].any()
    # Every element belongs to the person whose middle is nearer.
    assert masks.shape == (1, 5, SIDE, SIDE)
    assert masks[0, :2].sum(axis=0).tolist() == np.ones((SIDE, SIDE)).tolist()
    assert masks[0, 0, 12, 4] == masks[0, 1, 12, 17] == 1


def test_a_person_is_found_once_and_only_above_the_threshold() -> None:
    fields = scene(person(3, 2, 1)[None])[:3]
    assert decode(fields)[3].tolist() == [1]
    assert len(decode(fields)) == 4
    assert decode(fields, replace(POSES, score_threshold=0.97))[3].tolist() == [0]
    assert decode(fields, replace(POSES, max_detections=0))[3].tolist() == [0]


def test_images_without_persons_have_masks_of_zeros() -> None:
    fields = scene(person(3, 2, 1)[None])
    fields[0][...] = -8
    *_, number, masks = decode(fields)
    assert number.tolist() == [0]
    assert not masks.any()


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        ([(9, 9, 16), (9, 9, 34), (9, 9, 64)], "16 channels, not 17"),
        ([(9, 9, 17), (9, 8, 34), (9, 9, 64)], "differ"),
        ([(9, 8, 17), (9, 8, 34), (9, 8, 64), (9, 8, 34)], "square"),
    ],
)
def test_fields_that_do_not_fit(shapes: list[tuple[int, int, int]], text: str) -> None:
    with pytest.raises(TypeRuleError, match=text):
        decode([np.zeros(shape, np.float32) for shape in shapes])


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["detection_post_process", "pose_decoder"])
def test_files_and_texts_keep_attributes_and_types(op: str) -> None:
    if op == "pose_decoder":
        shapes = {"heat": 17, "short": 34, "mid": 64, "long": 34}
        types = {name: real(1, 5, 5, depth) for name, depth in shapes.items()}
        graph = applied(op, POSES, types, {})
    else:
        graph = detector(ANCHORS, DETECTOR)
    model = export_model(graph)
    assert model.operator_codes is not None
    assert model.operator_codes[0].custom_code == OPS[op].custom
    assert CUSTOM[OPS[op].custom] is OPS[op]
    # Converters leave the shapes of results open.
    for tensor in (model.subgraphs or [])[0].tensors or ():
        if tensor.name in graph.outputs:
            tensor.shape = None
    again = import_model(tflite.read_model(tflite.write_model(model)))
    (node,) = again.nodes()
    assert node.attributes == graph.nodes()[0].attributes
    assert [again.type(name) for name in again.outputs] == [
        graph.type(name) for name in graph.outputs
    ]
    assert print_graph(parse_graph(print_graph(graph), attributes_of)) == print_graph(graph)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([1, 2], "no map"),
        ({"stride": 16}, "no number max_detections"),
        (asdict(POSES) | {"stride": "x"}, "no number stride"),
        (asdict(POSES) | {"stride": 1.5}, "no number stride"),
        (asdict(POSES) | {"nms_radius": math.nan}, "no number nms_radius"),
    ],
)
def test_options_that_do_not_fit(options: flexbuffer.Value, text: str) -> None:
    types = {"heat": real(1, 5, 5, 17), "short": real(1, 5, 5, 34), "mid": real(1, 5, 5, 64)}
    model = export_model(applied("pose_decoder", POSES, types, {}))
    operator = ((model.subgraphs or [])[0].operators or [])[0]
    operator.custom_options = np.frombuffer(flexbuffer.encode(options), np.uint8)
    [node] = import_model(model).nodes()
    assert isinstance(node.attributes, OpaqueAttributes)
    assert text in node.attributes.reason


@pytest.mark.parametrize("op", ["detection_post_process", "pose_decoder"])
def test_operators_without_operands(op: str) -> None:
    fields = {"heat": real(1, 5, 5, 17), "short": real(1, 5, 5, 34), "mid": real(1, 5, 5, 64)}
    graph = detector(ANCHORS, DETECTOR)
    if op == "pose_decoder":
        graph = applied(op, POSES, fields, {})
    for count in range(3):
        model = export_model(graph)
        operator = ((model.subgraphs or [])[0].operators or [])[0]
        assert operator.inputs is not None
        operator.inputs = operator.inputs[:count]
        [node] = import_model(model).nodes()
        assert isinstance(node.attributes, OpaqueAttributes)
        assert "operand" in node.attributes.reason


def test_other_targets_refuse_and_say_where_to_cut() -> None:
    graph = detector(ANCHORS, DETECTOR)
    with pytest.raises(UnsupportedError, match="have no TFLite_Detection_PostProcess"):
        fitzroy.compile(graph)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("model", "op"),
    [("traffic_model", "detection_post_process"),
     ("posenet_mobilenet_v1_075_353_481_16_quant_decoder", "pose_decoder"),
     ("bodypix_mobilenet_v1_075_512_512_16_quant_decoder", "pose_decoder")],
)  # fmt: skip
def test_models_have_typed_results(model: str, op: str) -> None:
    graph = fitzroy.load(corpus() / "coral" / f"{model}.tflite")
    assert graph.nodes()[-1].op == op
    assert all(graph.type(name).size for name in graph.outputs)
    # Only the number of objects has one dimension.
    assert [graph.type(name).rank == 1 for name in graph.outputs].count(True) == 1

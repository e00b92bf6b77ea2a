"""Heads that give distances to edges which they make positive: RTMDet, FCOS."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from tests.compiler import detectors
from tests.compiler.test_heads import MOST, OVERLAP, SCORE, expected, image, listed, the_node
from tests.compiler.test_heads_schemes import ORDERS

import fitzroy
from fitzroy.base.errors import UnsupportedError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.box_coding import UNIT
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.detections import ANCHORS, BOXES, sigmoid
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.compiler.passes.heads.rewriting import kept_float, limits, with_detections
from fitzroy.compiler.quantization.comparison import stored_input
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

Floats = npt.NDArray[np.float32]
CLASSES = detectors.CLASSES
THREE, FIVE = (8, 16, 32), (8, 16, 32, 64, 128)


def cells(strides: tuple[int, ...]) -> list[int]:
    return [-(-detectors.SIDE // stride) for stride in strides]


def rectified(m: detectors.Maker, x: str, channels: int) -> str:
    """A convolution with a rectifier, as importers of ONNX leave both."""
    _, height, width, depth = m.shape(x)
    kernel = m.random.normal(0, 2 / np.sqrt(depth), (channels, 1, 1, depth))
    names = [x, m.constant(kernel), m.constant(m.random.normal(2, 0.5, channels))]
    a = ConvAttributes(padding=PaddingScheme.VALID, activation=Activation.RELU)
    return m.emit("conv_2d", names, (1, height, width, channels), a)


def distances(m: detectors.Maker, x: str, function: str, stride: int) -> str:
    """Distances to the edges of the boxes of a level, in the units of a function.

    Args:
        m: makes the graph.
        x: features.
        function: what the model computes: `exp` or `relu`, `scaled` if the result is multiplied by
            the pixels of a cell, and `folded` if that is a part of the filters.
        stride: pixels of a cell.
    """
    if "relu" in function:
        made = rectified(m, x, 4)
    else:
        made = m.layer(x, 4)
        made = m.emit("exp", [made], m.shape(made)) if "exp" in function else made
    if "scaled" in function:
        return m.binary("mul", made, stride)
    if "folded" in function:
        node = m.graph.producer(made)
        assert node is not None
        for name in node.inputs[1:]:
            data = m.graph.value(str(name)).data
            assert data is not None
            data[...] = data * np.float32(stride)
    return made


def layers(
    order: str,
    function: str,
    strides: tuple[int, ...] = THREE,
    *,
    beside: bool = False,
    classes: int = CLASSES,
) -> Graph:
    """Logits of classes and distances of each level, and logits of being in the middle.

    Args:
        order: a key of `ORDERS`, or `joined` for rows of all levels.
        function: see `distances`.
        strides: pixels of a cell of each level.
        beside: whether there are logits of being in the middle.
        classes: of objects.
    """
    m = detectors.Maker()
    found: list[list[str]] = []
    for stride, side in zip(strides, cells(strides), strict=True):
        x = m.sigmoid(m.layer(m.image, 8, detectors.SIDE // side))
        parts = [m.layer(x, classes), distances(m, x, function, stride)]
        found.append([*parts, m.layer(x, 1)] if beside else parts)
    if order == "joined":
        rows = [[ORDERS["rows"](m, part) for part in parts] for parts in found]
        return m.done(*(m.join(list(parts), 1) for parts in zip(*rows, strict=True)))
    return m.done(*(ORDERS[order](m, part) for parts in found for part in parts))


def rows_of(graph: Graph, order: str, kinds: int) -> list[Floats]:
    """What a graph gives of each box [n,c], one for each kind of outputs."""
    given = fitzroy.evaluate(graph, {"image": image()})
    axis = 1 if order in ("numbers first", "channels first") else -1
    flat = [np.moveaxis(given[name], axis, -1) for name in graph.outputs]
    flat = [part.reshape(-1, part.shape[-1]) for part in flat]
    return [np.concatenate(flat[kind::kinds]) for kind in range(kinds)]


def places(strides: tuple[int, ...], middle: float, *, whole: bool = False) -> Floats:
    """Points of cells [n,2] in pixels.

    Args:
        strides: pixels of a cell of each level.
        middle: where in a cell its point is.
        whole: whether cells fill the image.
    """
    found = []
    for stride, side in zip(strides, cells(strides), strict=True):
        y, x = np.mgrid[:side, :side].reshape(2, -1) + middle
        step = detectors.SIDE // side if whole else stride
        found.append(np.stack([x, y], axis=1) * step)
    return np.concatenate(found).astype(np.float32)


def units(strides: tuple[int, ...]) -> Floats:
    """Pixels of the cell of each box [n,1]."""
    counts = [side * side for side in cells(strides)]
    return np.repeat(np.array(strides, np.float32), counts)[:, None]


def centred(points: Floats, numbers: Floats, scores: Floats) -> Floats:
    """Centres, extents and scores [n,4+c] of distances [n,4] in pixels."""
    low, high = points - numbers[:, :2], points + numbers[:, 2:]
    found: Floats = np.concatenate([(low + high) / 2, high - low, scores], axis=1)
    return found


def check(
    graph: Graph, rows: Floats, *, anchors: str | None = None, classes: int = CLASSES
) -> Graph:
    """A detector lists what decoded rows [n,4+c] say."""
    chosen = HeadOptions(True, score_threshold=SCORE, overlap=OVERLAP, most=MOST, anchors=anchors)
    result = with_detections(graph.copy(), chosen)
    found = fitzroy.evaluate(result, {"image": image()})["detections"]
    wanted = expected(rows, classes, False)
    assert len(wanted) > 5
    np.testing.assert_allclose(
        found[: len(wanted)], [item for _, item in wanted], rtol=1e-4, atol=1e-3
    )
    assert not found[len(wanted) :].any()
    return result


def unit_of_boxes(graph: Graph) -> Floats:
    data = graph.value(str(the_node(graph).inputs[ANCHORS])).data
    assert data is not None
    found: Floats = data[:, UNIT]
    return found


RTMDET = [
    *product(["joined", "rows", "channels first"], ["exp scaled", "relu scaled"]),
    ("numbers first", "exp scaled"),
    ("images", "exp scaled"),
]


@pytest.mark.parametrize(("order", "function"), RTMDET)
def test_positive_distances_in_pixels(order: str, function: str) -> None:
    """RTMDet multiplies them by the pixels of a cell, and they count from its corner."""
    graph = layers(order, function)
    scores, numbers = rows_of(graph, order, 2)
    result = check(graph, centred(places(THREE, 0.0), numbers, sigmoid(scores)))
    # What levels give has no factors: each box counts in its cells.
    np.testing.assert_array_equal(unit_of_boxes(result), np.repeat(units(THREE), 2, axis=1))
    assert "mul" not in {node.op for node in result.nodes()}


@pytest.mark.parametrize("order", ["joined", "images"])
@pytest.mark.parametrize("function", ["folded", "relu folded"])
def test_pixels_in_filters_are_named(order: str, function: str) -> None:
    """Nothing in the file says that numbers of layers are distances in pixels."""
    graph = layers(order, function)
    with pytest.raises(UnsupportedError, match="which the model does not hold") as caught:
        listed(graph.copy())
    assert "rtmdet" in caught.value.hint
    scores, numbers = rows_of(graph, order, 2)
    rows = centred(places(THREE, 0.0), numbers, sigmoid(scores))
    result = check(graph, rows, anchors="rtmdet")
    np.testing.assert_array_equal(unit_of_boxes(result), np.repeat(units(THREE), 2, axis=1))


def test_decoded_distances_in_pixels_count_in_cells() -> None:
    """A large box of coarse cells does not make small ones coarse."""
    graph = layers("joined", "folded")
    scores, numbers = rows_of(graph, "joined", 2)
    m = detectors.Maker()
    m.graph = graph
    points = places(THREE, 0.0)
    low = m.binary("sub", m.constant(points), m.slice(graph.outputs[1], 2, 0, 2))
    high = m.binary("add", m.constant(points), m.slice(graph.outputs[1], 2, 2, 2))
    both = m.join([low, high], 2)
    m.done(both, m.sigmoid(graph.outputs[0]))
    result = check(graph, centred(points, numbers, sigmoid(scores)))
    np.testing.assert_array_equal(unit_of_boxes(result), np.repeat(units(THREE), 2, axis=1))


def test_quantized_distances() -> None:
    """Boxes of the finest cells are off by a fraction of a pixel."""
    options = HeadOptions(True, score_threshold=SCORE, most=MOST)
    graph = with_detections(layers("channels first", "exp scaled"), options)
    samples = [{"image": image(seed)} for seed in range(4)]
    chosen = QuantizeOptions(keep_float=kept_float(graph))
    result = quantize_model(graph, samples, chosen, limits=limits(graph, options)).graph
    name = str(the_node(graph).inputs[BOXES])
    stored = str(the_node(result).inputs[BOXES])
    exact = fitzroy.evaluate(graph.cut([name]), {"image": image()})[name][0]
    given = {"image": stored_input(image(), result.type("image"))}
    kind = result.type(stored)
    assert kind.quantization is not None
    numbers = fitzroy.evaluate(result.cut([stored]), given)[stored][0].astype(np.float32)
    real = (numbers - kind.quantization.zero_point[0]) * kind.quantization.scale[0]
    assert np.abs(real - exact)[:64].max() * 8 < 1


@pytest.mark.parametrize("classes", [CLASSES, 4])
def test_fcos(classes: int) -> None:
    """torchvision rectifies distances in cells; a score is the root of a product.

    Four classes are not taken for boxes, because nothing makes their logits positive.
    """
    graph = layers("joined", "relu", FIVE, beside=True, classes=classes)
    scores, numbers, middle = rows_of(graph, "joined", 3)
    shares = np.sqrt(sigmoid(scores) * sigmoid(middle))
    rows = centred(places(FIVE, 0.0, whole=True), numbers * units(FIVE), shares)
    check(graph, rows, classes=classes)


@pytest.mark.parametrize("function", ["exp", "relu scaled"])
def test_fcos_of_mmdetection(function: str) -> None:
    """Distances in pixels count from the middles of cells; others multiply scores in other ways."""
    graph = layers("joined", function, FIVE, beside=True)
    with pytest.raises(UnsupportedError, match="which the model does not hold") as caught:
        listed(graph.copy())
    assert "fcos-mmdet" in caught.value.hint
    scores, numbers, middle = rows_of(graph, "joined", 3)
    rows = centred(places(FIVE, 0.5), numbers, sigmoid(scores) * sigmoid(middle))
    check(graph, rows, anchors="fcos-mmdet")


@pytest.mark.parametrize(
    ("function", "strides"), [("exp", THREE), ("exp scaled", FIVE), ("relu", FIVE)]
)
def test_other_positive_distances_need_a_name(function: str, strides: tuple[int, ...]) -> None:
    """In cells, on more levels, or without a score of being in the middle."""
    with pytest.raises(UnsupportedError, match="which the model does not hold"):
        listed(layers("joined", function, strides))

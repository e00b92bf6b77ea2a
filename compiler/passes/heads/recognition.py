"""From the outputs of a detector to its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.box_coding import ANCHOR, BOX, CENTRE, UNIT, BoxCoding
from fitzroy.compiler.ops.detection import DetectionAttributes
from fitzroy.compiler.ops.detections import Detections, sigmoid
from fitzroy.compiler.ops.elementwise import reals
from fitzroy.compiler.ops.shape import ConcatenationAttributes
from fitzroy.compiler.passes.heads.activation import activated
from fitzroy.compiler.passes.heads.anchors import YOLOS
from fitzroy.compiler.passes.heads.apart import anchored_head, grids, peaks_head
from fitzroy.compiler.passes.heads.best_scores import Rows, is_chosen, rows_with_scores
from fitzroy.compiler.passes.heads.columns import Columns, Region, source_of
from fitzroy.compiler.passes.heads.distances import distances_of
from fitzroy.compiler.passes.heads.head import Head, Masks, Points
from fitzroy.compiler.passes.heads.kept import post_processing_of
from fitzroy.compiler.passes.heads.keypoints import keypoints_head
from fitzroy.compiler.passes.heads.pairs import Pair, joined_pair, pair_of
from fitzroy.compiler.passes.heads.priors import priors_head
from fitzroy.compiler.passes.heads.probing import (
    Decoder,
    Probe,
    decoder_of,
    gives_corners,
    probes,
)
from fitzroy.compiler.passes.heads.queries import (
    are_queries,
    on_host,
    rows_of_queries,
    shared_scores,
)
from fitzroy.compiler.passes.heads.real_numbers import in_real_numbers
from fitzroy.compiler.passes.heads.scores import is_rescaled, product_of, without_sigmoid
from fitzroy.compiler.passes.heads.segments import (
    boundaries,
    comes_from_layers,
    is_score,
    is_shared,
    last_nodes,
    segments,
)
from fitzroy.compiler.passes.heads.straightening import straightened
from fitzroy.compiler.reference import evaluate

Floats = npt.NDArray[np.float32]

_PARTS = 4.0
"""Coordinates that are all smaller are in parts of the image, not in pixels."""

_LEAST_ROWS = 16
"""Fewer boxes are no detector's."""

_NO_SCORE = "the fifth column is no score: no sigmoid computes it"
_UNKNOWN_CHOICE = "the model chooses the best boxes itself, in no known way"

_REALS = (DType.FLOAT16, DType.FLOAT64)
"""Real numbers that some exporters convert results to."""

_NEAR = 1.0
"""How far 8 bits may put a place from where it belongs, in cells."""


def recognised(graph: Graph, anchors: str | None = None) -> Head:
    """The head of a detector; the graph gets nodes that compute what it reads.

    Args:
        graph: the detector.
        anchors: the scheme or the file of anchors that the model does not hold.

    Raises:
        FormatError: the file is none of anchors.
        UnsupportedError: the outputs are not those of a detector; says what was found instead.
    """
    if any(node.op == Detections.name for node in graph.nodes()):
        raise UnsupportedError(
            "the model lists objects already", where=graph.name, hint="leave out --detections"
        )
    columns = Columns(graph)
    size = image_size(graph)
    node = post_processing_of(graph)
    if node is not None:
        return _of_post_process(columns, node, size)
    graph.outputs = [_stored(graph, name) for name in graph.outputs]
    pair = pair_of(columns)
    if anchors is not None:
        return anchored_head(columns, _demanded(columns, pair), size, anchors)
    priors = priors_head(columns, size)
    if priors is not None:
        return priors
    outputs = [name for name in graph.outputs if graph.type(name).rank == 3]
    rejects = []
    for name in outputs:
        try:
            return _Outputs(columns, name, size).head()
        except _NoHeadError as error:
            rejects.append(_reject(graph, name, str(error)))
    queries = rows_of_queries(columns)
    if queries is not None:
        return _of_best(columns, Rows(queries), size)
    rows = rows_with_scores(columns)
    if rows is not None and (pair is None or not pair.apart):
        return _of_best(columns, rows, size)
    found = peaks_head(columns, size) or keypoints_head(columns, size)
    if found is not None:
        return found
    if pair is not None and pair.in_cells:
        others = [name for name in graph.outputs if name not in outputs]
        rejects += [_reject(graph, name, "nothing decodes boxes") for name in others]
        raise _unrecognised(
            graph,
            rejects,
            "export the model with its decoder, or, if layers give boxes, objectness and classes "
            f"of each cell, say of which model, with --anchors: {', '.join(YOLOS)}",
        )
    if pair is not None:
        return _of_pair(columns, pair, size)
    joined = joined_pair(columns)
    if joined is not None:
        return anchored_head(columns, joined, size, None)
    others = [name for name in graph.outputs if name not in outputs]
    rejects += [_reject(graph, name, "boxes with scores have 3 axes") for name in others]
    raise _unrecognised(graph, rejects)


def _unrecognised(
    graph: Graph,
    rejects: Sequence[Diagnostic],
    hint: str = "leave out --detections, and decode the outputs",
) -> UnsupportedError:
    return UnsupportedError(
        "no head of a detector is recognised", rejects=rejects, where=graph.name, hint=hint
    )


def _stored(graph: Graph, name: str) -> str:
    """What an output is converted from: quantized rows, or float32; itself if it is neither."""
    node = graph.producer(name)
    if node is None:
        return name
    source = str(node.inputs[0]) if node.inputs else name
    rows = is_rescaled(graph, node) and graph.type(name).rank == 3
    real = node.op == "cast" and graph.type(name).dtype in _REALS
    return source if rows or (real and graph.type(source).dtype is DType.FLOAT32) else name


def _reject(graph: Graph, name: str, reason: str) -> Diagnostic:
    what = f"{graph.type(name)} is no list of boxes"
    return Diagnostic(Severity.ERROR, "detections", f"output {name!r}", what, reason)


def _demanded(columns: Columns, pair: Pair | None) -> Pair:
    graph = columns.graph
    pair = pair or joined_pair(columns)
    if pair is None:
        found = ", ".join(str(graph.type(name)) for name in graph.outputs)
        raise UnsupportedError(
            f"--anchors is for models that give boxes before decoding, and this gives {found}",
            where=graph.name,
            hint="leave it out",
        )
    return pair


def _of_pair(columns: Columns, pair: Pair, size: tuple[int, int]) -> Head:
    """The head of a model whose boxes and scores are apart, decoded or not."""
    positive = distances_of(columns.graph, pair.boxes) is not None
    if pair.distances or pair.apart or positive:
        return anchored_head(columns, pair, size, None)
    rows = columns.joined([pair.boxes, pair.scores], 2)
    try:
        return _Outputs(columns, rows, size, apart=True).head()
    except _NoHeadError as error:
        if not comes_from_layers(columns.graph, pair.boxes):
            rejects = [_reject(columns.graph, name, str(error)) for name in columns.graph.outputs]
            raise _unrecognised(columns.graph, rejects) from None
        return anchored_head(columns, pair, size, None)


def _of_best(columns: Columns, rows: Rows, size: tuple[int, int]) -> Head:
    """The head of a model that gives the best score of each box, or one beside those of classes."""
    try:
        outputs = _Outputs(columns, rows.name, size, apart=True, objectness=rows.objectness)
        return outputs.of_rows(rows.name)
    except _NoHeadError as error:
        rejects = [_reject(columns.graph, name, str(error)) for name in columns.graph.outputs]
        raise _unrecognised(columns.graph, rejects) from None


class _NoHeadError(Exception):
    """Why an output is not that of a detector."""


def image_size(graph: Graph) -> tuple[int, int]:
    """Width and height of the first input that is an image.

    Raises:
        UnsupportedError: there is none, or it takes several images at once.
    """
    for name in graph.inputs:
        shape = graph.type(name).shape
        if len(shape) == 4:
            if shape[0] != 1:
                raise UnsupportedError(
                    f"objects are listed of one image, and {name!r} takes {shape[0]}",
                    where=graph.name,
                    hint="export the model for a batch of 1",
                )
            height, width = shape[1:3] if shape[3] <= 4 else shape[2:4]
            return width, height
    found = ", ".join(f"{name!r} is {graph.type(name)}" for name in graph.inputs)
    raise UnsupportedError(
        f"no input is an image: {found}",
        where=graph.name,
        hint="--detections is for models that find objects in images",
    )


# --- TFLite's post-processing --------------------------------------------------------------------


def _of_post_process(columns: Columns, node: Node, size: tuple[int, int]) -> Head:
    """The head of a model that ends in TFLite's own operator."""
    graph, a = columns.graph, node.attributes
    assert isinstance(a, DetectionAttributes)
    boxes, scores, constant = (str(name) for name in node.inputs)
    data = graph.value(constant).data
    if data is None:
        raise UnsupportedError("the anchors are computed", where=node.name)
    y, x, h, w = reals(data, graph.type(constant)).astype(np.float32).T
    anchors = np.stack([x, y, w / a.x_scale, h / a.y_scale, w, h], axis=1).astype(np.float32)
    exponent = 1 / a.h_scale
    if a.h_scale != a.w_scale:
        raise UnsupportedError(
            f"logarithms of heights by {a.h_scale:g} and of widths by {a.w_scale:g}",
            where=node.name,
        )
    logits = without_sigmoid(columns, scores)
    return Head(
        size,
        columns.take(boxes, 2, 0, BOX),
        BoxCoding.EXPONENTIAL,
        exponent,
        anchors * _pixels(size),
        (1.0, 1.0),
        logits or scores,
        None,
        logits is not None,
        background=graph.type(scores).shape[2] - a.num_classes,
        # The kernel compares in float32.
        overlap=float(np.float32(a.nms_iou_threshold)),
        agnostic=not a.use_regular_nms,
        y_first=True,
        most=a.max_detections,
        inclusive=True,
    )


def _pixels(size: tuple[int, int]) -> Floats:
    """What anchors [n,6] in parts of the image are multiplied by."""
    return np.resize(np.array(size, np.float32), ANCHOR)


# --- boxes and scores in one output --------------------------------------------------------------


@dataclass(frozen=True)
class _Outputs:
    """An output that may be a detector's.

    Attributes:
        columns: makes parts of values.
        name: the output.
        size: width and height of the image.
        apart: whether scores of classes are an output of their own.
        objectness: whether the first score is an output of its own, that of being any object.
    """

    columns: Columns
    name: str
    size: tuple[int, int]
    apart: bool = False
    objectness: bool = False

    @property
    def graph(self) -> Graph:
        return self.columns.graph

    def head(self) -> Head:
        """Its head.

        Raises:
            _NoHeadError: it is none.
        """
        chosen = self._before_choice()
        if chosen is not None:
            return self.of_rows(chosen, once=True)
        _, first, second = self.graph.type(self.name).shape
        turned = self.columns.transposed(self.name, (0, 2, 1))
        # Mostly there are more boxes than columns.
        likely, other = (turned, self.name) if first <= second else (self.name, turned)
        try:
            return self.of_rows(likely)
        except _NoHeadError as error:
            try:
                return self.of_rows(other)
            except _NoHeadError:
                raise error from None

    def of_rows(self, rows: str, *, once: bool = False) -> Head:
        """The head whose rows [1,n,c] are decoded boxes, scores and what is beside them.

        Args:
            rows: the rows.
            once: whether the model gives each object once.

        Raises:
            _NoHeadError: they are not.
        """
        graph = self.graph
        _, count, width = graph.type(rows).shape
        if count < _LEAST_ROWS or width <= BOX:
            raise _NoHeadError(f"{count} rows of {width} columns")
        decoded = self.columns.take(rows, 2, 0, BOX)
        boxes, decoder, scale = self._coded_boxes(decoded)
        ways = [] if decoder is not None else list(self._ways(decoded))
        queries = are_queries(ways)
        first = BOX + self._is_sure(rows)
        scored = [
            part
            for part in segments(self.graph, rows)
            if part.begin >= first
            and (self._is_scored(part) or self._shares(part, decoder, queries=queries))
        ]
        if not scored or scored[0].begin != first:
            chosen = is_chosen(graph, rows)
            raise _NoHeadError(_UNKNOWN_CHOICE if chosen else _NO_SCORE)
        joint = scored[:1]
        for part in scored[1:]:
            joint += [part] if part.begin == joint[-1].end else []
        end = joint[-1].end
        begin, objectness, root = first, None, False
        shared = self._shares(scored[0], decoder, queries=queries)
        product = product_of(self.columns, self.columns.take(rows, 2, begin, end - begin))
        if shared is not None:
            scores, end = shared, scored[0].end
        elif product is not None:
            scores, objectness, root = product.classes, product.objectness, product.root
        else:
            if first == BOX and self._has_objectness(decoder, joint):
                objectness = self._score(rows, BOX, 1)
                begin += 1
            scores = self._score(rows, begin, end - begin)
        points, masks = self._beside(rows, end, decoder)
        if decoder is None:
            coding, anchors, exponent = _plain(ways), None, 1.0
        else:
            coding, exponent = decoder.coding, decoder.exponent
            anchors = decoder.anchors
        alone = points is None and masks is None
        y_first = alone and not queries and self._is_y_first(decoded, decoder)
        if anchors is not None:
            x_first = anchors[:, [1, 0, 3, 2, 5, 4]] if y_first else anchors
            anchors = x_first * np.resize(np.array(scale, np.float32), ANCHOR)
            if any(graph.type(node.outputs[0]).is_quantized for node in last_nodes(graph, boxes)):
                anchors = self._straightened(anchors, decoder, scores)
        if decoder is not None:
            boxes = activated(self.columns, boxes, decoder.sigmoids)
        elif queries:
            boxes = on_host(graph, boxes)
        return Head(
            self.size, boxes, coding, exponent, anchors, scale, scores, objectness,
            logits=shared is None, background=int(shared is not None and not queries), root=root,
            points=points, masks=masks, once=once or queries, y_first=y_first,
        )  # fmt: skip

    def _straightened(self, anchors: Floats, decoder: Decoder | None, scores: str) -> Floats:
        """Anchors of a quantized model where cells are; sigmoids reach as far to all sides."""
        levels = grids(self.graph, scores) or []
        half = 0.5 if decoder is not None and decoder.sigmoids else 0.0
        moved = anchors.copy()
        moved[:, CENTRE] += half * moved[:, UNIT]
        moved = straightened(moved, levels, self.size)
        moved[:, CENTRE] -= half * moved[:, UNIT]
        return moved

    # --- rows ---

    def _has_objectness(self, decoder: Decoder | None, scored: Sequence[Region]) -> bool:
        """Whether the first score is that of being any object.

        YOLOs with anchors have one, before the classes. Where a coding is that of others, too, the
        parts that are computed on their own say it.

        Args:
            decoder: how boxes are encoded; None if nobody knows.
            scored: the scores by what computes them.

        Raises:
            _NoHeadError: nothing says it.
        """
        if self.objectness:
            return True
        one = len(scored) == 1
        if self.apart or (one and scored[0].size == 1):
            return False
        coding = None if decoder is None else decoder.coding
        first = scored[0].size == 1 and len(scored) == 2
        if coding is BoxCoding.SQUARES or (decoder is not None and decoder.sigmoids):
            known = one or first
        elif coding is BoxCoding.EXPONENTIAL:
            known = first or (one and self._begins_with_one(scored[0]))
        elif one:
            return False
        else:
            known = False
        if not known:
            sizes = " and ".join(str(part.size) for part in scored)
            raise _NoHeadError(f"nothing says which of its {sizes} scores are those of classes")
        return True

    def _begins_with_one(self, part: Region) -> bool:
        """Whether a sigmoid takes scores whose first is computed on its own, and no others are."""
        inner = boundaries(self.graph, part.name, part.axis, through_sigmoids=True)
        return {at for at in inner if part.begin < at < part.end} == {part.begin + 1}

    def _is_scored(self, part: Region) -> bool:
        """Whether some columns are scores of classes, or products of them with an objectness."""
        if is_score(self.columns, part):
            return True
        name = self.columns.take(part.name, part.axis, part.begin, part.size)
        return product_of(self.columns, name) is not None

    def _shares(self, part: Region, decoder: Decoder | None, *, queries: bool) -> str | None:
        """Scores of classes that share one probability.

        The first class of SSDs, whose boxes are relative to anchors, stands for no object. Queries
        have that class last.

        Args:
            part: the columns that may be such scores.
            decoder: how boxes are encoded.
            queries: whether boxes are those of queries.

        Returns:
            The scores [1,n,c], for queries without the class for no object; None for others.
        """
        if queries:
            return shared_scores(self.columns, part)
        if decoder is None or not is_shared(self.columns, part):
            return None
        return self.columns.take(part.name, part.axis, part.begin, part.size)

    def _is_sure(self, rows: str) -> bool:
        """Whether the objectness is always one, as YOLOv6 has it."""
        value = self.graph.value(self.columns.take(rows, 2, BOX, 1))
        return value.data is not None and np.allclose(reals(value.data, value.type), 1, atol=0.01)

    def _before_choice(self) -> str | None:
        """All rows of a model that gives its best ones, joined again; None if it does not.

        Such a model ends in boxes, their scores, classes and whatever is beside boxes.
        """
        graph, node = self.graph, self.graph.producer(self.name)
        if node is None or not isinstance(node.attributes, ConcatenationAttributes):
            return None
        parts = [str(name) for name in node.inputs]
        if [graph.type(name).shape[-1] for name in parts[:3]] != [BOX, 1, 1]:
            return None
        boxes = self._gathered(parts[0])
        scores = self._ranked(boxes, parts[1])
        if boxes is None or scores is None:
            return None
        if not self._is_ranked_by_box(scores) and not self._chooses(boxes, scores, *parts[:2]):
            return None
        beside = [self._gathered(name) for name in parts[3:]]
        every = [boxes, scores, *(name for name in beside if name is not None)]
        return self.columns.joined(every, 2) if None not in beside else None

    def _gathered(self, name: str) -> str | None:
        """The rows [1,n,c] that some are chosen from, with as many columns.

        They are chosen one by one, or, of a flat tensor, number by number.
        """
        width, node = self.graph.type(name).shape[-1], self.graph.producer(name)
        found, chosen = None, False
        while node is not None and node.op in ("gather", "gather_nd", "reshape"):
            chosen |= node.op != "reshape"
            name = str(node.inputs[0])
            type = self.graph.type(name)
            if chosen and type.shape[-1:] == (width,) and type.size >= _LEAST_ROWS * width:
                found = name
            node = self.graph.producer(name)
        if found is None:
            return None
        return self.columns.reshaped(found, (1, self.graph.type(found).size // width, width))

    def _is_ranked_by_box(self, scores: str) -> bool:
        """Whether the best score of each box is compared, and not all scores of all."""
        return any(node.op == "reduce_max" for node in self.graph.consumers(scores))

    def _chooses(self, rows: str, scores: str, chosen: str, best: str) -> bool:
        """Whether what is chosen are boxes with scores of their own, by an example.

        Args:
            rows: all boxes [1,n,c].
            scores: all scores [1,n,k].
            chosen: the chosen boxes [1,m,c].
            best: their scores [1,m,1].
        """
        graph = self.graph
        node = graph.producer(rows)
        if node is not None and node.op == "reshape" and not graph.consumers(rows):
            rows = str(node.inputs[0])
        part = in_real_numbers(graph.between([rows, scores], [chosen, best]))
        if set(part.inputs) != {rows, scores}:
            return False
        _, count, classes = graph.type(scores).shape
        shape, numbers = graph.type(rows).shape, np.arange(count, dtype=np.float32)
        every = np.random.default_rng(0).permutation(count * classes).astype(np.float32)
        given: dict[str, Floats] = {
            rows: np.repeat(numbers, graph.type(rows).size // count).reshape(shape),
            scores: every.reshape(1, count, classes) / np.float32(every.size),
        }
        try:
            found = evaluate(part, {name: given[name] for name in part.inputs})
        except UsageError:
            # It reads boxes that are not there.
            return False
        places = found[chosen][0, :, 0].astype(np.intp)
        return bool((given[scores][0, places] == found[best][0]).any(axis=1).all())

    def _ranked(self, boxes: str | None, name: str) -> str | None:
        """The scores [1,n,c] of rows whose best are chosen."""
        if boxes is None:
            return None
        count = self.graph.type(boxes).shape[1]
        pending, seen = [name], set()
        while pending:
            node = self.graph.producer(pending.pop())
            if node is None or node.name in seen:
                continue
            seen.add(node.name)
            read = str(node.inputs[0])
            if node.op in ("reduce_max", "top_k"):
                found = self._rows_of(read, count)
                if found is not None:
                    return found
            pending += [item for item in node.inputs if item is not None]
        return None

    def _rows_of(self, name: str, count: int) -> str | None:
        """A value as so many rows [1,n,c], also if all of them are one before."""
        node = self.graph.producer(name)
        before = [str(node.inputs[0])] if node is not None and node.op == "reshape" else []
        for one in (name, *before):
            type = self.graph.type(one)
            if type.rank == 3 and type.shape[1] == count:
                return one
        return None

    # --- boxes ---

    def _coded_boxes(self, decoded: str) -> tuple[str, Decoder | None, tuple[float, float]]:
        """Encoded boxes [1,n,4], how they are encoded, and pixels of a unit of x and y."""
        for names in ([decoded], self._levels(decoded)):
            found = [self._level(name) for name in names]
            decoders = [decoder for _, decoder in found if decoder is not None]
            kinds = {decoder.kind for decoder in decoders}
            if len(decoders) == len(names) and len(kinds) == 1:
                anchors = np.concatenate([decoder.anchors for decoder in decoders])
                if not anchors[:, CENTRE].any():
                    # Boxes that are only stretched have been decoded before.
                    continue
                first = decoders[0]
                joint = replace(first, anchors=anchors)
                boxes = self.columns.joined([name for name, _ in found], 1)
                return boxes, joint, self._scale(float(np.abs(anchors[:, CENTRE]).max()))
        return decoded, None, self._scale(self._reach(decoded))

    def _levels(self, boxes: str) -> list[str]:
        """The boxes [1,n,4] that are joined."""
        node = self.graph.producer(boxes)
        if node is None or not isinstance(node.attributes, ConcatenationAttributes):
            return [boxes]
        return [str(name) for name in node.inputs] if node.attributes.axis == 1 else [boxes]

    def _level(self, decoded: str) -> tuple[str, Decoder | None]:
        """The earliest encoded boxes [1,n,4] that a known coding fits, and that."""
        result: tuple[str, Decoder | None] = (decoded, None)
        for probe in self._ways(decoded):
            decoder = decoder_of(probe)
            if decoder is not None:
                result = self._read(probe, self.graph.type(decoded).shape[1]), decoder
        return result

    def _read(self, probe: Probe, count: int) -> str:
        """What a probe decodes as rows [1,n,c], in the order of decoded ones."""
        region = probe.region
        name = self.columns.take(region.name, region.axis, region.begin, region.size)
        type, perm = self.graph.type(name), (*probe.order, region.axis)
        moved = [axis for axis in perm if type.shape[axis] > 1]
        if moved != sorted(moved):
            name = self.columns.transposed(name, perm)
        return self.columns.reshaped(name, (1, count, type.size // count))

    def _ways(self, decoded: str) -> Iterator[Probe]:
        """Ways from four numbers to decoded boxes, the shortest first."""
        every = probes(self.graph, decoded, source_of)
        return (probe for probe in every if probe.region.size == BOX)

    def _is_y_first(self, decoded: str, decoder: Decoder | None) -> bool:
        """Whether boxes have y before x, as those of TensorFlow do.

        Boxes come from cells row by row. So centres go from end to end of x in each row, and once
        from end to end of y.
        """
        if decoder is not None:
            centres = decoder.anchors[:, CENTRE]
        else:
            *_, longest = self._ways(decoded)
            zero = longest.constant(0)
            centres = zero[:, :2] + zero[:, 2:] if gives_corners(longest) else zero[:, :2]
        first, second = np.abs(np.diff(centres, axis=0)).sum(axis=0)
        return bool(first < second)

    def _reach(self, decoded: str) -> float:
        """A usual coordinate of decoded boxes."""
        # The last steps of a decoder, such as joining centres and sizes, say nothing of units.
        reaches = (float(np.abs(probe.answers).max()) for probe in self._ways(decoded))
        return max(reaches, default=0.0)

    def _scale(self, reach: float) -> tuple[float, float]:
        width, height = self.size
        return (float(width), float(height)) if reach < _PARTS else (1.0, 1.0)

    # --- scores, keypoints and masks ---

    def _score(self, rows: str, begin: int, size: int) -> str:
        """Logits of some scores."""
        name = self.columns.take(rows, 2, begin, size)
        logits = without_sigmoid(self.columns, name)
        if logits is None:
            raise _NoHeadError(f"columns from {begin} are no scores: no sigmoid computes them")
        return logits

    def _beside(
        self, rows: str, begin: int, decoder: Decoder | None
    ) -> tuple[Points | None, Masks | None]:
        """What the columns after the scores mean.

        Raises:
            _NoHeadError: nothing that is known.
        """
        width = self.graph.type(rows).shape[2] - begin
        if not width:
            return None, None
        part = self.columns.take(rows, 2, begin, width)
        prototypes = self._prototypes(width)
        if prototypes is not None:
            return None, Masks(part, prototypes)
        points = None if decoder is None else self._points(part, decoder)
        if points is None and width == 1:
            raise _NoHeadError(
                "boxes are rotated: the column after the scores has their angles, for which a list "
                "of objects has no place"
            )
        if points is None:
            raise _NoHeadError(
                f"{width} columns after the scores are neither keypoints nor weights of masks"
            )
        return points, None

    def _prototypes(self, channels: int) -> str | None:
        """Another output that has masks of so many prototypes [1,h,w,m]."""
        for name in self.graph.outputs:
            shape = self.graph.type(name).shape
            if len(shape) == 4 and shape[1] == channels and shape[3] != channels:
                return self.columns.transposed(name, (0, 2, 3, 1))
            if len(shape) == 4 and shape[3] == channels:
                return name
        return None

    def _points(self, part: str, decoder: Decoder) -> Points | None:
        """Keypoints relative to the anchors of boxes."""
        result = None
        count = self.graph.type(part).shape[1]
        for probe in probes(self.graph, part, source_of):
            rounded = self.graph.type(probe.region.name).is_quantized
            fitted = _fitted_points(probe, decoder, rounded=rounded)
            if fitted is not None:
                result = Points(self._read(probe, count), *fitted)
        return result


def _plain(ways: Sequence[Probe]) -> BoxCoding:
    """What decoded boxes are, by trying the decoder.

    Args:
        ways: ways from four numbers to the boxes.

    Raises:
        _NoHeadError: there are none.
    """
    # The last steps of a decoder may be the same for corners as for centres.
    if any(gives_corners(probe) for probe in ways):
        return BoxCoding.CORNERS
    if ways:
        return BoxCoding.CENTRES
    raise _NoHeadError("boxes are not decoded: nothing says where their anchors are")


def _fitted_points(
    probe: Probe, decoder: Decoder, *, rounded: bool
) -> tuple[float, float, bool] | None:
    """Scale and offset of keypoints, and whether they have a third number.

    Args:
        probe: how they are decoded.
        decoder: how boxes are.
        rounded: whether constants of the model are those of 8 bits.
    """
    centre, unit = decoder.anchors[:, CENTRE], decoder.anchors[:, UNIT]
    zero, one = probe.constant(0), probe.constant(1)
    width = zero.shape[1]
    origin, step = zero[:, :2], one[:, :2] - zero[:, :2]
    for point in (3, 2):
        if width % point:
            continue
        rows = probe.random.reshape(len(zero), -1, point)
        places = origin[:, None] + rows[..., :2] * step[:, None]
        mine = np.concatenate([places, sigmoid(rows[..., 2:])], axis=2).reshape(len(zero), -1)
        if not np.allclose(mine, probe.answers, rtol=1e-3, atol=1e-3):
            continue
        with np.errstate(all="ignore"):
            offsets, scales = (origin - centre) / unit, step / unit
        offset, scale = (_number(of, rounded=rounded) for of in (offsets, scales))
        if offset is not None and scale is not None:
            return scale, offset, point == 3
    return None


def _number(found: Floats, *, rounded: bool) -> float | None:
    """The number that all of some are; None if they are not the same."""
    middle = float(np.median(found))
    if not rounded:
        middle = round(middle, 4)
        return middle if np.allclose(found, middle, rtol=1e-3, atol=1e-3) else None
    # Each keypoint's own constants are of 8 bits: halves can be told apart.
    nearest = round(2 * middle) / 2
    return nearest if np.abs(found - nearest).max() < _NEAR else None

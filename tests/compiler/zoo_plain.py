"""Graphs of one operator each, for operators on plain numbers, truth values and places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tests.compiler.zoo import F32, I8, I32, U8, Zoo, single, tensor

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import NO_ATTRIBUTES, Attributes, Graph, Node, Value
from fitzroy.compiler.ops import (
    arithmetic,
    arrangement,
    indexing,
    normalization,
    pooling,
    reduction,
    shape,
    spectral,
    suppression,
)
from fitzroy.compiler.ops.windows import Activation, PaddingScheme

I16, I64, BOOL, F64, U32 = DType.INT16, DType.INT64, DType.BOOL, DType.FLOAT64, DType.UINT32
Pairs = Iterator[tuple[str, Graph]]
Operands = list[TensorType | Array | None]

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((1, 3, 1), (2, 1, 4)), ((5,), ()),
]  # fmt: skip


def zoo_plain(seed: int = 0) -> Zoo:
    """All graphs by a readable name that begins with the operator's."""
    rng = np.random.default_rng(seed)
    found: Zoo = {}
    for family in (_comparisons, _arithmetic, _unary, _reductions, _movers, _blocks, _places,
                   _segments, _made, _images, _boxes):  # fmt: skip
        for name, graph in family(rng):
            assert name not in found
            found[name] = graph
    return found


def _wide(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(a, b)


def several(
    op: str, inputs: Operands, outputs: list[TensorType], attributes: Attributes = NO_ATTRIBUTES
) -> Graph:
    """A graph of one node with several results."""
    graph = single(op, inputs, outputs[0], attributes)
    (node,) = graph.nodes()
    graph.remove(node.name)
    names = [*node.outputs, *(f"y{index}" for index in range(1, len(outputs)))]
    for name, type in zip(names[1:], outputs[1:], strict=True):
        graph.add_value(Value(name, type))
    graph.add_node(Node(node.name, op, node.inputs, tuple(names), attributes))
    graph.outputs = names
    return graph


def merged(graphs: Zoo) -> Graph:
    """One graph that computes all of them; names are prefixed by those of the graphs."""
    whole = Graph("merged")
    for prefix, graph in graphs.items():
        for value in graph.values.values():
            named = replace(value, name=f"{prefix}/{value.name}")
            if value.name in graph.inputs:
                whole.add_input(named.name, named.type)
            else:
                whole.add_value(named)
        for node in graph.nodes():
            inputs = tuple(None if name is None else f"{prefix}/{name}" for name in node.inputs)
            outputs = tuple(f"{prefix}/{name}" for name in node.outputs)
            moved = replace(node, name=f"{prefix}/{node.name}", inputs=inputs, outputs=outputs)
            whole.add_node(moved)
        whole.outputs += [f"{prefix}/{name}" for name in graph.outputs]
    return whole


def _comparisons(rng: np.random.Generator) -> Pairs:
    for op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        booleans = (BOOL,) if op in ("equal", "not_equal") else ()
        for dtype in (F32, I32, I64, I8, U8, *booleans):
            for index, (a, b) in enumerate(SHAPES):
                x, y = tensor(a, dtype, 0.05), tensor(b, dtype, 0.05 if index else 0.07)
                out = TensorType(_wide(a, b), BOOL)
                yield f"{op}-{dtype.value}-{index}", single(op, [x, y], out)
    for op in ("logical_and", "logical_or"):
        for index, (a, b) in enumerate(SHAPES):
            x, y = TensorType(a, BOOL), TensorType(b, BOOL)
            yield f"{op}-{index}", single(op, [x, y], TensorType(_wide(a, b), BOOL))
    flags = TensorType((2, 5), BOOL)
    yield "logical_not-bool", single("logical_not", [flags], flags)
    for dtype in (F32, I32, I64, I8, U8, I16, BOOL):
        for index, (a, b) in enumerate(SHAPES):
            x, y = (TensorType(s, BOOL) if dtype is BOOL else tensor(s, dtype) for s in (a, b))
            out = x.with_shape(_wide(a, b))
            condition = TensorType(a, BOOL)
            yield f"select-{dtype.value}-{index}", single("select", [condition, x, y], out)
    mask = rng.integers(0, 2, (3, 4)).astype(bool)
    yield "where-bool", single("where", [mask], TensorType((int(mask.sum()), 2), I64))


def _arithmetic(rng: np.random.Generator) -> Pairs:
    kinds = {
        "floor_div": (F32, I32, I16, I8),
        "floor_mod": (F32, I32, I64, I16, I8),
        "pow": (F32, I32),
        "atan2": (F32, F64),
        "bitwise_xor": (I8, U8, I16, I32, U32),
        "right_shift": (I8, U8, I16, I32),
    }
    for op, dtypes in kinds.items():
        for dtype in dtypes:
            # TFLite's ATAN2 does not broadcast.
            for index, (a, b) in enumerate(SHAPES[: 1 if op == "atan2" else None]):
                types: Operands = [TensorType(a, dtype), TensorType(b, dtype)]
                out = TensorType(_wide(a, b), dtype)
                yield f"{op}-{dtype.value}-{index}", single(op, types, out)
    for dtype in (F32, I32):
        x = TensorType((2, 3), dtype)
        yield f"add_n-{dtype.value}", single("add_n", [x, x, x], x)
    for dtype in (F32, I32, I64):
        x = TensorType((2, 3, 4), dtype)
        yield f"zeros_like-{dtype.value}", single("zeros_like", [x], x)
        for axis in range(3):
            running = arithmetic.CumsumAttributes(axis, axis != 1, axis > 0)
            yield f"cumsum-{dtype.value}-{axis}", single("cumsum", [x], x, running)
    for before, after, extents in ((F32, I32, (2, 4)), (I32, F32, (2, 4)), (I8, U8, (2, 4)),
                               (I32, U8, (2, 4, 4)), (I16, I8, (2, 4, 2))):  # fmt: skip
        x, y = TensorType((2, 4), before), TensorType(extents, after)
        yield f"bitcast-{before.value}-{after.value}", single("bitcast", [x], y)
    x = TensorType((3, 7), F32)
    for index, a_fake in enumerate(
        (arithmetic.FakeQuantAttributes(-1.0, 1.5), arithmetic.FakeQuantAttributes(0.0, 2.0, 4))
    ):
        yield f"fake_quant-{index}", single("fake_quant", [x], x, a_fake)
    a_bucket = arithmetic.BucketizeAttributes((-0.5, 0.0, 0.25, 1.0))
    for dtype in (F32, I32, I64):
        x = TensorType((3, 7), dtype)
        yield (
            f"bucketize-{dtype.value}",
            single("bucketize", [x], TensorType((3, 7), I32), a_bucket),
        )


def _unary(rng: np.random.Generator) -> Pairs:
    for dtype in (F32, F64, I32):
        x = TensorType((3, 5), dtype)
        yield f"sign-{dtype.value}", single("sign", [x], x)
    x = TensorType((3, 50), F32)
    yield "round-float32", single("round", [x], x)


def _reductions(rng: np.random.Generator) -> Pairs:
    for axes, keep, out in (
        ((1, 2), False, (2, 3)),
        ((0,), True, (1, 4, 5, 3)),
        ((3,), False, (2, 4, 5)),
    ):
        a = reduction.ReductionAttributes(axes, keep)
        for dtype in (F32, I32, I64):
            x = TensorType((2, 4, 5, 3), dtype)
            yield (
                f"reduce_prod-{dtype.value}-{axes}",
                single("reduce_prod", [x], TensorType(out, dtype), a),
            )
        for op in ("reduce_any", "reduce_all"):
            x = TensorType((2, 4, 5, 3), BOOL)
            yield f"{op}-{axes}", single(op, [x], TensorType(out, BOOL), a)


def _plain(dtype: DType, *extents: int) -> TensorType:
    """8-bit tensors are quantized, as movers have them."""
    return tensor(extents, dtype)


def _movers(rng: np.random.Generator) -> Pairs:
    for dtype in (F32, I8, U8, I32, I64, I16):
        kind, x = dtype.value, _plain(dtype, 2, 3, 4)
        if dtype is not I16:
            a_tile = arrangement.TileAttributes((2, 1, 3))
            yield f"tile-{kind}", single("tile", [x], x.with_shape((4, 3, 12)), a_tile)
        y = _plain(dtype, 3, 1)
        to = shape.ReshapeAttributes((2, 3, 4))
        yield f"broadcast_to-{kind}", single("broadcast_to", [y], x, to)
        for axes in ((1,), (0,), (2,), (1, 2)):
            a_reverse = arrangement.ReverseAttributes(axes)
            yield f"reverse-{kind}-{axes}", single("reverse", [x], x, a_reverse)
        if dtype is not I8:
            lengths = np.array([3, 1, 2], np.int32)
            a_sequence = arrangement.ReverseSequenceAttributes(2, 1)
            yield (
                f"reverse_sequence-{kind}",
                single("reverse_sequence", [x, lengths], x, a_sequence),
            )
        if dtype is not I16:
            for symmetric in (False, True):
                a_mirror = arrangement.MirrorPadAttributes((1, 0, 2), (0, 2, 3), symmetric)
                out = x.with_shape((3, 5, 9))
                yield f"mirror_pad-{kind}-{symmetric}", single("mirror_pad", [x], out, a_mirror)


def _blocks(rng: np.random.Generator) -> Pairs:
    for dtype in (F32, I8, U8, I32, I64):
        kind = dtype.value
        x, y = _plain(dtype, 2, 3, 5, 2), _plain(dtype, 12, 2, 2, 2)
        a = arrangement.BatchBlockAttributes((2, 3), (0, 1), (1, 0))
        yield f"space_to_batch-{kind}", single("space_to_batch", [x], y, a)
        yield f"batch_to_space-{kind}", single("batch_to_space", [y], x, a)
    for dtype in (F32, I32, I64, I16, I8, U8):
        x = TensorType((2, 3), dtype)
        yield f"matrix_diag-{dtype.value}", single("matrix_diag", [x], TensorType((2, 3, 3), dtype))
        whole = TensorType((2, 3, 4), dtype)
        yield f"matrix_set_diag-{dtype.value}", single("matrix_set_diag", [whole, x], whole)
    for dtype in (F32, I32, I64, I8):
        x, value = TensorType((2, 3), dtype), np.array(7, dtype.numpy)
        a_dilate = arrangement.DilateAttributes((3, 2))
        out = TensorType((4, 5), dtype)
        yield f"dilate-{dtype.value}", single("dilate", [x, value], out, a_dilate)


def _places(rng: np.random.Generator) -> Pairs:
    for dtype in (F32, I8, U8, I32, I64, I16, BOOL):
        kind = dtype.value
        x = TensorType((3, 4, 5), dtype) if dtype is BOOL else _plain(dtype, 3, 4, 5)
        for index_type, depth in ((np.int32, 2), (np.int64, 3), (np.int32, 1)):
            places = rng.integers(0, 3, (2, 6, depth)).astype(index_type)
            out = x.with_shape((2, 6, *(3, 4, 5)[depth:]))
            yield f"gather_nd-{kind}-{depth}", single("gather_nd", [x, places], out)
    for dtype in (F32, I8, U8, I32, I64, BOOL):
        updates = TensorType((6, 5), dtype)
        places = rng.integers(0, 3, (6, 2)).astype(np.int32)
        to = shape.ReshapeAttributes((3, 4, 5))
        out = TensorType((3, 4, 5), dtype)
        yield f"scatter_nd-{dtype.value}", single("scatter_nd", [places, updates], out, to)
    for dtype in (F32, I8, U8, I32, I64, I16):
        x = _plain(dtype, 3, 9)
        results = [x.with_shape((3, 4)), TensorType((3, 4), I32)]
        yield f"top_k-{dtype.value}", several("top_k", [x], results, indexing.TopKAttributes(4))
    for dtype in (F32, I32, I64, I8, U8, BOOL):
        on, off = np.array(1, dtype.numpy), np.array(0, dtype.numpy)
        places = rng.integers(-1, 5, (2, 3)).astype(np.int32)
        for axis, extents in ((2, (2, 3, 5)), (0, (5, 2, 3)), (1, (2, 5, 3))):
            a_hot = indexing.OneHotAttributes(axis, 5)
            result = TensorType(extents, dtype)
            yield (
                f"one_hot-{dtype.value}-{axis}",
                single("one_hot", [places, on, off], result, a_hot),
            )
    for dtype in (F32, I32, I64, I8, U8):
        places = np.array([[0, 1], [1, 0], [2, 3]], np.int32)
        to = shape.ReshapeAttributes((3, 4))
        operands: Operands = [places, TensorType((3,), dtype), np.array(5, dtype.numpy)]
        yield (
            f"sparse_to_dense-{dtype.value}",
            single("sparse_to_dense", operands, TensorType((3, 4), dtype), to),
        )
    for dtype in (F32, I8, U8):
        rows, chosen = _plain(dtype, 6, 4), np.array([5, 0, 2, 2], np.int32)
        yield (
            f"embedding_lookup-{dtype.value}",
            single("embedding_lookup", [chosen, rows], rows.with_shape((4, 4))),
        )
    for dtype in (F32, I8, I32, I64, BOOL):
        x = TensorType((4, 5), dtype)
        start = np.array([1, 4], np.int32)
        operands = [x, TensorType((2, 3), dtype), start]
        yield f"dynamic_update_slice-{dtype.value}", single("dynamic_update_slice", operands, x)
    x, places = TensorType((2, 5, 3), F32), np.array([[1, 0], [4, 4]], np.int32)
    a_gather = shape.GatherAttributes(1, 1)
    yield "gather-batch", single("gather", [x, places], x.with_shape((2, 2, 3)), a_gather)


def _segments(rng: np.random.Generator) -> Pairs:
    numbers = np.array([0, 0, 1, 2, 2], np.int32)
    for dtype in (F32, I32):
        x = TensorType((5, 3), dtype)
        yield (
            f"segment_sum-{dtype.value}",
            single("segment_sum", [x, numbers], TensorType((3, 3), dtype)),
        )
        mixed = np.array([3, 0, 1, 0, 3], np.int32)
        for op in ("sum", "prod", "max", "min"):
            yield (
                f"unsorted_segment_{op}-{dtype.value}",
                single(
                    f"unsorted_segment_{op}",
                    [x, mixed],
                    TensorType((5, 3), dtype),
                    indexing.SegmentAttributes(5),
                ),
            )


def _made(rng: np.random.Generator) -> Pairs:
    for dtype in (F32, I32, I64, BOOL, I8):
        value = TensorType((), dtype)
        to = shape.ReshapeAttributes((2, 3))
        yield f"fill-{dtype.value}", single("fill", [value], TensorType((2, 3), dtype), to)
    for start, limit, delta in ((0, 7, 2), (5, -3, -3), (1, 3, 1)):
        for dtype in (F32, I32, I64):
            scalars: Operands = [np.array(n, dtype.numpy) for n in (start, limit, delta)]
            out = TensorType((len(range(start, limit, delta)),), dtype)
            yield f"range-{dtype.value}-{start}", single("range", scalars, out)
    x = TensorType((2, 3, 4), F32)
    for dtype in (I32, I64):
        yield f"shape-{dtype.value}", single("shape", [x], TensorType((3,), dtype))
    yield "rank-float32", single("rank", [x], TensorType((), I32))
    for dtype in (I32, I64):
        a, b = np.array([1, 3, 1], dtype.numpy), np.array([2, 1, 1], dtype.numpy)
        yield (
            f"broadcast_args-{dtype.value}",
            single("broadcast_args", [a, b], TensorType((3,), dtype)),
        )


def _images(rng: np.random.Generator) -> Pairs:
    x = TensorType((2, 6, 7, 5), F32)
    for scheme in PaddingScheme:
        extent = (3, 4) if scheme is PaddingScheme.SAME else (2, 3)
        a_pool = pooling.PoolAttributes((3, 3), (2, 2), scheme, Activation.NONE)
        out = x.with_shape((2, *extent, 5))
        yield f"l2_pool_2d-{scheme.value}", single("l2_pool_2d", [x], out, a_pool)
    a_local = normalization.ResponseAttributes(2, 1.5, 0.7, 0.6)
    name = "local_response_normalization"
    yield f"{name}-float32", single(name, [x], x, a_local)
    a_fourier = spectral.FourierAttributes((8, 4))
    for extents in ((3, 6, 7), (2, 2, 8, 4), (3, 5)):
        half = TensorType((*extents[:-2], 8, 3), DType.COMPLEX64)
        graph = single("rfft2d", [TensorType(extents, F32)], half, a_fourier)
        for op in ("real", "imaginary", "complex_abs"):
            graph.outputs.append(graph.emit(op, ["y"], TensorType(half.shape, F32)))
        yield f"rfft2d-{len(extents)}", graph
    for extents, columns in (((3, 1, 8), 8), ((2, 3, 6), 8), ((2, 1, 9), 8)):
        half = TensorType((extents[0], 1, columns // 2 + 1), DType.COMPLEX64)
        a_row = spectral.FourierAttributes((1, columns))
        graph = single("rfft2d", [TensorType(extents, F32)], half, a_row)
        flat = TensorType((extents[0], columns // 2 + 1), F32)
        view = TensorType(flat.shape, DType.COMPLEX64)
        spectrum = graph.emit("reshape", ["y"], view, shape.ReshapeAttributes(flat.shape))
        graph.outputs = [
            graph.emit(op, [spectrum], flat) for op in ("real", "imaginary", "complex_abs", "cast")
        ]
        yield f"rfft2d-row{extents[2]}", graph
    grid = TensorType((5, 4), F32)
    for rank, places in ((0, np.array(3)), (2, rng.integers(0, 4, (2, 3)))):
        out = grid.with_shape((5, *places.shape))
        a_grid = shape.GatherAttributes(1)
        yield f"gather-rank{rank}", single("gather", [grid, places.astype(np.int32)], out, a_grid)


def _boxes(rng: np.random.Generator) -> Pairs:
    boxes, scores = TensorType((40, 4), F32), TensorType((40,), F32)
    count = TensorType((), I32)
    for most, overlap, score in ((10, 0.5, 0.0), (60, 0.3, -0.5)):
        a = suppression.SuppressionAttributes(most, overlap, score)
        rows, kept = TensorType((most,), I32), TensorType((most,), F32)
        name = f"non_max_suppression-{most}"
        yield name, several("non_max_suppression", [boxes, scores], [rows, count], a)
        for sigma in (0.0, 0.4):
            soft = suppression.SuppressionAttributes(most, overlap, score, sigma)
            yield (
                f"soft_{name}-{sigma}",
                several("soft_non_max_suppression", [boxes, scores], [rows, kept, count], soft),
            )


def plain_inputs(graph: Graph, rng: np.random.Generator) -> dict[str, Array]:
    """Arrays for all inputs; divisors and exponents are such as the operators take."""
    arrays: dict[str, Array] = {}
    for index, name in enumerate(graph.inputs):
        type = graph.type(name)
        if type.dtype is BOOL:
            arrays[name] = rng.integers(0, 2, type.shape).astype(bool)
        elif type.dtype.is_float:
            array = rng.standard_normal(type.shape).astype(type.dtype.numpy)
            arrays[name] = np.abs(array) if graph.name == "pow" and not index else array
        else:
            arrays[name] = rng.integers(*_span(graph.name, type, index), type.shape).astype(
                type.dtype.numpy
            )
            if graph.name.startswith("floor_") and index:
                arrays[name][arrays[name] == 0] = 3
    return arrays


def _span(op: str, type: TensorType, index: int) -> tuple[int, int]:
    low, high = type.dtype.limits
    if op == "pow":
        return (-5, 6) if not index else (0, 5)
    if op == "right_shift" and index:
        return 0, 8 * type.dtype.itemsize
    if type.is_quantized or op in ("bitwise_xor", "right_shift", "bitcast"):
        return low, high
    return max(low, -9), min(high, 10)

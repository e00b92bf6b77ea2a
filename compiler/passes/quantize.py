"""Post-training quantization: a float32 graph becomes an int8 graph with the same meaning.

Facts: TensorFlow Lite's 8-bit quantization specification. Activations are int8 with one scale and
zero point per tensor, and their range contains 0; filters are int8 with one scale per output
channel, zero point 0, and values in [-127, 127]; biases are int32 with the scale of the input
times that of the filter. Operators that copy elements have one quantization for all operands and
results, and some functions have a result quantization that the specification fixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph, Node, Value, unused_name
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.hw_models import numerics

Range = tuple[float, float]
Key = str | tuple[str, int]
"""An activation: the name of a value, or node and operand index of one use of a constant."""


@dataclass(frozen=True, slots=True)
class QuantizationRule:
    """How the specification quantizes an operator.

    Attributes:
        shared: whether all operands and results have one quantization.
        result: the quantization that the specification fixes for the result.
        saturating: whether an operand that nothing else reads may saturate where the result
            does, so that its own range does not count.
    """

    shared: bool = False
    result: Quantization | None = None
    saturating: bool = False


_FREE = QuantizationRule()
_SHARED = QuantizationRule(shared=True)
_PROBABILITY = QuantizationRule(result=Quantization.per_tensor(1 / 256, -128))
_SIGNED_UNIT = QuantizationRule(result=Quantization.per_tensor(1 / 128, 0))

RULES: dict[str, QuantizationRule] = {
    "abs": _FREE,
    "add": _FREE,
    "arg_max": _FREE,
    "arg_min": _FREE,
    "average_pool_2d": _SHARED,
    "batch_matmul": _FREE,
    "clamp": QuantizationRule(shared=True, saturating=True),
    "concatenation": _SHARED,
    "conv_2d": _FREE,
    "depth_to_space": _SHARED,
    "depthwise_conv_2d": _FREE,
    "div": _FREE,
    "elu": _FREE,
    "exp": _FREE,
    "fully_connected": _FREE,
    "gather": _SHARED,
    "gelu": _FREE,
    "hardswish": _FREE,
    "l2_normalization": _SIGNED_UNIT,
    "leaky_relu": _FREE,
    "log": _FREE,
    "log_softmax": QuantizationRule(result=Quantization.per_tensor(16 / 256, 127)),
    "max_pool_2d": _SHARED,
    "maximum": _SHARED,
    "mean": _FREE,
    "minimum": _SHARED,
    "mul": _FREE,
    "negate": _FREE,
    "pack": _SHARED,
    "pad": _SHARED,
    "prelu": _FREE,
    "reduce_max": _SHARED,
    "reduce_min": _SHARED,
    "reshape": _SHARED,
    "resize_bilinear": _SHARED,
    "resize_nearest_neighbor": _SHARED,
    "rsqrt": _FREE,
    "sigmoid": _PROBABILITY,
    "softmax": _PROBABILITY,
    "space_to_depth": _SHARED,
    "split": _SHARED,
    "sqrt": _FREE,
    "squared_difference": _FREE,
    "strided_slice": _SHARED,
    "sub": _FREE,
    "sum": _FREE,
    "tanh": _SIGNED_UNIT,
    "transpose": _SHARED,
    "transpose_conv": _FREE,
    "unpack": _SHARED,
}
"""Operators that can be quantized. The others have no 8-bit kernel in TFLite."""


def quantize(
    graph: Graph,
    samples: Sequence[Mapping[str, Array]],
    *,
    dtype: DType = DType.INT8,
    io: Literal["integer", "float"] = "integer",
) -> Graph:
    """Quantize a float32 graph.

    The graph is run on the samples by its reference semantics, and the extrema of every
    activation become its range. Values that are not float32, such as indices, stay as they are.

    Args:
        graph: a verified float32 graph.
        samples: representative inputs: one array per graph input, of exactly its type.
        dtype: element type of the activations; the specification has int8 only.
        io: ``integer`` makes the graph's float32 inputs and outputs int8; ``float`` keeps them,
            with conversions inside.

    Returns:
        A verified graph. Inputs, outputs, nodes and activations keep their names.

    Raises:
        UsageError: no samples, samples that do not fit, results that are not finite, or an
            unknown option.
        UnsupportedError: with one diagnostic per node that cannot be quantized.
    """
    if dtype is not DType.INT8:
        raise UsageError(f"activations are quantized to int8, not to {dtype.value}")
    if io not in ("integer", "float"):
        raise UsageError(f"io is 'integer' or 'float', not {io!r}")
    rejects = [reject for node in graph.nodes() for reject in _rejects(graph, node)]
    rejects += [
        _reject(name, "the output is a constant", "remove it from the outputs")
        for name in graph.outputs
        if graph.value(name).is_constant
    ]
    if rejects:
        raise UnsupportedError(
            f"{len(rejects)} obstacles to quantization", rejects=rejects, where=graph.name
        )
    result = _Quantizer(graph, calibrate(graph, samples), dtype).graph()
    if io == "float":
        _keep_float_borders(result, graph)
    verify(result)
    return result


# --- what can be quantized -----------------------------------------------------------------------


def _reject(where: str, what: str, reason: str, hint: str = "") -> Diagnostic:
    return Diagnostic(Severity.ERROR, "quantize", where, what, reason, hint)


def _rejects(graph: Graph, node: Node) -> Iterator[Diagnostic]:
    where = f"{node.op} {node.name!r}"
    for name in (*node.inputs, *node.outputs):
        type = None if name is None else graph.type(name)
        if type is not None and (type.is_quantized or type.dtype in _OTHER_REALS):
            yield _reject(where, f"{name!r} is {type}", "only float32 values can be quantized")
            return
    if not any(_is_real(graph, name) for name in (*node.inputs, *node.outputs)):
        return
    if node.op not in RULES:
        yield _reject(where, "it has no 8-bit form", f"TFLite has no 8-bit kernel for {node.op}")
        return
    if OPS[node.op].channel_axis is None:
        return
    for index, what in ((1, "filter"), (2, "bias")):
        name = node.inputs[index] if index < len(node.inputs) else None
        if name is not None and not graph.value(name).is_constant:
            yield _reject(
                where, f"the {what} is computed at run time", f"{name!r} is not a constant"
            )


_OTHER_REALS = (DType.FLOAT16, DType.FLOAT64)


def _is_real(graph: Graph, name: str | None) -> bool:
    return name is not None and graph.type(name).dtype is DType.FLOAT32


# --- ranges --------------------------------------------------------------------------------------


def calibrate(graph: Graph, samples: Sequence[Mapping[str, Array]]) -> dict[str, Range]:
    """Smallest and largest element of every float32 activation over all samples.

    Fused activations count: ranges are those of the results.

    Args:
        graph: a verified float32 graph.
        samples: one array per graph input each.

    Raises:
        UsageError: there are no samples, one does not fit the inputs, or an activation is not
            finite.
    """
    if not samples:
        raise UsageError("quantization needs at least one sample", where=graph.name)
    ranges: dict[str, Range] = {}
    for number, sample in enumerate(samples):
        for name, array in evaluate(graph, sample, keep=True).items():
            if not _is_real(graph, name) or array.size == 0:
                continue
            low, high = float(array.min()), float(array.max())
            if not np.isfinite(low) or not np.isfinite(high):
                raise UsageError(f"{name!r} is not finite on sample {number}", where=graph.name)
            ranges[name] = _union(ranges.get(name, (low, high)), (low, high))
    return ranges


def _union(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def asymmetric(low: float, high: float, dtype: DType = DType.INT8) -> Quantization:
    """The quantization of an activation with that range, extended to contain 0.

    Args:
        low: smallest real number.
        high: largest real number.
        dtype: an integer type.
    """
    smallest, largest = dtype.limits
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / (largest - smallest))
    if scale < np.finfo(np.float32).tiny:
        return Quantization.per_tensor(1.0, 0)
    zero_point = round(smallest - low / float(scale))
    return Quantization.per_tensor(float(scale), min(max(zero_point, smallest), largest))


# --- parameters ----------------------------------------------------------------------------------

_FILTER_LIMIT = 127
_BIAS_LIMIT = 1 << 30
_SMALLEST_RATIO = 2.0**-24


def filter_quantization(
    data: Array, bias: Array | None, axis: int, input_scale: float, output_scale: float
) -> Quantization:
    """Scales of a filter, one per output channel.

    A channel's scale is its largest magnitude / 127, but at least so large that the bias stays
    below 2**30 and that the factor from accumulator to result is no less than 2**-24, which
    leaves the weights concerned without effect on the result either way.

    Args:
        data: the float32 filter.
        bias: one float32 number per channel, or None.
        axis: the filter's axis of output channels.
        input_scale: scale of the input.
        output_scale: scale of the result.
    """
    others = tuple(i for i in range(data.ndim) if i != axis)
    scale = np.abs(data).max(axis=others, initial=0.0).astype(np.float64) / _FILTER_LIMIT
    scale = np.maximum(scale, output_scale * _SMALLEST_RATIO / input_scale)
    if bias is not None:
        scale = np.maximum(scale, np.abs(bias.reshape(-1)) / (input_scale * _BIAS_LIMIT))
    rounded = scale.astype(np.float32)
    return Quantization(tuple(map(float, rounded)), (0,) * len(rounded), axis)


def _stored_filter(data: Array, quantization: Quantization) -> npt.NDArray[np.int8]:
    scaled = np.rint(data.astype(np.float64) / quantization.scale_array(data.ndim))
    return np.clip(scaled, -_FILTER_LIMIT, _FILTER_LIMIT).astype(np.int8)


# --- activations that share a quantization -------------------------------------------------------


class _Groups:
    """Disjoint sets of activations."""

    def __init__(self) -> None:
        self._parent: dict[Key, Key] = {}

    def find(self, key: Key) -> Key:
        root = key
        while (parent := self._parent.setdefault(root, root)) != root:
            root = parent
        while key != root:
            key, self._parent[key] = self._parent[key], root
        return root

    def join(self, keys: Sequence[Key]) -> None:
        for key in keys[1:]:
            self._parent[self.find(key)] = self.find(keys[0])

    def members(self) -> dict[Key, list[Key]]:
        """All sets by their representative, in order of first mention."""
        result: dict[Key, list[Key]] = {}
        for key in self._parent:
            result.setdefault(self.find(key), []).append(key)
        return result


class _Quantizer:
    """Rebuilds a graph whose nodes all passed `_rejects`."""

    def __init__(self, graph: Graph, ranges: Mapping[str, Range], dtype: DType) -> None:
        self.source, self.dtype = graph, dtype
        self.ranges: dict[Key, Range] = {}
        for name, extent in ranges.items():
            self.ranges[name] = extent
        self.result = Graph(graph.name)
        self.fixed: dict[Key, Quantization] = {}
        self.constants: dict[tuple[str, Quantization], str] = {}
        self.taken = {*graph.values, *(node.name for node in graph.nodes())}
        self.quantizations = self.choose()

    # --- choosing ---

    def activations(self, node: Node) -> tuple[dict[int, Key], list[Key]]:
        """Operands by index, and results, that are quantized as activations."""
        has_filter = OPS[node.op].channel_axis is not None
        operands: dict[int, Key] = {}
        for index, name in enumerate(node.inputs):
            if name is None or not _is_real(self.source, name):
                continue
            if has_filter and index > 0:
                continue
            operands[index] = (node.name, index) if self.source.value(name).is_constant else name
        return operands, [name for name in node.outputs if _is_real(self.source, name)]

    def choose(self) -> dict[Key, Quantization]:
        """The quantization of every activation."""
        groups = _Groups()
        for name in self.source.inputs:
            if _is_real(self.source, name):
                groups.find(name)
        for node in self.source.nodes():
            rule = RULES.get(node.op, _FREE)
            operands, results = self.activations(node)
            for index, key in operands.items():
                data = self.source.value(str(node.inputs[index])).data
                if data is not None and data.size:
                    self.ranges[key] = float(data.min()), float(data.max())
            for key in (*operands.values(), *results):
                groups.find(key)
            if rule.shared:
                groups.join([*operands.values(), *results])
            if rule.result is not None:
                self.fixed.update(dict.fromkeys(results, rule.result))
            if rule.saturating:
                self.forget_saturated(node)
        chosen: dict[Key, Quantization] = {}
        for members in groups.members().values():
            quantization = self.quantization(members)
            chosen.update(dict.fromkeys(members, quantization))
        return chosen

    def forget_saturated(self, node: Node) -> None:
        (operand,) = node.inputs
        (result,) = node.outputs
        if operand is None or operand in self.source.outputs or operand in self.source.inputs:
            return
        if self.source.consumers(operand) == [node] and result in self.ranges:
            self.ranges[operand] = self.ranges[result]

    def quantization(self, members: Sequence[Key]) -> Quantization:
        fixed = {self.fixed[key] for key in members if key in self.fixed}
        low, high = 0.0, 0.0
        for key in members:
            low, high = _union((low, high), self.ranges.get(key, (0.0, 0.0)))
        if len(fixed) == 1:
            (quantization,) = fixed
            scale, zero_point = quantization.scale[0], quantization.zero_point[0]
            # The fixed ranges of the specification end one step before 1.
            smallest, largest = (scale * (stored - zero_point) for stored in self.dtype.limits)
            if smallest - scale <= low and high <= largest + scale:
                return quantization
        return asymmetric(low, high, self.dtype)

    # --- rebuilding ---

    def graph(self) -> Graph:
        for name in self.source.inputs:
            self.result.add_input(name, self.type(name))
        for node in self.source.nodes():
            self.add(node)
        self.result.outputs = list(self.source.outputs)
        return self.result

    def type(self, name: str) -> TensorType:
        type = self.source.type(name)
        if name not in self.quantizations:
            return type
        return TensorType(type.shape, self.dtype, self.quantizations[name])

    def add(self, node: Node) -> None:
        operands, _ = self.activations(node)
        axis = OPS[node.op].channel_axis
        inputs = list(node.inputs)
        for index, name in enumerate(node.inputs):
            value = None if name is None else self.source.value(name)
            if value is None or value.data is None:
                continue
            if index in operands:
                q = self.quantizations[operands[index]]
                inputs[index] = self.constant(
                    value, q, numerics.quantize(value.data, q, self.dtype)
                )
            elif axis is None and name not in self.result.values:
                self.result.add_value(value)
        if axis is not None:
            self.add_parameters(node, axis, inputs)
        outputs, conversions = list(node.outputs), []
        for index, name in enumerate(node.outputs):
            type, fixed = self.type(name), self.fixed.get(name)
            if fixed is not None and fixed != type.quantization:
                raw = TensorType(type.shape, type.dtype, fixed)
                outputs[index] = self.result.add_value(Value(self.unused(f"{name}.raw"), raw))
                conversions.append((outputs[index], name))
            self.result.add_value(Value(name, type))
        self.result.add_node(
            Node(node.name, node.op, tuple(inputs), tuple(outputs), node.attributes, node.origin)
        )
        for raw_name, name in conversions:
            convert = self.unused(f"{name}.requantize")
            self.result.add_node(Node(convert, "quantize", (raw_name,), (name,)))

    def constant(self, value: Value, quantization: Quantization, data: Array) -> str:
        """A quantized constant; uses with equal parameters share it."""
        key = (value.name, quantization)
        if key not in self.constants:
            name = value.name
            if name in self.result.values:
                name = self.unused(f"{name}.quantized")
            type = TensorType(data.shape, DType.of(data), quantization)
            self.constants[key] = self.result.add_value(Value(name, type, data))
        return self.constants[key]

    def unused(self, stem: str) -> str:
        """A name that neither the source nor the result has."""
        name = unused_name(stem, self.taken)
        self.taken.add(name)
        return name

    def add_parameters(self, node: Node, axis: int, inputs: list[str | None]) -> None:
        """Filter and bias of a node, put into `inputs`."""
        source = self.source
        kernel = source.value(str(node.inputs[1]))
        name = node.inputs[2] if len(node.inputs) > 2 else None
        bias = None if name is None else source.value(name)
        before = self.quantizations[self.activations(node)[0][0]].scale[0]
        after = self.quantizations[node.outputs[0]].scale[0]
        assert kernel.data is not None
        biases = None if bias is None else bias.data
        q = filter_quantization(kernel.data, biases, axis, before, after)
        inputs[1] = self.constant(kernel, q, _stored_filter(kernel.data, q))
        if bias is not None and biases is not None:
            # Runtimes take the product of the scales, rounded to float32.
            scales = np.asarray(q.scale, np.float32) * np.float32(before)
            stored = np.rint(biases.reshape(-1).astype(np.float64) / scales).astype(np.int32)
            shared = Quantization(tuple(map(float, scales)), (0,) * len(scales), 0)
            inputs[2] = self.constant(bias, shared, stored)


# --- float32 at the borders ----------------------------------------------------------------------


def _keep_float_borders(graph: Graph, source: Graph) -> None:
    """Put conversions after the quantized inputs and before the quantized outputs."""
    for position, name in enumerate(source.inputs):
        if not graph.type(name).is_quantized:
            continue
        stored = graph.fresh(f"{name}.quantized")
        graph.rename_output(name, stored)
        graph.inputs[position] = graph.add_value(Value(name, source.type(name)))
        graph.add_node(Node(stored, "quantize", (name,), (stored,)))
    for position, name in enumerate(source.outputs):
        if name in source.inputs:
            graph.outputs[position] = name
    for name in dict.fromkeys(source.outputs):
        if name in source.inputs or not graph.type(name).is_quantized:
            continue
        stored = graph.fresh(f"{name}.quantized")
        graph.rename_output(name, stored)
        graph.add_value(Value(name, source.type(name)))
        graph.add_node(Node(graph.fresh(f"{name}.dequantize"), "dequantize", (stored,), (name,)))
        graph.outputs = [name if output == stored else output for output in graph.outputs]

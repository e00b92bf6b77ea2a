"""Whether a retrained source has the structure of the original one, and of the package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import LinkError
from fitzroy.base.types import DType, TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.formats import custom_op
from fitzroy.formats.darwinn import Executable, Layer

FREEZE = "keep the quantization of activations when training again, or compile the model again"


FILTERS = ("conv_2d", "depthwise_conv_2d", "fully_connected")
"""Operators whose instructions are compared, and changed where that is possible."""


BIAS = 2
"""Operand of these that holds the biases, which may be absent."""


def title(node: Node) -> str:
    """An operator, for messages."""
    return f"{node.op} {node.name!r}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names in one graph by those in another: of nodes, and of values."""

    nodes: Mapping[str, str]
    values: Mapping[str, str]


def correspondence(original: Graph, retrained: Graph) -> Names:
    """Which operators and values of two graphs of the same structure correspond.

    Raises:
        LinkError: the graphs differ in more than constants, quantization and names.
    """
    hint = "only weights, biases and their quantization may differ"
    old, new = original.nodes(), retrained.nodes()
    if len(old) != len(new):
        raise LinkError(
            f"the retrained source has {len(new)} operators, the original one {len(old)}", hint=hint
        )
    values = dict(zip(original.inputs, retrained.inputs, strict=False))
    for a, b in zip(old, new, strict=True):
        optional = BIAS if a.op in FILTERS else None
        if (a.op, a.attributes) != (b.op, b.attributes) or len(a.inputs[:optional]) != len(
            b.inputs[:optional]
        ):
            raise LinkError(
                f"the retrained source has {title(b)} in place of {title(a)}",
                reason=f"{b.attributes}, not {a.attributes}" if a.op == b.op else "",
                hint=hint,
            )
        for x, y in (
            *zip(a.inputs[:optional], b.inputs[:optional], strict=True),
            *(pair for pair in zip(a.inputs[BIAS:], b.inputs[BIAS:], strict=False) if all(pair)),
            *zip(a.outputs, b.outputs, strict=True),
        ):
            if x is None and y is None:
                continue
            if x is None or y is None or values.setdefault(x, y) != y:
                raise LinkError(
                    f"{title(b)} of the retrained source reads {y!r}",
                    reason=f"{title(a)} of the original one reads {x!r}",
                    hint=hint,
                )
            s, t = original.type(x), retrained.type(y)
            constant = original.value(x).is_constant, retrained.value(y).is_constant
            if (s.shape, s.dtype) != (t.shape, t.dtype) or constant[0] != constant[1]:
                raise LinkError(
                    f"{y!r} of {title(b)} is {t}", reason=f"{s} in the original source", hint=hint
                )
    return Names({a.name: b.name for a, b in zip(old, new, strict=True)}, values)


def check_layers(main: Executable, graph: Graph, names: Mapping[str, str] | None) -> None:
    """Check that inputs and outputs of a package have the types of the source's values.

    Raises:
        LinkError: a layer is another, or has another quantization.
    """
    for layer in (*(main.input_layers or ()), *(main.output_layers or ())):
        name = layer.name or ""
        value = name if names is None else names.get(name, "")
        if value not in graph.values or graph.value(value).is_constant:
            continue  # a state, or what `mapped_nodes` tells of
        wanted, found = numerics(graph.type(value)), _layer_numerics(layer)
        if wanted != found:
            raise LinkError(
                f"the compiled model's layer {name!r} does not have the type of the source's",
                reason=f"{_of(found)}, the source wants {_of(wanted)}",
                hint=FREEZE,
            )


_Numerics = tuple[DType | None, int, float, int]
"""Element type, bytes, scale and zero point of the unsigned values."""


def numerics(type: TensorType) -> _Numerics:
    """Those of a value in its unsigned form; scale and zero point are 0 if it has none."""
    scale, zero = 0.0, 0
    if type.quantization is not None:
        scale, zero = type.quantization.scale[0], type.quantization.zero_point[0]
        zero -= type.dtype.limits[0]
    return type.dtype, type.nbytes, scale, zero


def _layer_numerics(layer: Layer) -> _Numerics:
    dtype = custom_op.DTYPES.get(layer.element)
    if layer.numerics is None:
        return dtype, layer.packed_bytes, 0.0, 0
    factor = float(np.float32(layer.numerics.dequantization_factor))
    return dtype, layer.packed_bytes, factor, layer.numerics.zero_point


def _of(numerics: _Numerics) -> str:
    dtype, nbytes, scale, zero = numerics
    name = "another type" if dtype is None else dtype.value
    return f"{nbytes} bytes of {name}, scale {scale:.9g}, zero point {zero} of unsigned values"

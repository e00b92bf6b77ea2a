"""DarwiNN packages in TFLite models: the operator ``edgetpu-custom-op``.

Its options are a flexbuffer map; key "4" holds the package, as a string. Tensors of the operator
and layers of the package are the same where their names are, whatever their order. The first
compilers put a bare executable there, and the one that loads its parameters under key "3", see
`fitzroy.formats.early_executable`.

Facts: the published delegate of the Edge TPU runtime, and compiled models.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.formats import darwinn, flat, flexbuffer, tflite
from fitzroy.formats.darwinn import DataType, Executable, Layer, PackageFile
from fitzroy.formats.early_executable import read_executables
from fitzroy.formats.pieces import Pieces, unjoined
from fitzroy.formats.submodel import rebuilt

CUSTOM_CODE = "edgetpu-custom-op"
"""Name of the operator."""

VERSION_KEY = "1"
CHIP_NAME_KEY = "2"
EARLY_CACHING_KEY = "3"
PACKAGE_KEY = "4"
PREFERENCE_KEY = "5"
CHIPS_KEY = "6"
FURTHER_PACKAGES_KEY = "7"

ALIGNMENT = tflite.OPTIONS_ALIGNMENT
"""Bytes to which a package is aligned in a written model."""

DTYPES = {
    DataType.FIXED_POINT8: DType.UINT8,
    DataType.SIGNED_FIXED_POINT8: DType.INT8,
    DataType.SIGNED_FIXED_POINT16: DType.INT16,
}
"""Element types of tensors by those of layers."""

_PACKAGE_TYPE = flexbuffer.Type.STRING
_VERSION = 0
_NO_PREFERENCE = -1
_BEAGLE = 18


@dataclass(frozen=True, eq=False, slots=True)
class CustomOp:
    """A package and the operator that carries it.

    Attributes:
        subgraph: index of the subgraph.
        operator: index of the operator in it.
        inputs: names of its input tensors, in order.
        outputs: names of its output tensors, in order.
        options: the flexbuffer map, the package included.
        package: bytes of the package, a view of the model.
        offset: where the package begins in the file, None if that is unknown.
        path: name of the file, for errors.
    """

    subgraph: int
    operator: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    options: Mapping[str, flexbuffer.Value]
    package: memoryview
    offset: int | None = None
    path: str = ""

    def read(self) -> PackageFile:
        """Read the package; errors name offsets in the model's file.

        Raises:
            FormatError: the bytes are malformed, or the runtime would refuse what they say.
            UnsupportedError: a package for a later runtime, or for several chips.
        """
        packed = flat.identifier(self.package) == darwinn.IDENTIFIER
        if packed or not {CHIP_NAME_KEY, EARLY_CACHING_KEY} & set(self.options):
            return darwinn.read_package(self.package, self.path, self.offset or 0)
        caching = self.options.get(EARLY_CACHING_KEY)
        if not isinstance(caching, flexbuffer.Bytes) or not len(caching.data):
            return read_executables(self.package, None, self.path, (self.offset or 0, 0))
        held = memoryview(caching.data)
        main_at, caching_at = (
            np.frombuffer(part, np.uint8).ctypes.data for part in (self.package, held)
        )
        offset = self.offset or 0
        at = offset + caching_at - main_at if offset else 0
        return read_executables(self.package, held, self.path, (offset, at))

    def layers(self, executable: Executable) -> tuple[list[Layer], list[Layer]]:
        """The layers of an executable that belong to the tensors, in order of the tensors.

        Outputs of an executable that carry its state to the next inference have no tensor.

        Returns:
            One layer per input, and one per output.

        Raises:
            FormatError: a tensor without layer, or an input layer without tensor.
        """
        where = _where(self.subgraph, self.operator)
        return (
            _by_name(self.inputs, executable.inputs, self.path, f"{where}.inputs", complete=True),
            _by_name(self.outputs, executable.outputs, self.path, f"{where}.outputs"),
        )


def extract(
    model: tflite.Model, path: str = "", data: bytes | bytearray | memoryview | None = None
) -> list[CustomOp]:
    """All packages of a model, in order of subgraphs and operators.

    Args:
        model: the model.
        path: name of its file, for errors.
        data: the bytes that the model was read from; with them, offsets are known.

    Raises:
        FormatError: malformed options, or a tensor without name.
    """
    found = []
    for number, index, operator in _operators(model):
        where = _where(number, index)
        options, offset = _options(operator, path, where, data)
        package = options.get(PACKAGE_KEY)
        if not isinstance(package, flexbuffer.Bytes):
            raise FormatError(
                f'the options have no package (key "{PACKAGE_KEY}")',
                path=path, offset=offset, table=where,
                hint=f"keys are {', '.join(options) or 'none'}",
            )  # fmt: skip
        content = memoryview(package.data)
        if offset is not None and operator.custom_options is not None:
            held = operator.custom_options.data
            offset += flat.offset_of(np.frombuffer(content, np.uint8), held) or 0
        tensors = (model.subgraphs or [])[number].tensors or []
        found.append(
            CustomOp(
                subgraph=number,
                operator=index,
                inputs=_names(tensors, operator.inputs, path, f"{where}.inputs"),
                outputs=_names(tensors, operator.outputs, path, f"{where}.outputs"),
                options=options,
                package=content,
                offset=offset,
                path=path,
            )
        )
    return found


def outputs(model: tflite.Model) -> list[tuple[str, ...]]:
    """Names of the output tensors of all Edge TPU operators, in order of `extract`.

    Raises:
        FormatError: a tensor without name.
    """
    return [
        _names((model.subgraphs or [])[number].tensors or [], operator.outputs, "", "outputs")
        for number, _, operator in _operators(model)
    ]


def replace(model: tflite.Model, index: int, package: bytes | memoryview) -> tflite.Model:
    """A model with another package in place of one; all other options stay.

    Args:
        model: the model; it is not changed.
        index: which package, as `extract` counts them.
        package: bytes of the package to put in.

    Raises:
        FormatError: the operator's options are malformed.
        UsageError: there are not so many packages.
    """
    places = list(_operators(model))
    if not 0 <= index < len(places):
        raise UsageError(f"no package {index}", reason=f"the model has {len(places)}")
    subgraphs = [
        dataclasses.replace(subgraph, operators=list(subgraph.operators or ()))
        for subgraph in model.subgraphs or ()
    ]
    # All are written again, since the others would lose their alignment too.
    for count, (number, place, operator) in enumerate(places):
        options, _ = _options(operator, "", _where(number, place), None)
        if count == index:
            earlier = options.get(PACKAGE_KEY)
            kind = earlier.type if isinstance(earlier, flexbuffer.Bytes) else _PACKAGE_TYPE
            options[PACKAGE_KEY] = flexbuffer.Bytes(package, kind)
            if earlier is not None and flat.identifier(_content(earlier)) != darwinn.IDENTIFIER:
                # The package brings its own executable that loads parameters.
                options.pop(EARLY_CACHING_KEY, None)
        operators = subgraphs[number].operators
        if operators is not None:
            operators[place] = dataclasses.replace(operator, custom_options=_encoded(options))
    return dataclasses.replace(model, subgraphs=subgraphs)


def wrap(
    package: bytes | memoryview,
    inputs: Mapping[str, TensorType],
    outputs: Mapping[str, TensorType],
    *,
    name: str = "main",
    description: str = "",
) -> tflite.Model:
    """A model whose only operator runs a package.

    Args:
        package: bytes of the package.
        inputs: types of the input tensors by the names of the layers, in order of the model.
        outputs: types of the output tensors likewise.
        name: name of the subgraph.
        description: description of the model.

    Raises:
        FormatError: the package is malformed, or its layers are others than the tensors.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    executable = darwinn.read_package(package).main
    for kind, types, layers in (
        ("inputs", inputs, executable.inputs),
        ("outputs", outputs, executable.outputs),
    ):
        for layer, type in zip(
            _by_name(tuple(types), layers, "", kind, complete=kind == "inputs"),
            types.values(),
            strict=True,
        ):
            _check_type(layer, type, kind)
    tensors = [_tensor(*item) for item in (*inputs.items(), *outputs.items())]
    numbers = np.arange(len(tensors), dtype=np.int32)
    operator = tflite.Operator(
        inputs=numbers[: len(inputs)],
        outputs=numbers[len(inputs) :],
        custom_options=_encoded(_own_options(package)),
    )
    subgraph = tflite.SubGraph(
        name=name,
        tensors=tensors,
        inputs=operator.inputs,
        outputs=operator.outputs,
        operators=[operator],
    )
    code = dataclasses.replace(
        tflite.operator_code(tflite.BuiltinOperator.CUSTOM), custom_code=CUSTOM_CODE
    )
    return tflite.Model(
        version=tflite.VERSION,
        description=description,
        operator_codes=[code],
        subgraphs=[subgraph],
        buffers=[tflite.Buffer()],
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators of a model's main subgraph that a package computes.

    Attributes:
        operators: their indices.
        inputs: names of the tensors that they read from others, in order.
        outputs: names of the tensors that others read from them.
        package: bytes of the package.
    """

    operators: frozenset[int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    package: bytes | Pieces


def embed(model: tflite.Model, segments: Sequence[Segment]) -> tflite.Model:
    """A model in which Edge TPU operators take the place of some of its own, to be written.

    Their options are in pieces, so that nothing large is copied before the model is. Operators
    keep their order as far as the new ones permit; tensors and buffers that nothing refers to any
    more are left out.

    Args:
        model: the model; it is not changed.
        segments: disjoint sets of operators, each with its package.

    Raises:
        UsageError: a segment reads what depends on its own outputs, or an unknown tensor.
    """
    main = (model.subgraphs or [])[0]
    tensors, operators = list(main.tensors or ()), list(main.operators or ())
    names = {tensor.name: index for index, tensor in enumerate(tensors)}
    codes = list(model.operator_codes or ())
    own = dataclasses.replace(
        tflite.operator_code(tflite.BuiltinOperator.CUSTOM), custom_code=CUSTOM_CODE
    )
    steps: list[tuple[int, tflite.Operator]] = []
    taken = set[int]()
    for segment in segments:
        missing = [name for name in (*segment.inputs, *segment.outputs) if name not in names]
        if missing:
            raise UsageError(f"the model has no tensor {missing[0]!r}")
        steps.append((min(segment.operators), _carrier(segment, names, len(codes))))
        taken |= segment.operators
    steps += [(index, item) for index, item in enumerate(operators) if index not in taken]
    codes.append(own)
    whole = dataclasses.replace(model, operator_codes=codes)
    ordered = _ordered([item for _, item in sorted(steps, key=lambda step: step[0])])
    return rebuilt(whole, _read(whole, ordered))


_EFFECTS = frozenset({"ASSIGN_VARIABLE", "CALL", "CALL_ONCE", "CUSTOM", "IF", "WHILE"})
"""Operators that may do more than to give results."""


def _read(model: tflite.Model, operators: Sequence[tflite.Operator]) -> list[tflite.Operator]:
    """Those of some ordered operators whose results something reads.

    Programs have constants of their own: what computed them, as shapes or unpacked weights, would
    run for nothing.
    """
    main, codes = (model.subgraphs or [])[0], model.operator_codes or []
    wanted, kept = {*flat.ints(main.outputs)}, list[tflite.Operator]()
    for signature in model.signature_defs or ():
        wanted.update(entry.tensor_index for entry in signature.outputs or ())
    for item in reversed(operators):
        code, made = codes[item.opcode_index], flat.ints(item.outputs)
        does = "CUSTOM" if tflite.is_custom(code) else tflite.code_name(code)
        if does in _EFFECTS or not made or not wanted.isdisjoint(made):
            wanted.update(flat.ints(item.inputs))
            kept.append(item)
    return kept[::-1]


def _carrier(segment: Segment, names: Mapping[str | None, int], code: int) -> tflite.Operator:
    """The operator that carries a package."""
    options = _own_options(unjoined(segment.package))
    return tflite.Operator(
        opcode_index=code,
        inputs=np.array([names[name] for name in segment.inputs], np.int32),
        outputs=np.array([names[name] for name in segment.outputs], np.int32),
        custom_options=unjoined(flexbuffer.encoded(options, align=ALIGNMENT)),
    )


def _own_options(package: bytes | memoryview) -> dict[str, flexbuffer.Value]:
    """Options as Google's compiler writes them for one chip."""
    return {
        VERSION_KEY: _VERSION,
        PACKAGE_KEY: flexbuffer.Bytes(package, _PACKAGE_TYPE),
        PREFERENCE_KEY: _NO_PREFERENCE,
        CHIPS_KEY: [_BEAGLE],
        FURTHER_PACKAGES_KEY: [],
    }


def _ordered(operators: Sequence[tflite.Operator]) -> list[tflite.Operator]:
    """Operators so that each follows those whose outputs it reads.

    Raises:
        UsageError: there is no such order.
    """
    made = {index for item in operators for index in flat.ints(item.outputs)}
    waiting, found = list(operators), list[tflite.Operator]()
    while waiting:
        ready = next(
            (item for item in waiting if not made.intersection(flat.ints(item.inputs))), None
        )
        if ready is None:
            raise UsageError(
                "the parts of a model wait for one another",
                reason="an Edge TPU operator would read what depends on its own outputs",
            )
        waiting.remove(ready)
        made.difference_update(flat.ints(ready.outputs))
        found.append(ready)
    return found


def layer_type(layer: Layer) -> TensorType:
    """The type of the tensor that belongs to a layer.

    Vectors are ``[1, n]`` and images ``[1, y, x, z]``, unless the layer states its shape.

    Raises:
        FormatError: an element type that TFLite models of the Edge TPU do not have.
    """
    dtype = DTYPES.get(layer.element)
    if dtype is None:
        raise FormatError(f"a layer of {layer.element.name} has no tensor", table=layer.name or "")
    y, x, z = layer.extent
    shape: tuple[int, ...] = (1, z) if y == x == 1 else (1, y, x, z)
    if layer.shape is not None and layer.shape.dimension is not None:
        shape = tuple(int(last - first + 1) for first, last in layer.shape.dimension)
    quantization = None
    if layer.numerics is not None and layer.numerics.dequantization_factor > 0:
        # Layers count from 0 also where elements are signed.
        offset = 1 << 8 * dtype.itemsize - 1 if dtype is not DType.UINT8 else 0
        zero_point = layer.numerics.zero_point - offset
        quantization = Quantization.per_tensor(layer.numerics.dequantization_factor, zero_point)
    return TensorType(shape, dtype, quantization)


def _operators(model: tflite.Model) -> Iterator[tuple[int, int, tflite.Operator]]:
    codes = model.operator_codes or []
    for number, subgraph in enumerate(model.subgraphs or ()):
        for index, operator in enumerate(subgraph.operators or ()):
            if codes[operator.opcode_index].custom_code == CUSTOM_CODE:
                yield number, index, operator


def _where(subgraph: int, operator: int) -> str:
    return f"SubGraph {subgraph}, Operator {operator}"


def _options(
    operator: tflite.Operator,
    path: str,
    where: str,
    data: bytes | bytearray | memoryview | None,
) -> tuple[dict[str, flexbuffer.Value], int | None]:
    """The options of an operator, and their offset in the file if it is known."""
    content = operator.custom_options
    if content is None or not len(content):
        raise FormatError("the operator has no options", path=path, table=where)
    offset = None if data is None else flat.offset_of(content, data)
    options = flexbuffer.decode(content.data, path, offset or 0)
    if not isinstance(options, dict):
        raise FormatError("the options are no map", path=path, offset=offset, table=where)
    return options, offset


def _content(value: flexbuffer.Value) -> bytes | memoryview:
    return value.data if isinstance(value, flexbuffer.Bytes) else b""


def _encoded(options: dict[str, flexbuffer.Value]) -> Array:
    return np.frombuffer(flexbuffer.encode(options, align=ALIGNMENT), np.uint8)


def _names(
    tensors: Sequence[tflite.Tensor], indices: Array | None, path: str, where: str
) -> tuple[str, ...]:
    names = []
    for index in flat.ints(indices):
        name = tensors[index].name if index >= 0 else None
        if not name:
            raise FormatError(f"tensor {index} has no name", path=path, table=where)
        names.append(name)
    return tuple(names)


def _by_name(
    names: Sequence[str],
    layers: Mapping[str, Layer],
    path: str,
    where: str,
    *,
    complete: bool = False,
) -> list[Layer]:
    _refuse(set(names) - set(layers), "tensors without layer", path, where)
    if complete:
        _refuse(set(layers) - set(names), "layers without tensor", path, where)
    return [layers[name] for name in names]


def _refuse(names: Iterable[str], what: str, path: str, where: str) -> None:
    listed = ", ".join(repr(name) for name in sorted(names))
    if listed:
        raise FormatError(f"{what}: {listed}", path=path, table=where)


def _check_type(layer: Layer, type: TensorType, where: str) -> None:
    wanted = DTYPES.get(layer.element)
    if type.dtype is not wanted:
        raise FormatError(
            f"a tensor of {type.dtype.value} for a layer of {layer.element.name}",
            table=f"{where}, {layer.name!r}",
        )
    if math.prod(type.shape) != math.prod(layer.extent):
        raise FormatError(
            f"a tensor of shape {list(type.shape)} for a layer of {list(layer.extent)}",
            table=f"{where}, {layer.name!r}",
        )


def _tensor(name: str, type: TensorType) -> tflite.Tensor:
    quantization = None
    if type.quantization is not None:
        quantization = tflite.QuantizationParameters(
            scale=np.array(type.quantization.scale, np.float32),
            zero_point=np.array(type.quantization.zero_point, np.int64),
            quantized_dimension=type.quantization.axis or 0,
        )
    return tflite.Tensor(
        name=name,
        shape=np.array(type.shape, np.int32),
        type=int(tflite.TENSOR_TYPES[type.dtype]),
        quantization=quantization,
    )

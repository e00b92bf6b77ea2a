from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus_params, need, need_litert

from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import DType, Quantization
from fitzroy.formats import flat, sparse, tflite
from fitzroy.formats.flat import Table, UnknownMember
from fitzroy.formats.tflite import (
    Buffer,
    BuiltinOperator,
    Model,
    Operator,
    OperatorCode,
    QuantizationParameters,
    SubGraph,
    Tensor,
    TensorType,
)
from fitzroy.formats.tflite_versions import VERSIONS

FULLY_CONNECTED = BuiltinOperator.FULLY_CONNECTED


def affine(scale: list[float], zero_point: list[int], axis: int = 0) -> QuantizationParameters:
    return QuantizationParameters(
        scale=np.array(scale, np.float32), zero_point=np.array(zero_point), quantized_dimension=axis
    )


def model() -> Model:
    """A fully connected layer of 4 inputs and 2 outputs, and a custom operator after it."""
    tensors = [
        Tensor(name="in", shape=np.array([1, 4]), type=9, quantization=affine([0.5], [3])),
        Tensor(
            name="w", shape=np.array([2, 4]), type=9, buffer=1,
            quantization=affine([0.25, 0.5], [0, 0]),
        ),
        Tensor(name="mid", shape=np.array([1, 2]), type=9, quantization=affine([1], [-1])),
        Tensor(name="out", shape=np.array([1, 2]), type=9, quantization=affine([1], [-1])),
    ]  # fmt: skip
    return Model(
        version=3,
        description="sample",
        operator_codes=[
            tflite.operator_code(FULLY_CONNECTED, version=4),
            OperatorCode(builtin_code=32, deprecated_builtin_code=32, custom_code="mine"),
        ],
        subgraphs=[
            SubGraph(
                name="main",
                tensors=tensors,
                inputs=np.array([0]),
                outputs=np.array([3]),
                operators=[
                    Operator(
                        inputs=np.array([0, 1, -1]),
                        outputs=np.array([2]),
                        builtin_options=tflite.FullyConnectedOptions(keep_num_dims=True),
                    ),
                    Operator(
                        opcode_index=1,
                        inputs=np.array([2]),
                        outputs=np.array([3]),
                        custom_options=np.arange(9, dtype=np.uint8),
                    ),
                ],
            )
        ],
        buffers=[
            Buffer(),
            Buffer(data=np.arange(8, dtype=np.uint8)),
            Buffer(data=np.frombuffer(b"1.2.3", np.uint8)),
        ],
        metadata=[tflite.Metadata(name="min_runtime_version", buffer=2)],
        signature_defs=[
            tflite.SignatureDef(
                signature_key="serve",
                inputs=[tflite.TensorMap(name="x", tensor_index=0)],
                outputs=[tflite.TensorMap(name="y", tensor_index=3)],
            )
        ],
    )


def main(of: Model) -> SubGraph:
    assert of.subgraphs is not None
    return of.subgraphs[0]


def tensor(of: Model, index: int) -> Tensor:
    tensors = main(of).tensors
    assert tensors is not None
    return tensors[index]


def operator(of: Model, index: int) -> Operator:
    operators = main(of).operators
    assert operators is not None
    return operators[index]


def test_a_model_survives_writing_and_reading() -> None:
    data = tflite.write_model(model())
    assert tflite.read_model(data) == model()
    assert tflite.write_model(tflite.read_model(data)) == data


def test_data_of_buffers_is_aligned_in_the_file() -> None:
    data = tflite.write_model(model())
    start = np.frombuffer(data, np.uint8).ctypes.data
    for buffer in tflite.read_model(data).buffers or ():
        if buffer.data is not None:
            assert (buffer.data.ctypes.data - start) % tflite.BUFFER_ALIGNMENT == 0


def test_constants_are_typed_views() -> None:
    read = tflite.read_model(tflite.write_model(model()))
    weights = tflite.constant(read, tensor(read, 1))
    assert weights is not None
    assert weights.dtype == np.int8
    assert weights.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert not weights.flags.writeable
    assert tflite.constant(read, tensor(read, 0)) is None
    assert bytes(tflite.buffer_bytes(read, 2)) == b"1.2.3"


def test_types_join_shape_dtype_and_quantization() -> None:
    assert str(tflite.type_of(tensor(model(), 0))) == "int8[1,4] scale 0.5 zero point 3"
    weights = tflite.type_of(tensor(model(), 1))
    assert weights.quantization == Quantization((0.25, 0.5), (0, 0), 0)
    assert tflite.quantization_of(Tensor(quantization=QuantizationParameters())) is None
    alone = Tensor(quantization=QuantizationParameters(scale=np.array([0.5], np.float32)))
    assert tflite.quantization_of(alone) == Quantization((0.5,), (0,))


def test_every_dtype_has_a_tensor_type() -> None:
    assert set(tflite.TENSOR_TYPES) == set(DType)
    for code, dtype in tflite.DTYPES.items():
        assert tflite.dtype_of(Tensor(type=int(code))) is dtype


@pytest.mark.parametrize("code", [*(set(TensorType) - set(tflite.DTYPES)), 99, -1])
def test_types_without_counterpart_name_the_tensor(code: int) -> None:
    with pytest.raises(UnsupportedError, match="tensor 'odd'"):
        tflite.dtype_of(Tensor(name="odd", type=code))


def test_the_greater_operator_code_counts() -> None:
    old = OperatorCode(deprecated_builtin_code=9)
    assert tflite.code_name(old) == "FULLY_CONNECTED"
    wide = tflite.operator_code(BuiltinOperator.GELU)
    assert (wide.deprecated_builtin_code, wide.builtin_code) == (127, 150)
    assert tflite.code_name(wide) == "GELU"
    assert tflite.code_name(OperatorCode(builtin_code=9999)) == "BUILTIN_9999"


def test_operators_are_named() -> None:
    sample = model()
    names = [tflite.operator_name(sample, item) for item in main(sample).operators or ()]
    assert names == ["FULLY_CONNECTED", "mine"]


def set_signature(of: Model) -> None:
    of.signature_defs = [tflite.SignatureDef(subgraph_index=1)]


def set_signature_tensor(of: Model) -> None:
    entry = tflite.TensorMap(name="z", tensor_index=4)
    of.signature_defs = [tflite.SignatureDef(outputs=[entry])]


def set_while(of: Model) -> None:
    operator(of, 0).builtin_options = tflite.WhileOptions(body_subgraph_index=2)


def set_version(of: Model) -> None:
    of.version = 2


def set_no_subgraphs(of: Model) -> None:
    of.subgraphs = []


def setter(name: str, of: Callable[[Model], Any], value: Any) -> Callable[[Model], None]:
    return lambda m: setattr(of(m), name, value)


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (set_version, "schema version 2, expected 3"),
        (set_no_subgraphs, "no subgraph"),
        (set_signature, "SignatureDef 0: subgraph 1 of 1"),
        (set_signature_tensor, "SignatureDef 0, TensorMap z: tensor 4 of 4"),
        (set_while, r"SubGraph 0, Operator 0.body_subgraph_index: subgraph 2 of 1"),
        (setter("inputs", main, np.array([4])), "SubGraph 0.inputs: tensor 4 of 4"),
        (setter("outputs", main, np.array([-1])), "SubGraph 0.outputs: tensor -1 of 4"),
        (
            setter("buffer", lambda m: tensor(m, 2), 3),
            "SubGraph 0, Tensor 2: buffer 3 of 3",
        ),
        (setter("external_buffer", lambda m: tensor(m, 2), 5), "external buffer has the id 5"),
        (
            setter("opcode_index", lambda m: operator(m, 1), 2),
            "SubGraph 0, Operator 1: operator code 2 of 2",
        ),
        (
            setter("inputs", lambda m: operator(m, 1), np.array([-2])),
            "SubGraph 0, Operator 1.inputs: tensor -2 of 4",
        ),
        (
            setter("outputs", lambda m: operator(m, 1), np.array([-1])),
            "SubGraph 0, Operator 1.outputs: tensor -1 of 4",
        ),
        (
            setter("intermediates", lambda m: operator(m, 1), np.array([9])),
            "SubGraph 0, Operator 1.intermediates: tensor 9 of 4",
        ),
    ],
)
def test_indices_that_lead_nowhere_are_refused(
    break_it: Callable[[Model], None], message: str
) -> None:
    broken = model()
    break_it(broken)
    with pytest.raises(FormatError, match=message):
        tflite.write_model(broken)
    with pytest.raises(FormatError, match=message) as caught:
        tflite.read_model(flat.encode(broken, identifier=b"TFL3"), "a.tflite")
    assert str(caught.value).startswith("a.tflite, ")


def test_sizes_and_counts_that_disagree_are_refused() -> None:
    sample = model()
    weights = tensor(sample, 1)
    weights.shape = np.array([3, 4])
    with pytest.raises(FormatError, match=r"buffer 1 holds 8 bytes, int8\[3, 4\] takes 12"):
        tflite.constant(sample, weights)
    with pytest.raises(FormatError, match=r"2 scales along dimension 0 of shape \[3, 4\]"):
        tflite.quantization_of(weights)
    weights.quantization = affine([1, 2, 3], [0, 0])
    with pytest.raises(FormatError, match="2 zero points for 3 scales"):
        tflite.quantization_of(weights)
    weights.shape = np.array([-1, 4])
    with pytest.raises(FormatError, match=r"shape \[-1, 4\]"):
        tflite.constant(sample, weights)
    with pytest.raises(FormatError, match="buffer 7 of 3"):
        tflite.buffer_bytes(sample, 7)


def test_stale_metadata_is_read_and_told() -> None:
    sample = model()
    sample.metadata = [tflite.Metadata(name="a", buffer=3), tflite.Metadata(name="b", buffer=2)]
    again = tflite.read_model(tflite.write_model(sample))
    assert tflite.stale_metadata(again) == ["'a' names buffer 3 of 3"]


def test_what_cannot_be_a_plain_constant_is_unsupported() -> None:
    sample = model()
    weights = tensor(sample, 1)
    weights.quantization = QuantizationParameters(details=tflite.BlockwiseQuantization())
    with pytest.raises(UnsupportedError, match="BlockwiseQuantization"):
        tflite.quantization_of(weights)
    weights.external_buffer = 1
    with pytest.raises(UnsupportedError, match="file of its own"):
        tflite.constant(sample, weights)


def test_unknown_options_are_read_but_not_written() -> None:
    sample = model()
    operator(sample, 0).builtin_options = UnknownMember(code=200)
    with pytest.raises(UnsupportedError, match="builtin_options of the unknown kind 200"):
        tflite.write_model(sample)


def behind(size: int) -> tuple[bytes, int]:
    """A model whose weights and custom options lie after the flatbuffer, and where they start."""
    sample = model()
    assert sample.buffers is not None
    # Sizes do not depend on the values, so that a first pass can find the end of the flatbuffer.
    for offset in (1 << 20, len(flat.encode(sample, identifier=b"TFL3")) + 400):
        sample.buffers[1] = Buffer(offset=offset, size=size)
        operator(sample, 1).custom_options = None
        operator(sample, 1).large_custom_options_offset = offset + 8
        operator(sample, 1).large_custom_options_size = 3
    return flat.encode(sample, identifier=b"TFL3"), offset


def test_data_behind_the_flatbuffer_are_found_and_moved_inside() -> None:
    data, offset = behind(8)
    read = tflite.read_model(data.ljust(offset, b"\0") + bytes(range(11)))
    weights = tflite.constant(read, tensor(read, 1))
    assert weights is not None
    assert weights.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert flat.ints(operator(read, 1).custom_options) == (8, 9, 10)
    assert tflite.read_model(tflite.write_model(read)) == read


def test_data_beyond_the_end_of_the_file_are_refused() -> None:
    data, offset = behind(1 << 40)
    with pytest.raises(FormatError, match="Buffer 1: 1099511627776 bytes at"):
        tflite.read_model(data.ljust(offset, b"\0") + bytes(11))
    data, offset = behind(8)
    with pytest.raises(FormatError, match="SubGraph 0, Operator 1: 3 bytes at"):
        tflite.read_model(data.ljust(offset, b"\0") + bytes(9))


def test_places_behind_the_flatbuffer_cannot_be_shared_without_end() -> None:
    sample = model()
    tail = 1 << 16
    sample.buffers = [Buffer(), *(Buffer(offset=4096, size=tail) for _ in range(10))]
    data = flat.encode(sample, identifier=b"TFL3").ljust(4096, b"\0") + bytes(tail)
    assert len(data) == 4096 + tail
    with pytest.raises(FormatError, match="Buffer 5: 65536 bytes at 4096"):
        tflite.read_model(data)


# --- the schema against the one that LiteRT carries ----------------------------------------------


def tables_of_the_schema() -> list[type[Table]]:
    found = {
        item
        for item in vars(tflite).values()
        if isinstance(item, type) and issubclass(item, Table) and not item.__name__.startswith("_")
    }
    return sorted(found - {Table, tflite.Options, UnknownMember}, key=lambda item: item.__name__)


@pytest.mark.parametrize("cls", tables_of_the_schema(), ids=lambda item: item.__name__)
def test_fields_are_where_litert_reads_them(cls: type[Table]) -> None:
    """Every field is written with a value of its own and read by LiteRT's accessor of that name."""
    need("ai_edge_litert.schema_py_generated", "litert")
    from ai_edge_litert import schema_py_generated as schema

    values: dict[str, Any] = {}
    numbers = itertools.count(3)
    for _, name, kind in cls.declared().fields:
        if isinstance(kind, flat._Scalar):
            default = getattr(cls(), name)
            values[name] = not default if kind.code == "?" else type(default)(next(numbers))
        elif isinstance(kind, flat._Vector):
            values[name] = np.array([next(numbers), 1], kind.dtype)
        elif isinstance(kind, flat._String):
            values[name] = f"text{next(numbers)}"
        elif isinstance(kind, flat._Table):
            values[name] = kind.type()
        elif isinstance(kind, flat._Tables):
            values[name] = [kind.type() for _ in range(next(numbers))]
        elif isinstance(kind, flat._Union):
            code = len(kind.members) - next(numbers) % 2
            values[name] = kind.members[code]()
    reader = getattr(schema, cls.__name__)
    theirs = reader.GetRootAs(flat.encode(cls(**values)))
    accessors = {name.lower(): name for name in dir(theirs)}

    def read(name: str, suffix: str = "", *arguments: int) -> Any:
        return getattr(theirs, accessors[(name.replace("_", "") + suffix).lower()])(*arguments)

    for _, name, kind in cls.declared().fields:
        ours = values[name]
        if isinstance(kind, flat._Scalar):
            assert read(name) == ours
        elif isinstance(kind, flat._Vector):
            assert read(name, "Length") == 2
            found = [read(name, "", i) for i in range(2)]
            assert found == [type(value)(value) for value in ours.astype(type(found[0])).tolist()]
        elif isinstance(kind, flat._String):
            assert read(name) == ours.encode()
        elif isinstance(kind, flat._Table):
            assert type(read(name)).__name__ == kind.type.__name__
        elif isinstance(kind, flat._Tables):
            assert read(name, "Length") == len(ours)
            assert type(read(name, "", 0)).__name__ == kind.type.__name__
        elif isinstance(kind, flat._Union):
            assert read(name, "Type") == kind.codes[type(ours)]
            assert read(name) is not None
    named = {name.replace("_", "") for name in values}
    for accessor in accessors:
        if accessor.endswith("length") and accessor[: -len("length")] in accessors:
            assert accessor[: -len("length")] in named


@pytest.mark.parametrize(
    "ours",
    [
        tflite.TensorType, tflite.BuiltinOperator, tflite.ActivationFunctionType, tflite.Padding,
        tflite.MirrorPadMode, tflite.FullyConnectedOptionsWeightsFormat, tflite.LSTMKernelType,
        sparse.DimensionType, tflite.CombinerType, tflite.LSHProjectionType,
        tflite.ReduceWindowFunction,
    ],
    ids=lambda item: item.__name__,
)  # fmt: skip
def test_enumerations_have_at_least_what_litert_has(ours: Any) -> None:
    need("ai_edge_litert.schema_py_generated", "litert")
    from ai_edge_litert import schema_py_generated as schema

    theirs = getattr(schema, ours.__name__)
    expected = {name: value for name, value in vars(theirs).items() if name[:1].isalpha()}
    assert expected.items() <= {item.name: item.value for item in ours}.items()


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("BuiltinOptions", tflite.BUILTIN_OPTIONS),
        ("BuiltinOptions2", tflite.BUILTIN_OPTIONS_2),
    ],
)
def test_unions_are_in_litert_s_order(name: str, members: tuple[type[Table], ...]) -> None:
    need("ai_edge_litert.schema_py_generated", "litert")
    from ai_edge_litert import schema_py_generated as schema

    theirs = {k: v for k, v in vars(getattr(schema, name)).items() if k[0].isalpha()}
    del theirs["NONE"]
    assert {cls.__name__: code for code, cls in enumerate(members, start=1)} == theirs


# --- the corpus of real models -------------------------------------------------------------------


@pytest.mark.parametrize("path", corpus_params(quick=40))
def test_real_models_survive_writing_and_reading(path: Path) -> None:
    data = path.read_bytes()
    before = tflite.read_model(data, str(path))
    written = tflite.write_model(before)
    after = tflite.read_model(written)
    assert before == after
    for index in range(len(before.buffers or ())):
        assert tflite.buffer_bytes(before, index) == tflite.buffer_bytes(after, index)
    for graph_before, graph_after in zip(
        before.subgraphs or (), after.subgraphs or (), strict=True
    ):
        pairs = zip(graph_before.operators or (), graph_after.operators or (), strict=True)
        for one, other in pairs:
            assert tflite.operator_name(before, one) == tflite.operator_name(after, other)
            assert flat.ints(one.custom_options) == flat.ints(other.custom_options)
        for item in graph_before.tensors or ():
            kind = tflite.type_of(item, str(path))
            value = tflite.constant(before, item, str(path))
            assert value is None or (value.shape, value.dtype) == (kind.shape, kind.dtype.numpy)
    assert tflite.write_model(after) == written


@pytest.mark.parametrize("path", corpus_params(quick=6, seed=1))
def test_litert_computes_the_same_from_rewritten_models(path: Path) -> None:
    need_litert()
    data = path.read_bytes()
    read = tflite.read_model(data, str(path))
    if any(code.custom_code for code in read.operator_codes or ()):
        pytest.skip("LiteRT cannot run custom operators")
    results = [run(content) for content in (data, tflite.write_model(read))]
    assert len(results[0]) == len(results[1]) > 0
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def run(data: bytes) -> list[Any]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(7)
    for detail in interpreter.get_input_details():
        raw = rng.integers(0, 256, int(np.prod(detail["shape"])))
        interpreter.set_tensor(
            detail["index"], raw.astype(detail["dtype"]).reshape(detail["shape"])
        )
    interpreter.invoke()
    return [interpreter.get_tensor(item["index"]) for item in interpreter.get_output_details()]


def test_litert_has_kernels_of_the_newest_versions() -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    def known(number: BuiltinOperator, version: int) -> bool:
        ends = [Tensor(shape=np.array([1], np.int32), type=0, name=name) for name in "ab"]
        operator = tflite.Operator(inputs=np.array([0], np.int32), outputs=np.array([1], np.int32))
        subgraph = tflite.SubGraph(
            tensors=ends, inputs=operator.inputs, outputs=operator.outputs, operators=[operator]
        )
        code = tflite.operator_code(number, version=version)
        file = tflite.Model(
            version=3, operator_codes=[code], subgraphs=[subgraph], buffers=[tflite.Buffer()]
        )
        try:
            Interpreter(
                model_content=tflite.write_model(file),
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        except (RuntimeError, ValueError) as error:
            return "Didn't find op" not in str(error)
        return True

    missing = [
        (name, version)
        for name, version in VERSIONS.items()
        if not known(BuiltinOperator[name], version)
    ]
    assert not missing
    assert not known(BuiltinOperator.ABS, 200)

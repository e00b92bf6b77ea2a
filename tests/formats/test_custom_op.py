from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers as independent
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.formats import test_darwinn, test_tflite
from tests.support import corpus, corpus_models, need_litert
from tests.work import calls_at_most, memory_of

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError, UsageError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.formats import custom_op, darwinn, flat, flexbuffer, tflite
from fitzroy.formats.flexbuffer import Bytes, Type, Value, decode, encode

# --- flexbuffers ---------------------------------------------------------------------------------


def plain(value: Value) -> object:
    """A value as the independent reader gives it."""
    if isinstance(value, Bytes):
        return bytes(value.data) if value.type is Type.BLOB else value.text()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


# The independent module has ASCII keys only.
KEYS = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=8)


def values(greatest: int, reals: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-(1 << 63), greatest)
        | reals
        | st.text(max_size=300)
        | st.binary(max_size=300)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=6),
        max_leaves=20,
    )


READABLE = values((1 << 64) - 1, st.floats(allow_nan=False))
# The independent writer stops at integers beyond int64 and at finite reals beyond float32.
WRITABLE = values((1 << 63) - 1, st.floats(-1e38, 1e38) | st.sampled_from([math.inf, -math.inf]))


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(READABLE, st.sampled_from([1, 16]))
def test_any_value_survives_and_another_reader_agrees(value: Any, align: int) -> None:
    data = encode(value, align=align)
    assert plain(decode(data)) == value
    assert independent.Loads(data) == value
    assert encode(decode(data), align=align) == data


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(WRITABLE)
def test_what_another_writer_wrote_is_read(value: Any) -> None:
    assert plain(decode(independent.Dumps(value))) == value


@pytest.mark.long
def test_big_strings_and_many_elements_take_wider_fields() -> None:
    for count in (255, 256, 65_535, 65_536):
        value: list[Value] = [*range(count), b"x" * count]
        data = encode(value)
        assert plain(decode(data)) == value
        assert independent.Loads(data) == value


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, -2, 300]), np.array([1, 2], np.uint8), np.array([0.5, 0.1]),
        np.array([], np.int64), np.array([1 << 63], np.uint64), np.array([0.5, 2.0], np.float32),
    ],
    ids=str,
)  # fmt: skip
def test_typed_vectors_are_arrays(values: Any) -> None:
    data = encode(values)
    again = decode(data)
    assert isinstance(again, np.ndarray)
    assert again.dtype.kind == values.dtype.kind
    assert again.tolist() == values.tolist()
    assert independent.Loads(data) == values.tolist()


def test_vectors_of_booleans_are_arrays() -> None:
    again = decode(encode(np.array([True, False, True])))
    assert isinstance(again, np.ndarray)
    assert again.dtype == bool
    assert again.tolist() == [True, False, True]


def test_rare_types_of_another_writer_are_read() -> None:
    builder = independent.Builder()
    with builder.Map():
        builder.Key("a")
        builder.IndirectInt(-70_000)
        builder.Key("b")
        builder.IndirectFloat(0.5)
        builder.Key("c")
        builder.FixedTypedVectorFromElements([1, 2, 3])
        builder.Key("d")
        builder.FixedTypedVectorFromElements([0.5, 1.5])
        builder.Key("e")
        builder.TypedVectorFromElements([1000, 2000])
        builder.Key("f")
        builder.IndirectUInt(1 << 40)
        with builder.TypedVector("g"):
            builder.Key("x")
            builder.Key("yy")
    value = decode(builder.Finish())
    assert isinstance(value, dict)
    keys = value.pop("g")
    assert plain(value) == {
        "a": -70_000, "b": 0.5, "c": [1, 2, 3], "d": [0.5, 1.5], "e": [1000, 2000], "f": 1 << 40,
    }  # fmt: skip
    assert keys == [Bytes(b"x", Type.KEY), Bytes(b"yy", Type.KEY)]
    assert plain(decode(encode(keys))) == ["x", "yy"]


def test_strings_and_blobs_are_views_and_aligned_on_request() -> None:
    value: Value = {"a": 1, "b": Bytes(b"\xff" * 100), "c": b"\0" * 70_000}
    data = encode(value, align=16)
    again = decode(data)
    assert isinstance(again, dict)
    for key in "bc":
        item = again[key]
        assert isinstance(item, Bytes)
        assert (flat.offset_of(np.frombuffer(item.data, np.uint8), data) or 0) % 16 == 0
    assert again["b"] == Bytes(b"\xff" * 100)
    assert independent.GetRoot(data).AsMap["b"].AsStringBytes == b"\xff" * 100
    with pytest.raises(FormatError, match="not UTF-8"):
        Bytes(b"\xff").text()


@pytest.mark.parametrize(
    "value",
    [1 << 64, -(1 << 63) - 1, {"a\0": 1}, {"a" * 1024: 1}, np.zeros((2, 2)), np.array(["a"])],
    ids=["large", "small", "zero", "long", "matrix", "text"],
)
def test_what_no_flexbuffer_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"hold|large|bytes, or|array of"):
        encode(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes, a flexbuffer has 3 at least"),
        (b"\0\0\x03", "a root of 3 bytes"),
        (b"\0\x04\x08", "8 bytes at"),
        (b"\0\x6c\x01", "unknown type 27"),
        (b"\x05\x14\x01", "an offset leads 5 bytes back from 0"),
        (b"\0\x0c\x01", "a FLOAT of 1 bytes"),
        (b"\x09a\x01\x14\x01", "9 bytes at 1|10 bytes at 1"),
        (b"\x01ab\x02\x14\x01", "does not end with a zero"),
        (b"abc\x03\x10\x01", "a key has no end"),
        (b"\xff\x00\x28\x01", "bytes at"),
    ],
    ids=str,
)
def test_malformed_flexbuffers_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        decode(data, "some.tflite", 256)
    assert str(caught.value).startswith("some.tflite, byte 0x1")
    assert 256 <= (caught.value.offset or 0) <= 256 + len(data)


def test_keys_must_be_sorted_and_differ() -> None:
    data = encode({"a": 1, "b": 2})
    for keys in (b"b\0a\0", b"a\0a\0"):
        broken = data.replace(b"a\0b\0", keys)
        assert broken != data
        with pytest.raises(FormatError, match="after key"):
            decode(broken)
    with pytest.raises(FormatError, match="not UTF-8"):
        decode(data.replace(b"b\0", b"\xff\0"))


def test_vectors_shared_by_a_hostile_file_do_not_explode() -> None:
    # Twenty vectors of 100 references, each to the next vector: 100 ** 20 values if expanded.
    data = bytearray(b"\0")
    below = 0
    for _ in range(20):
        data.append(100)
        start = len(data)
        for number in range(100):
            data += bytes([(start + number - below) % 256])
        data += bytes([(10 << 2)]) * 100
        below = start
    data += (len(data) - below).to_bytes(1, "little") + bytes((10 << 2, 1))
    with calls_at_most(2000), pytest.raises(FormatError):
        decode(bytes(data))
    loop = b"\x01\x00\x28\x02\x28\x01"
    with pytest.raises(FormatError, match="nested 32 deep"):
        decode(loop)


def test_a_flexbuffer_cut_or_changed_anywhere_is_read_or_refused() -> None:
    data = encode({"a": [1, "text", None], "b": {"c": 0.5, "d": np.array([1, 300])}, "e": b"blob"})
    rng = random.Random(1)
    refused = 0
    for _ in range(3000):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            decode(bytes(changed[: rng.choice((len(data), rng.randrange(len(data))))]))
        except FormatError:
            refused += 1
    assert 1000 < refused < 3000


def test_keys_may_be_any_text() -> None:
    value: Value = {"größe": 1, "": 2, "z": 3}
    again = decode(encode(value))
    assert again == value
    assert isinstance(again, dict)
    assert list(again) == ["", "größe", "z"]


def test_nan_and_infinities_survive() -> None:
    again = decode(encode([math.nan, math.inf, -math.inf, 1e300, 1e-46]))
    assert isinstance(again, list)
    assert isinstance(again[0], float)
    assert math.isnan(again[0])
    assert again[1:] == [math.inf, -math.inf, 1e300, 1e-46]


# --- the operator --------------------------------------------------------------------------------

INPUTS = {"in": TensorType((1, 3, 5, 3), DType.INT8, Quantization.per_tensor(0.5, 3))}
OUTPUTS = {
    "row": TensorType((1, 5), DType.INT16),
    "map": TensorType((1, 3, 4, 8), DType.UINT8, Quantization.per_tensor(0.25, 128)),
}


def package(name: str = "sample") -> bytes:
    file = test_darwinn.package()
    file.package.compiler_version = name
    return darwinn.write_package(file)


def wrapped() -> tflite.Model:
    return custom_op.wrap(package(), INPUTS, OUTPUTS, description="sample")


def several() -> tflite.Model:
    """Two packages in one subgraph and one in another, between other operators."""
    model = wrapped()
    first = (model.subgraphs or [])[0]
    operator = (first.operators or [])[0]
    twice = dataclasses.replace(first, operators=[operator, dataclasses.replace(operator)])
    other = custom_op.wrap(package("other"), INPUTS, OUTPUTS)
    model.subgraphs = [twice, *(other.subgraphs or [])]
    return model


def with_options(model: tflite.Model, value: Value) -> tflite.Model:
    operator = ((model.subgraphs or [])[0].operators or [])[0]
    operator.custom_options = np.frombuffer(encode(value), np.uint8)
    return model


def test_a_wrapped_package_is_found_again() -> None:
    data = tflite.write_model(wrapped())
    model = tflite.read_model(data)
    (op,) = custom_op.extract(model, "some.tflite", data)
    assert (op.subgraph, op.operator) == (0, 0)
    assert (op.inputs, op.outputs) == (("in",), ("row", "map"))
    assert bytes(op.package) == package()
    assert op.offset is not None
    assert op.offset % custom_op.ALIGNMENT == 0
    assert data[op.offset : op.offset + len(op.package)] == op.package
    assert list(op.options) == ["1", "4", "5", "6", "7"]
    assert [op.options[key] for key in "1567"] == [0, -1, [18], []]
    file = op.read()
    assert darwinn.diff(file, test_darwinn.package()) == []
    inputs, outputs = op.layers(file.main)
    assert [layer.name for layer in (*inputs, *outputs)] == ["in", "row", "map"]
    assert tflite.operator_name(model, test_tflite.operator(model, 0)) == custom_op.CUSTOM_CODE
    types = {
        tensor.name: tflite.type_of(tensor) for tensor in test_tflite.main(model).tensors or ()
    }
    assert types == INPUTS | OUTPUTS


def test_without_the_file_offsets_are_unknown() -> None:
    (op,) = custom_op.extract(wrapped())
    assert op.offset is None
    assert bytes(op.package) == package()
    data = tflite.write_model(wrapped())
    (op,) = custom_op.extract(tflite.read_model(data), data=bytes(64))
    assert op.offset is None


def test_faults_of_a_package_are_placed_in_the_outer_file() -> None:
    broken = test_darwinn.package()
    test_darwinn.bitstream(broken.executables[0], 40)
    data = tflite.write_model(custom_op.replace(wrapped(), 0, test_darwinn.rewritten(broken)))
    (op,) = custom_op.extract(tflite.read_model(data), "some.tflite", data)
    with pytest.raises(FormatError, match="a bitstream of 40 bytes") as caught:
        op.read()
    assert caught.value.path == "some.tflite"
    assert caught.value.offset is not None
    assert data[caught.value.offset - 4 : caught.value.offset] == (40).to_bytes(4, "little")


def test_packages_are_replaced_one_by_one() -> None:
    before = several()
    data = tflite.write_model(before)
    model = tflite.read_model(data)
    assert [(op.subgraph, op.operator) for op in custom_op.extract(model)] == [
        (0, 0), (0, 1), (1, 0),
    ]  # fmt: skip
    for index in range(3):
        written = tflite.write_model(custom_op.replace(model, index, package("changed")))
        ops = custom_op.extract(tflite.read_model(written), data=written)
        names = [op.read().package.compiler_version for op in ops]
        expected = ["sample", "sample", "other"]
        expected[index] = "changed"
        assert names == expected
        assert all((op.offset or 1) % custom_op.ALIGNMENT == 0 for op in ops)
    assert model == tflite.read_model(data)
    assert custom_op.extract(model)[0].read().package.compiler_version == "sample"
    for index in (-1, 3):
        with pytest.raises(UsageError, match=f"no package {index}"):
            custom_op.replace(model, index, b"")


def test_replacing_a_package_by_itself_changes_nothing() -> None:
    data = tflite.write_model(several())
    model = changed = tflite.read_model(data)
    for index, op in enumerate(custom_op.extract(model)):
        changed = custom_op.replace(changed, index, op.package)
    assert tflite.read_model(tflite.write_model(changed)) == model


def test_all_options_stay() -> None:
    options: dict[str, Value] = {
        "1": 0, "2": "chip", "3": Bytes(b"\xff"), "4": package(), "5": 1,
        "6": np.array([18, 18]), "7": [Bytes(b"\x80more")], "x": {"y": [None, True, 1.5]},
    }  # fmt: skip
    model = with_options(wrapped(), options)
    (op,) = custom_op.extract(custom_op.replace(model, 0, package("changed")))
    expected = decode(encode({**options, "4": package("changed")}))
    assert isinstance(expected, dict)
    assert list(op.options) == list(expected)
    assert encode(dict(op.options)) == encode(expected)
    assert op.read().package.compiler_version == "changed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([1], "the options are no map"),
        ({"1": 0}, 'no package .key "4".*keys are 1'),
        ({"4": 5}, "no package"),
    ],
)
def test_operators_without_package_are_refused(options: Value, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        custom_op.extract(with_options(wrapped(), options))


def test_operators_without_options_or_names_are_refused() -> None:
    model = wrapped()
    test_tflite.operator(model, 0).custom_options = None
    with pytest.raises(FormatError, match="SubGraph 0, Operator 0: the operator has no options"):
        custom_op.extract(model)
    with pytest.raises(FormatError, match="no options"):
        custom_op.replace(model, 0, package())
    model = wrapped()
    test_tflite.tensor(model, 1).name = None
    with pytest.raises(FormatError, match=r"Operator 0\.outputs: tensor 1 has no name"):
        custom_op.extract(model)
    model = wrapped()
    test_tflite.operator(model, 0).inputs = np.array([-1])
    with pytest.raises(FormatError, match="tensor -1 has no name"):
        custom_op.extract(model)


def test_models_without_packages_have_none() -> None:
    assert custom_op.extract(test_tflite.model()) == []


def test_tensors_and_layers_must_agree() -> None:
    with pytest.raises(FormatError, match="inputs: tensors without layer: 'other'"):
        custom_op.wrap(package(), INPUTS | {"other": INPUTS["in"]}, OUTPUTS)
    with pytest.raises(FormatError, match="inputs: layers without tensor: 'in'"):
        custom_op.wrap(package(), {}, OUTPUTS)
    with pytest.raises(FormatError, match="a tensor of uint8 for a layer of SIGNED_FIXED_POINT8"):
        custom_op.wrap(package(), {"in": TensorType((1, 3, 5, 3), DType.UINT8)}, OUTPUTS)
    with pytest.raises(FormatError, match=r"shape \[1, 3, 5\] for a layer of \[3, 5, 3\]"):
        custom_op.wrap(package(), {"in": TensorType((1, 3, 5), DType.INT8)}, OUTPUTS)
    (op,) = custom_op.extract(wrapped())
    stranger = test_darwinn.execution()
    (stranger.input_layers or [])[0].name = "else"
    with pytest.raises(FormatError, match="tensors without layer: 'in'"):
        op.layers(stranger)


def test_outputs_that_carry_state_need_no_tensor() -> None:
    model = custom_op.wrap(package(), INPUTS, {"row": OUTPUTS["row"]})
    (op,) = custom_op.extract(model)
    _, outputs = op.layers(op.read().main)
    assert [layer.name for layer in outputs] == ["row"]


def test_litert_loads_the_model_and_misses_only_the_operator() -> None:
    need_litert()
    from ai_edge_litert.interpreter import Interpreter

    for model in (wrapped(), several()):
        interpreter = Interpreter(model_content=tflite.write_model(model))
        (details,) = interpreter.get_input_details()
        assert (details["name"], details["dtype"]) == ("in", np.int8)
        with pytest.raises(RuntimeError, match="unresolved custom op: edgetpu-custom-op"):
            interpreter.allocate_tensors()


# --- corpus --------------------------------------------------------------------------------------


@pytest.mark.corpus
def test_models_of_the_corpus_survive_replacing_their_packages() -> None:
    corpus()
    models = packages = 0
    for path in corpus_models("**/*edgetpu.tflite"):
        data = path.read_bytes()
        model = changed = tflite.read_model(data, path.name)
        ops = custom_op.extract(model, path.name, data)
        for index, op in enumerate(ops):
            assert op.offset is not None
            assert data[op.offset : op.offset + len(op.package)] == op.package
            op.layers(op.read().main)
            changed = custom_op.replace(changed, index, op.package)
        written = tflite.write_model(changed)
        again = tflite.read_model(written)
        differing = [line for line in flat.diff(model, again) if ".custom_options" not in line]
        assert differing == []
        for op, other in zip(ops, custom_op.extract(again, data=written), strict=True):
            assert other.package == op.package
            assert other.options.keys() == op.options.keys()
            assert encode(dict(other.options)) == encode(dict(op.options))
            assert (other.offset or 1) % custom_op.ALIGNMENT == 0
        models += 1
        packages += len(ops)
    print(f"{models} models, {packages} packages")
    assert packages >= models > 0


@pytest.mark.corpus
def test_all_custom_options_of_the_corpus_are_read_as_by_another_reader() -> None:
    corpus()
    count = 0
    for path in corpus_models():
        try:
            model = tflite.read_model(path.read_bytes(), path.name)
        except FitzroyError:
            continue
        for subgraph in model.subgraphs or ():
            for operator in subgraph.operators or ():
                content = operator.custom_options
                if content is None or not len(content):
                    continue
                value = flexbuffer.decode(content.data)
                assert isinstance(value, dict)
                other = independent.GetRoot(content.tobytes()).AsMap
                assert list(value) == [str(key.Value) for key in other.Keys]
                for key, item in value.items():
                    if isinstance(item, Bytes) and item.type is Type.STRING:
                        assert item.data == other[key].AsStringBytes
                    else:
                        assert plain(item) == other[key].Value
                count += 1
    print(f"{count} operators")
    assert count


# --- operators in a model ------------------------------------------------------------------------


def chain(count: int) -> tflite.Model:
    """Rectifiers in a row, t0 to t<count>, with a signature and a buffer for metadata."""
    shape = np.array([1, 4], np.int32)
    tensors = [tflite.Tensor(name=f"t{n}", shape=shape, type=9, buffer=0) for n in range(count + 1)]
    operators = [
        tflite.Operator(inputs=np.array([n], np.int32), outputs=np.array([n + 1], np.int32))
        for n in range(count)
    ]
    ends = (
        tflite.TensorMap(name="x", tensor_index=0),
        tflite.TensorMap(name="y", tensor_index=count),
    )
    return tflite.Model(
        version=tflite.VERSION,
        operator_codes=[tflite.operator_code(tflite.BuiltinOperator.RELU)],
        subgraphs=[
            tflite.SubGraph(
                name="main",
                tensors=tensors,
                inputs=np.array([0], np.int32),
                outputs=np.array([count], np.int32),
                operators=operators,
            )
        ],
        buffers=[
            tflite.Buffer(),
            tflite.Buffer(data=np.zeros(4, np.uint8)),
            tflite.Buffer(data=np.frombuffer(b"1.13.1\0\0", np.uint8)),
        ],
        metadata=[tflite.Metadata(name="min_runtime_version", buffer=2)],
        signature_defs=[tflite.SignatureDef(inputs=[ends[0]], outputs=[ends[1]])],
    )


def part(first: int, last: int) -> custom_op.Segment:
    return custom_op.Segment(
        frozenset(range(first, last)), (f"t{first}",), (f"t{last}",), b"package %d" % first
    )


def test_parts_of_a_model_are_embedded() -> None:
    model = custom_op.embed(chain(6), [part(4, 6), part(1, 3)])
    again = tflite.read_model(tflite.write_model(model))
    [graph] = list(again.subgraphs or ())
    assert [tensor.name for tensor in graph.tensors or ()] == ["t0", "t1", "t3", "t4", "t6"]
    found = custom_op.extract(again)
    assert [(item.inputs, item.outputs) for item in found] == [
        (("t1",), ("t3",)),
        (("t4",), ("t6",)),
    ]
    assert [bytes(item.package) for item in found] == [b"package 1", b"package 4"]
    names = [tflite.operator_name(again, item) for item in graph.operators or ()]
    assert names == ["RELU", custom_op.CUSTOM_CODE, "RELU", custom_op.CUSTOM_CODE]
    assert len(again.buffers or ()) == 2
    [metadata] = list(again.metadata or ())
    assert (again.buffers or [])[metadata.buffer].data is not None
    [signature] = list(again.signature_defs or ())
    assert [item.tensor_index for item in signature.outputs or ()] == [4]


def test_what_is_large_in_a_package_is_copied_once() -> None:
    main = darwinn.read_package(package()).main
    large = dataclasses.replace(main, parameters=np.zeros(8 << 20, np.uint8))
    with memory_of() as memory:
        pieces = darwinn.package_pieces(darwinn.PackageFile(executables=[large]))
        segment = dataclasses.replace(part(1, 3), package=pieces)
        size = len(tflite.write_model(custom_op.embed(chain(6), [segment])))
    # Room for the file is reserved, but takes memory only where something is written.
    assert memory.peak < 2.1 * size


def test_operators_that_nobody_reads_any_more_go_away() -> None:
    """A program has the constants that t1 and t2 are, and reads t0 alone."""
    model = chain(4)
    names = ("t0",), ("t3",)
    inner = custom_op.embed(model, [custom_op.Segment(frozenset({2}), *names, b"x")])
    assert [
        tflite.operator_name(inner, item) for item in (inner.subgraphs or [])[0].operators or ()
    ] == [
        custom_op.CUSTOM_CODE,
        "RELU",
    ]
    named = tflite.TensorMap(name="inner", tensor_index=2)
    model.signature_defs = [tflite.SignatureDef(outputs=[named])]
    kept = custom_op.embed(model, [custom_op.Segment(frozenset({2}), *names, b"x")])
    assert len((kept.subgraphs or [])[0].operators or ()) == 4
    effects = tflite.operator_code(tflite.BuiltinOperator.CALL_ONCE)
    model = dataclasses.replace(chain(4), operator_codes=[effects])
    kept = custom_op.embed(model, [custom_op.Segment(frozenset({2}), *names, b"x")])
    assert len((kept.subgraphs or [])[0].operators or ()) == 4


def test_signatures_that_name_what_goes_away() -> None:
    model = chain(6)
    inner = tflite.TensorMap(name="inner", tensor_index=2)
    for signature in (
        tflite.SignatureDef(signature_key="s", inputs=[inner]),
        tflite.SignatureDef(signature_key="s", outputs=[inner]),
    ):
        changed = dataclasses.replace(model, signature_defs=[signature])
        with pytest.raises(UnsupportedError, match=r"signature 's' names tensor 2 as 'inner'"):
            custom_op.embed(changed, [part(1, 3)])
        # What stays may be named, wherever it is.
        assert custom_op.embed(changed, [part(3, 5)]).signature_defs


def test_parts_must_not_wait_for_one_another() -> None:
    ring = custom_op.Segment(frozenset({0, 2}), ("t0", "t2"), ("t1", "t3"), b"x")
    with pytest.raises(UsageError, match="wait for one another"):
        custom_op.embed(chain(3), [ring])
    with pytest.raises(UsageError, match="no tensor 'u'"):
        custom_op.embed(chain(3), [custom_op.Segment(frozenset({0}), ("u",), ("t1",), b"x")])

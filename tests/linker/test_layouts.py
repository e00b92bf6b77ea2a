from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import corpus_models, corpus_params

from fitzroy.base.errors import CapacityError, FormatError
from fitzroy.base.types import Array
from fitzroy.formats import custom_op, darwinn, flat, tflite
from fitzroy.formats.darwinn import (
    DataType,
    InputLayer,
    Layer,
    OutputLayer,
    OutputLayout,
    OutputShapeInfo,
    TensorLayout,
    TensorShape,
)
from fitzroy.linker.layouts import (
    GridMap,
    InputEncoder,
    Ownership,
    SliceMap,
    decode_output,
    default_ownership,
    encode_input,
    encode_output,
    flip_signs,
    output_layout,
    output_map,
    output_shape_info,
    ownership_of,
    split,
)

Extent = tuple[int, int, int]


def tables(layout: OutputLayout) -> list[list[int]]:
    return [
        [] if values is None else values.tolist()
        for values in (
            layout.y_coordinate_to_linear_tile_id_map,
            layout.x_coordinate_to_linear_tile_id_map,
            layout.linearized_tile_byte_offset,
            layout.x_coordinate_to_local_byte_offset,
            layout.y_coordinate_to_local_y_offset,
            layout.x_coordinate_to_local_y_row_size,
        )
    ]


def shape_of(extent: Extent) -> TensorShape:
    return TensorShape(dimension=np.array([(0, 0), *[(0, n - 1) for n in extent]], "i4"))


def layer_of(
    extent: Extent,
    kind: DataType = DataType.FIXED_POINT8,
    ownership: Ownership | None = None,
    *,
    slices: bool = False,
    executions: int = 1,
) -> Layer:
    y, x, z = extent
    output = OutputLayer()
    if slices:
        output.shape_info, size = output_shape_info(extent, kind.itemsize, ownership)
    else:
        output.layout, size = output_layout(extent, kind.itemsize, ownership)
    return Layer(
        name="out", size_bytes=size, y_dim=y, x_dim=x, z_dim=z, data_type=kind, any_layer=output,
        shape=shape_of(extent), execution_count_per_inference=executions,
    )  # fmt: skip


def noise(size: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def by_formula(layer: Layer, data: Array) -> Array:
    """Relayout element by element, as the format says."""
    output = layer.any_layer
    assert isinstance(output, OutputLayer)
    assert output.layout is not None
    ys, xs, tiles, local_x, local_y, row_size = tables(output.layout)
    size = layer.element.itemsize
    result = bytearray()
    for y in range(layer.y_dim):
        for x in range(layer.x_dim):
            at = tiles[ys[y] + xs[x]] + local_y[y] * row_size[x] + local_x[x]
            result += data[at * size : (at + layer.z_dim) * size].tobytes()
    return np.frombuffer(result, np.uint8)


# --- tables --------------------------------------------------------------------------------------


def test_split() -> None:
    assert split(10, 4) == (0, 0, 0, 1, 1, 2, 2, 2, 3, 3)
    assert split(2, 4) == (0, 2)
    assert split(1, 4) == (0,)
    assert [Counter(split(19, 4))[part] for part in range(4)] == [5, 5, 5, 4]


def test_layout_of_an_image() -> None:
    layout, size = output_layout((2, 5, 3), 1)
    assert tables(layout) == [
        [0, 8],
        [0, 0, 1, 2, 3],
        [0, 8, 12, 16, 20, 20, 20, 20, 20, 28, 32, 36, 40, 40, 40, 40],
        [0, 4, 0, 0, 0],
        [0, 0],
        [8, 8, 4, 4, 4],
    ]
    assert size == 40


def test_layout_of_vectors() -> None:
    layout, size = output_layout((1, 1, 130), 1)
    assert tables(layout)[2:] == [[0, 64, 128, *[132] * 13], [0], [0], [64]]
    assert size == 136
    whole, size = output_layout((1, 1, 130), 1, Ownership((0,), (0,), 1))
    assert tables(whole)[2:] == [[0], [0], [0], [132]]
    assert size == 136
    short, size = output_layout((1, 1, 3), 2)
    assert tables(short)[2:] == [[0, *[4] * 15], [0], [0], [4]]
    assert size == 8
    long, size = output_layout((1, 1, 1100), 1)
    assert len(tables(long)[2]) == 32
    assert size == 1104


def test_several_passes() -> None:
    # Two passes over the rows, and the second one leaves the last row of tiles idle.
    rows = (0, 4, 4, 8, 12, 16, 20, 24)
    ownership = Ownership(rows, split(4, 4), 32)
    layout, size = output_layout((8, 4, 4), 1, ownership)
    # The second pass begins at a multiple of 32 bytes.
    assert tables(layout)[2][12:29:4] == [64, 96, 112, 128, 144]
    assert size == 144
    assert ownership_of(layout) == ownership
    layer = layer_of((8, 4, 4), ownership=ownership)
    data = noise(layer.size_bytes)
    assert (decode_output(layer, data) == by_formula(layer, data)).all()


@pytest.mark.parametrize(
    ("match", "extent", "ownership"),
    [
        ("the ownership of 2 rows", (3, 1, 1), Ownership((0, 4), (0,))),
        ("linear tile 16", (2, 1, 1), Ownership((0, 16), (0,))),
        ("linear tile -4", (2, 1, 1), Ownership((0, -4), (0,))),
        ("two parts .* on linear tile 1", (2, 2, 1), Ownership((0, 1), (0, 1))),
        ("a vector of 1025 channels", (1, 1, 1025), Ownership((0,), (0,), 16)),
        ("an output of extent", (0, 1, 1), Ownership((), (0,))),
        ("the ownership of", (1, 1, 0), Ownership((0,), (0,))),
    ],
)
def test_faulty_ownership(match: str, extent: Extent, ownership: Ownership) -> None:
    with pytest.raises(FormatError, match=match):
        output_layout(extent, 1, ownership)


def test_slices_need_adjacent_rows() -> None:
    ownership = Ownership((0, 4, 0), (0,))
    output_layout((3, 1, 4), 1, ownership)
    with pytest.raises(FormatError, match="slices of rows 0 and 2"):
        output_shape_info((3, 1, 4), 1, ownership)


# --- bytes ---------------------------------------------------------------------------------------

EXTENTS = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 70))
KINDS = st.sampled_from(
    [DataType.FIXED_POINT8, DataType.SIGNED_FIXED_POINT16, DataType.SIGNED_FIXED_POINT32]
)


@settings(max_examples=60, deadline=None)
@given(EXTENTS, KINDS)
def test_relayout(extent: Extent, kind: DataType) -> None:
    layer = layer_of(extent, kind)
    packed = noise(layer.packed_bytes)
    sent = encode_output(layer, packed)
    assert len(sent) == layer.size_bytes
    assert (decode_output(layer, sent) == packed).all()
    if extent[:2] != (1, 1):
        wanted = by_formula(layer, sent)
        assert (output_map(layer).unpack(sent) == wanted).all()
        assert (decode_output(layer, sent) == (
            flip_signs(wanted, kind.itemsize) if kind.signed else wanted
        )).all()  # fmt: skip
    sliced = layer_of(extent, kind, slices=True)
    assert sliced.size_bytes == layer.size_bytes
    assert isinstance(output_map(sliced), SliceMap)
    assert (encode_output(sliced, packed) == sent).all()
    assert (decode_output(sliced, sent) == packed).all()


def test_big_outputs_are_quick() -> None:
    layer = layer_of((512, 512, 21))
    packed = noise(layer.packed_bytes)
    places = output_map(layer)
    assert (places.unpack(places.pack(packed)) == packed).all()


def test_executions_lie_one_after_the_other() -> None:
    layer = layer_of((3, 3, 3), DataType.SIGNED_FIXED_POINT8, executions=2)
    packed = noise(2 * layer.packed_bytes)
    sent = encode_output(layer, packed)
    assert len(sent) == 2 * layer.size_bytes
    one = replace(layer, execution_count_per_inference=1)
    assert (sent[layer.size_bytes :] == encode_output(one, packed[layer.packed_bytes :])).all()
    assert (decode_output(layer, sent.tobytes()) == packed).all()


def test_slices_of_batches() -> None:
    # Two batches, stored in reverse and with a gap, channels backwards.
    info = OutputShapeInfo(
        slice_layout=[
            TensorLayout(
                shape=TensorShape(dimension=np.array([(n, n), (0, 0), (0, 1), (0, 2)], "i4")),
                stride=np.array([6, 6, 3, -1], "i4"),
            )
            for n in (1, 2)
        ],
        slice_offset=np.array([10, 2], "i4"),
    )
    shape = TensorShape(dimension=np.array([(1, 2), (0, 0), (0, 1), (0, 2)], "i4"))
    layer = Layer(
        name="out", size_bytes=16, y_dim=1, x_dim=2, z_dim=3,
        any_layer=OutputLayer(shape_info=info), shape=shape,
    )  # fmt: skip
    data = np.arange(16, dtype=np.uint8)
    places = output_map(layer)
    assert places.unpack(data).tolist() == [10, 9, 8, 13, 12, 11, 2, 1, 0, 5, 4, 3]
    assert places.pack(places.unpack(data))[[6, 7, 14, 15]].tolist() == [0] * 4
    assert places.pack(places.unpack(data))[[0, 5, 13]].tolist() == [0, 5, 13]


def test_signs() -> None:
    assert flip_signs(bytes([0, 127, 128, 255]), 1).tolist() == [128, 255, 0, 127]
    assert flip_signs(bytes([0, 127, 128, 255]), 2).tolist() == [0, 255, 128, 127]
    values = np.array([-32768, -1, 0, 32767], "<i2")
    biased = flip_signs(values, 2).view("<u2")
    assert biased.tolist() == [0, 32767, 32768, 65535]
    assert (flip_signs(biased, 2).view("<i2") == values).all()
    with pytest.raises(FormatError, match="3 bytes"):
        flip_signs(b"abc", 2)


def test_inputs() -> None:
    layer = Layer(
        name="in", size_bytes=8, y_dim=1, x_dim=1, z_dim=3, any_layer=InputLayer(),
        data_type=DataType.SIGNED_FIXED_POINT8, execution_count_per_inference=2,
    )  # fmt: skip
    sent = encode_input(layer, np.array([-128, -1, 0, 1, 127, 2], np.int8))
    assert sent.tolist() == [0, 127, 128, 0, 0, 0, 0, 0, 129, 255, 130, 0, 0, 0, 0, 0]
    plain = replace(layer, data_type=DataType.FIXED_POINT8, execution_count_per_inference=1)
    assert encode_input(plain, b"abc").tobytes() == b"abc\0\0\0\0\0"
    with pytest.raises(FormatError, match="4 bytes, expected 1 of 3 bytes"):
        encode_input(plain, b"abcd")
    with pytest.raises(FormatError, match="in 2"):
        encode_input(replace(plain, size_bytes=2), b"abc")
    with pytest.raises(FormatError, match="it is no output"):
        output_map(plain)


@pytest.mark.parametrize("kind", [DataType.FIXED_POINT8, DataType.SIGNED_FIXED_POINT8])
@pytest.mark.parametrize("executions", [1, 2])
@pytest.mark.parametrize(("size", "padded"), [(3000, 3000), (3000, 3008), (9, 16), (1024, 1032)])
def test_inputs_in_pieces(kind: DataType, executions: int, size: int, padded: int) -> None:
    layer = Layer(
        name="in", size_bytes=padded, y_dim=1, x_dim=1, z_dim=size, data_type=kind,
        any_layer=InputLayer(), execution_count_per_inference=executions,
    )  # fmt: skip
    encode, data = InputEncoder(layer), noise(size * executions)
    wanted = encode_input(layer, data)
    pieces = encode.pieces(data, 1024)
    assert np.concatenate(pieces).tobytes() == wanted.tobytes()
    assert all(len(piece) % 1024 == 0 for piece in pieces[:-1])
    # What needs no change is the caller's memory, and the result of a plain call is never.
    bare = kind is DataType.FIXED_POINT8 and (size == padded or (executions == 1 and size > 1024))
    assert np.shares_memory(pieces[0], data) == (bare or (len(pieces) > 1))
    assert not np.shares_memory(encode(data), data)
    with pytest.raises(FormatError, match="expected"):
        encode.pieces(data[1:], 1024)


# --- hostile layers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "name", "index", "value"),
    [
        ("linear tiles 0 to 103", "y_coordinate_to_linear_tile_id_map", 3, 100),
        ("linear tiles -1 to 15", "x_coordinate_to_linear_tile_id_map", 0, -1),
        ("elements from byte 0 to 2147483662", "linearized_tile_byte_offset", 2, 2**31 - 1),
        ("elements from byte -8", "linearized_tile_byte_offset", 0, -8),
        ("elements from byte", "x_coordinate_to_local_byte_offset", 3, -1000),
        ("elements from byte", "y_coordinate_to_local_y_offset", 3, 2**31 - 1),
        ("elements from byte", "x_coordinate_to_local_y_row_size", 3, -(2**31)),
    ],
)
def test_hostile_coordinates(match: str, name: str, index: int, value: int) -> None:
    layer = layer_of((8, 8, 3))
    output = layer.any_layer
    assert isinstance(output, OutputLayer)
    getattr(output.layout, name)[index] = value
    with pytest.raises(FormatError, match=match):
        output_map(layer)


def test_offsets_that_overflow() -> None:
    layer = layer_of((4, 4, 1), DataType.SIGNED_FIXED_POINT32)
    output = layer.any_layer
    assert isinstance(output, OutputLayer)
    assert output.layout is not None
    largest = np.full(4, 2**31 - 1, "i4")
    output.layout.y_coordinate_to_local_y_offset = largest
    output.layout.x_coordinate_to_local_y_row_size = largest
    with pytest.raises(FormatError, match="elements from byte"):
        output_map(layer)


def test_tables_of_the_wrong_length() -> None:
    for _, name, _ in OutputLayout.declared().fields:
        for values in (None, np.zeros(0, "i4"), np.zeros(7, "i4"), np.zeros(9, "i4")):
            layer = layer_of((8, 8, 3))
            output = layer.any_layer
            assert isinstance(output, OutputLayer)
            setattr(output.layout, name, values)
            with pytest.raises(FormatError, match=r"expected (8|some)|linear tiles"):
                output_map(layer)


@pytest.mark.parametrize(
    ("match", "layer"),
    [
        ("bytes in 10", replace(layer_of((8, 8, 3)), size_bytes=10)),
        ("an extent of", replace(layer_of((8, 8, 3)), z_dim=0)),
        ("bytes in 256", replace(layer_of((8, 8, 3)), y_dim=1 << 20, x_dim=1 << 20)),
        ("needs a layout", replace(layer_of((8, 8, 3)), any_layer=OutputLayer())),
    ],
)
def test_hostile_layers(match: str, layer: Layer) -> None:
    with pytest.raises(FormatError, match=match):
        output_map(layer)


def test_more_positions_than_the_budget_has_memory_for() -> None:
    vast = replace(layer_of((8, 8, 3)), y_dim=1 << 20, x_dim=1 << 20, size_bytes=3 << 40)
    with pytest.raises(CapacityError, match="1048576 by 1048576"):
        output_map(vast)


def slice_of(ranges: list[tuple[int, int]], strides: list[int]) -> TensorLayout:
    return TensorLayout(
        shape=TensorShape(dimension=np.array(ranges, "i4").reshape(-1, 2)),
        stride=np.array(strides, "i4"),
    )


GOOD = [(0, 0), (0, 1), (0, 1), (0, 3)]


@pytest.mark.parametrize(
    ("match", "layouts", "offsets"),
    [
        ("1 slices and 2 offsets", [slice_of(GOOD, [16, 8, 4, 1])], [0, 0]),
        ("elements from byte 4 to 20", [slice_of(GOOD, [16, 8, 4, 1])], [4]),
        ("elements from byte -8", [slice_of(GOOD, [16, -8, 4, 1])], [0]),
        ("elements from byte", [slice_of(GOOD, [16, 2**31 - 1, 4, 1])], [0]),
        ("indices 0 to 2", [slice_of([(0, 0), (0, 2), (0, 1), (0, 3)], [16, 8, 4, 1])], [0]),
        ("indices 1 to 0", [slice_of([(0, 0), (1, 0), (0, 1), (0, 3)], [16, 8, 4, 1])], [0]),
        ("4 ranges and 3 strides", [slice_of(GOOD, [8, 4, 1])], [0]),
        ("slices of 8 elements", [slice_of([(0, 0), (0, 0), *GOOD[2:]], [8, 8, 4, 1])], [0]),
        ("0 dimensions", [slice_of([], [])], [0]),
        ("no shape", [TensorLayout()], [0]),
        ("slices of 0 elements", [], []),
    ],
)
def test_hostile_slices(match: str, layouts: list[TensorLayout], offsets: list[int]) -> None:
    info = OutputShapeInfo(slice_layout=layouts, slice_offset=np.array(offsets, "i4"))
    layer = replace(layer_of((2, 2, 4)), size_bytes=16, any_layer=OutputLayer(shape_info=info))
    with pytest.raises(FormatError, match=match):
        output_map(layer)


def test_slices_need_the_shape_of_the_layer() -> None:
    with pytest.raises(FormatError, match="no shape"):
        output_map(replace(layer_of((2, 2, 4), slices=True), shape=None))
    huge = TensorShape(dimension=np.array([(0, 2**31 - 2)] * 8, "i4"))
    with pytest.raises(FormatError, match="a shape of"):
        output_map(replace(layer_of((2, 2, 4), slices=True), shape=huge))


def test_buffers_of_the_wrong_size() -> None:
    for slices in (False, True):
        layer = layer_of((8, 8, 3), slices=slices)
        places = output_map(layer)
        for size in (0, layer.size_bytes - 1):
            with pytest.raises(FormatError, match="of an output of"):
                places.unpack(bytes(size))
        with pytest.raises(FormatError, match="of an output of"):
            places.pack(bytes(layer.packed_bytes + 1))
        with pytest.raises(FormatError, match="expected 1 of 256"):
            decode_output(layer, bytes(300))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_layouts_never_leave_the_buffer(data: st.DataObject) -> None:
    layer = layer_of((5, 6, 3))
    output = layer.any_layer
    assert isinstance(output, OutputLayer)
    assert output.layout is not None
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from([field[1] for field in OutputLayout.declared().fields]))
        values = getattr(output.layout, name)
        values[data.draw(st.integers(0, len(values) - 1))] = data.draw(
            st.one_of(st.integers(-4, 200), st.integers(-(2**31), 2**31 - 1))
        )
    sent = noise(layer.size_bytes)
    try:
        places = output_map(layer)
    except FormatError:
        return
    assert (places.unpack(sent) == by_formula(layer, sent)).all()


# --- compiled models -----------------------------------------------------------------------------


def outputs(path: Path) -> list[Layer]:
    data = path.read_bytes()
    if path.suffix == ".bin":
        executables = [darwinn.read_executable(data, str(path))]
    else:
        operators = custom_op.extract(tflite.read_model(data, str(path)))
        executables = [item for operator in operators for item in operator.read().executables]
    return [layer for item in executables for layer in item.output_layers or ()]


def usual(layer: Layer, path: Path) -> Ownership | None:
    """The ownership that is expected; None is the default."""
    if path.name.startswith("model_padding_") and "stride" not in path.name:
        # A padded image of 2 x 2: the border belongs to the owners of the pixels next to it.
        y, x, _ = layer.extent
        return Ownership((0,) * (y // 2) + (8,) * (y // 2), (0,) * (x // 2) + (2,) * (x // 2))
    if "mobilenet_v2_w_fc" in path.name:
        # A softmax of the scalar core, which sends it whole.
        return Ownership((0,), (0,), 1)
    return None


@pytest.mark.parametrize(
    "path",
    corpus_params("**/*edgetpu*.tflite") + corpus_params("**/*.executable.bin", quick=2),
)
def test_compiled_models(path: Path) -> None:
    for layer in outputs(path):
        output = layer.any_layer
        assert isinstance(output, OutputLayer)
        assert output.layout is not None
        size = layer.element.itemsize
        ownership = ownership_of(output.layout)
        for owners in (ownership, usual(layer, path)):
            layout, size_bytes = output_layout(layer.extent, size, owners)
            assert flat.diff(layout, output.layout) == []
            assert size_bytes == layer.size_bytes
        packed = noise(layer.packed_bytes)
        sent = encode_output(layer, packed)
        assert (decode_output(layer, sent) == packed).all()
        info, _ = output_shape_info(layer.extent, size, ownership)
        sliced = replace(
            layer, any_layer=OutputLayer(shape_info=info), shape=shape_of(layer.extent)
        )
        assert (encode_output(sliced, packed) == sent).all()


@pytest.mark.corpus
def test_most_compiled_models_split_evenly() -> None:
    paths = [*corpus_models("**/*edgetpu*.tflite"), *corpus_models("**/*.executable.bin")]
    if not paths:
        pytest.skip("no corpus (set FITZROY_CORPUS)")
    layers = [layer for path in paths for layer in outputs(path)]
    even = 0
    for layer in layers:
        output = layer.any_layer
        assert isinstance(output, OutputLayer)
        assert output.layout is not None
        layout, _ = output_layout(layer.extent, layer.element.itemsize)
        even += not flat.diff(layout, output.layout)
    assert (even, len(layers)) == (101, 110)


def test_kinds_of_maps() -> None:
    assert isinstance(output_map(layer_of((4, 4, 4))), GridMap)
    assert isinstance(output_map(layer_of((4, 4, 4), slices=True)), SliceMap)
    # As in the driver, slices are for one execution only.
    both = replace(layer_of((1, 1, 4), slices=True), execution_count_per_inference=2)
    assert isinstance(output_map(both), GridMap)
    assert default_ownership(2, 4) == Ownership((0, 8), (0, 1, 2, 3))

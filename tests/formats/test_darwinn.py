from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.support import corpus, corpus_models
from tests.work import calls_at_most, memory_of

from fitzroy.base.diagnostics import Severity
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array
from fitzroy.formats import custom_op, darwinn, flat, tflite
from fitzroy.formats.darwinn import (
    DataType,
    Description,
    Direction,
    DmaDescriptorHint,
    DmaHint,
    DmaHints,
    Executable,
    ExecutableType,
    FenceHint,
    FieldOffset,
    InputLayer,
    InstructionBitstream,
    InstructionHint,
    InterruptHint,
    Layer,
    Meta,
    NumericsConstants,
    OutputLayer,
    OutputLayout,
    OutputShapeInfo,
    Package,
    PackageFile,
    Position,
    TensorLayout,
    TensorShape,
)

STAND_ALONE, CACHING, EXECUTION_ONLY = ExecutableType
INPUT = Description.BASE_ADDRESS_INPUT_ACTIVATION
OUTPUT = Description.BASE_ADDRESS_OUTPUT_ACTIVATION
PARAMETER = Description.BASE_ADDRESS_PARAMETER
SCRATCH = Description.BASE_ADDRESS_SCRATCH


def dma(desc: Description, size: int, name: str = "", offset: int = 0) -> DmaHint:
    outfeed = desc is OUTPUT
    return DmaHint(
        any_hint=DmaDescriptorHint(
            meta=Meta(desc=desc, name=name), offset_in_bytes=offset, size_in_bytes=size
        ),
        direction=Direction.OUTFEED if outfeed else Direction.INFEED,
    )


def chunk(bundles: int, *fields: tuple[Description, str]) -> InstructionBitstream:
    """A chunk with both halves of an address per field, in one bundle each."""
    return InstructionBitstream(
        bitstream=np.arange(16 * bundles, dtype=np.uint8),
        field_offsets=[
            FieldOffset(
                meta=Meta(desc=desc, name=name, position=position),
                offset_bit=128 * (2 * number + position) + 70,
            )
            for number, (desc, name) in enumerate(fields)
            for position in Position
        ],
    )


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def layout() -> OutputLayout:
    """Two by two tiles of an output of 3 x 4 x 8, the upper and left ones larger."""
    return OutputLayout(
        y_coordinate_to_linear_tile_id_map=ints(0, 0, 2),
        x_coordinate_to_linear_tile_id_map=ints(0, 0, 0, 1),
        linearized_tile_byte_offset=ints(0, 48, 64, 88),
        x_coordinate_to_local_byte_offset=ints(0, 8, 16, 0),
        y_coordinate_to_local_y_offset=ints(0, 1, 0),
        x_coordinate_to_local_y_row_size=ints(24, 24, 24, 8),
    )


def shape(*extents: int) -> TensorShape:
    return TensorShape(dimension=np.array([(0, extent - 1) for extent in extents], np.int32))


def execution(kind: ExecutableType = EXECUTION_ONLY) -> Executable:
    """A program of two chunks with an input, an output of several tiles, and one of one row."""
    slices = OutputShapeInfo(
        slice_layout=[TensorLayout(shape=shape(1, 5), stride=ints(5, 1))], slice_offset=ints(0)
    )
    return Executable(
        name="sample",
        batch_size=1,
        scratch_size_bytes=64,
        instruction_bitstreams=[
            chunk(8, (INPUT, "in"), (SCRATCH, ""), (OUTPUT, "map")),
            chunk(2, (OUTPUT, "row")),
        ],
        dma_hints=DmaHints(
            hints=[
                DmaHint(any_hint=InstructionHint()),
                dma(INPUT, 40, "in"),
                dma(INPUT, 8, "in", 40),
                DmaHint(any_hint=InstructionHint(instruction_chunk_index=1)),
                DmaHint(any_hint=FenceHint()),
                dma(OUTPUT, 96, "map"),
                dma(OUTPUT, 16, "row"),
                DmaHint(any_hint=InterruptHint(), direction=Direction.OUTFEED),
            ],
            fully_deterministic=True,
        ),
        input_layers=[
            Layer(
                name="in",
                size_bytes=48,
                y_dim=3, x_dim=5, z_dim=3,
                numerics=NumericsConstants(zero_point=128, dequantization_factor=0.5),
                data_type=DataType.SIGNED_FIXED_POINT8,
                any_layer=InputLayer(),
                shape=shape(1, 3, 5, 3),
            )
        ],
        output_layers=[
            Layer(
                name="map", size_bytes=96, y_dim=3, x_dim=4, z_dim=8,
                any_layer=OutputLayer(layout=layout()),
            ),
            Layer(
                name="row", size_bytes=16, y_dim=1, x_dim=1, z_dim=5,
                data_type=DataType.SIGNED_FIXED_POINT16,
                any_layer=OutputLayer(data_type=9, shape_info=slices),
            ),
        ],
        chip="beagle",
        used_narrow_memory_bytes_per_tile=1024,
        type=kind,
        parameter_caching_token=(1 << 63) + 5,
        estimated_cycles_64bit=1234,
    )  # fmt: skip


def caching() -> Executable:
    """A program that loads 128 bytes of parameters."""
    return Executable(
        name="sample",
        batch_size=1,
        instruction_bitstreams=[chunk(4, (PARAMETER, ""))],
        parameters=np.arange(128, dtype=np.uint8),
        dma_hints=DmaHints(
            hints=[
                DmaHint(any_hint=InstructionHint()),
                dma(PARAMETER, 128),
                DmaHint(any_hint=InterruptHint(), direction=Direction.OUTFEED),
            ]
        ),
        chip="beagle",
        type=CACHING,
        parameter_caching_token=(1 << 63) + 5,
    )


def package(*executables: Executable) -> PackageFile:
    """A package of executables, else of one that runs and one that loads parameters."""
    return PackageFile(
        package=Package(
            min_runtime_version=14,
            signature=np.zeros(0, np.uint8),
            compiler_version="sample",
            model_identifier="model",
        ),
        executables=list(executables or (execution(), caching())),
    )


# --- round trips ---------------------------------------------------------------------------------


def test_a_package_survives_writing_and_reading() -> None:
    data = darwinn.write_package(package())
    file = darwinn.read_package(data)
    assert darwinn.diff(package(), file) == []
    assert file.executables == package().executables
    assert darwinn.write_package(file) == data
    assert not file.diagnostics
    assert file.main is file.executables[0]
    assert file.caching is file.executables[1]
    assert file.main.kind is EXECUTION_ONLY
    assert list(file.main.inputs) == ["in"]
    assert list(file.main.outputs) == ["map", "row"]


def test_every_field_of_the_schema_is_filled_by_the_samples_or_written_from_a_default() -> None:
    """Of what the schema has, only what no package uses is absent from the samples."""
    unused = {"serialized_model", "estimated_cycles", "use_tpu_dram_for_parameters"}
    run, load = execution(), caching()
    empty = Executable()
    same = {
        name
        for _, name, _kind in Executable.declared().fields
        if flat.diff(getattr(run, name), getattr(empty, name)) == []
        and flat.diff(getattr(load, name), getattr(empty, name)) == []
    }
    assert same == unused | {"version"}


SLOTS = {
    Package: 8, darwinn.MultiExecutable: 1, darwinn.SerializedPackage: 1, Executable: 17,
    InstructionBitstream: 2, FieldOffset: 2, Meta: 4, DmaHints: 2, DmaHint: 3,
    DmaDescriptorHint: 3, InstructionHint: 1, InterruptHint: 1, FenceHint: 0, Layer: 12,
    OutputLayer: 3, InputLayer: 0, OutputLayout: 6, OutputShapeInfo: 2, TensorLayout: 2,
    TensorShape: 1, NumericsConstants: 2,
}  # fmt: skip


@pytest.mark.parametrize(("cls", "slots"), SLOTS.items(), ids=lambda item: str(item))
def test_tables_have_the_slots_of_the_schema(cls: type[flat.Table], slots: int) -> None:
    assert cls.declared().slots == slots


def test_places_of_fields_are_those_of_the_schema() -> None:
    slots = {name: slot for slot, name, _kind in Executable.declared().fields}
    assert (slots["parameters"], slots["type"], slots["estimated_cycles_64bit"]) == (6, 13, 16)
    slots = {name: slot for slot, name, _kind in Layer.declared().fields}
    assert (slots["any_layer"], slots["execution_count_per_inference"], slots["shape"]) == (
        7, 9, 11,
    )  # fmt: skip
    slots = {name: slot for slot, name, _kind in DmaHint.declared().fields}
    assert slots == {"any_hint": 0, "direction": 2}


def test_nested_data_are_aligned_to_pages_and_instructions_to_bundles() -> None:
    data = darwinn.write_package(package())
    file = darwinn.read_package(data)
    parameters = file.executables[1].parameters
    assert parameters is not None
    assert [offset % darwinn.PAGE_ALIGNMENT for offset in file.offsets] == [0, 0]
    assert (flat.offset_of(parameters, data) or 1) % darwinn.PAGE_ALIGNMENT == 0
    for executable in file.executables:
        for part in executable.instruction_bitstreams or ():
            assert part.bitstream is not None
            assert (flat.offset_of(part.bitstream, data) or 1) % darwinn.BUNDLE_BYTES == 0


def test_parts_are_views_of_the_file() -> None:
    data = darwinn.write_package(package())
    file = darwinn.read_package(data)
    for part in (file.executables[1].parameters, file.package.serialized_multi_executable):
        assert part is not None
        assert not part.flags.writeable
        assert flat.offset_of(part, data) is not None


def test_one_executable_survives_writing_and_reading() -> None:
    for executable in (execution(), caching(), execution(STAND_ALONE)):
        data = darwinn.write_executable(executable)
        assert darwinn.read_executable(data) == executable
        assert darwinn.write_executable(darwinn.read_executable(data)) == data


def test_binary_strings_are_not_text() -> None:
    multi = darwinn.MultiExecutable(
        serialized_executables=[
            np.frombuffer(content, np.uint8) for content in (b"\xff\0\x80", b"")
        ]
    )
    again = flat.decode(darwinn.MultiExecutable, flat.encode(multi))
    assert again == multi
    assert [item.tobytes() for item in again.serialized_executables or ()] == [b"\xff\0\x80", b""]


def test_differences_are_named_by_their_paths() -> None:
    other = package()
    other.package.compiler_version = "other"
    run = other.executables[0]
    assert run.instruction_bitstreams is not None
    assert run.output_layers is not None
    assert run.dma_hints is not None
    changed = np.arange(32, dtype=np.uint8)
    changed[7] = 99
    run.instruction_bitstreams[1].bitstream = changed
    run.output_layers[0].z_dim = 7
    run.dma_hints.fully_deterministic = False
    run.dma_hints.hints = (run.dma_hints.hints or [])[:-1]
    other.executables[1].parameters = None
    assert darwinn.diff(package(), other) == [
        "package.compiler_version: 'sample', 'other'",
        "executables[0].instruction_bitstreams[1].bitstream[7]: 7, 99",
        "executables[0].dma_hints.hints: 8 elements, 7 elements",
        "executables[0].dma_hints.fully_deterministic: True, False",
        "executables[0].output_layers[0].z_dim: 8, 7",
        "executables[1].parameters: uint8 vector of 128, None",
    ]


def test_the_first_difference_of_a_vector_is_named_past_equal_nans() -> None:
    a, b = np.array([np.nan, 1, 2]), np.array([np.nan, 1, 3])
    assert flat.diff(a, b, "v") == ["v[2]: 2.0, 3.0"]
    assert flat.diff(a, a.copy(), "v") == []
    assert flat.diff(a, a[:2], "v") == ["v: shape [3], shape [2]"]
    assert flat.diff(shape(2, 3), shape(2, 4)) == ["dimension[1][1]: 2, 3"]


def test_structs_need_their_number_of_members() -> None:
    for values in (np.zeros(4, np.int32), np.zeros((2, 3), np.int32)):
        with pytest.raises(ValueError, match="structs of 2 members"):
            flat.encode(TensorShape(dimension=values))


def test_element_types_know_their_size_and_sign() -> None:
    assert {kind.name: (kind.itemsize, kind.signed) for kind in DataType} == {
        "FIXED_POINT8": (1, False), "FIXED_POINT16": (2, False),
        "SIGNED_FIXED_POINT32": (4, True), "BFLOAT": (2, False), "HALF": (2, False),
        "SINGLE": (4, False), "SIGNED_FIXED_POINT8": (1, True),
        "SIGNED_FIXED_POINT16": (2, True),
    }  # fmt: skip


# --- rules of the runtime ------------------------------------------------------------------------


def rewritten(file: PackageFile) -> bytes:
    """A package written without any check."""
    contents = [np.frombuffer(flat.encode(item), np.uint8) for item in file.executables]
    multi = flat.encode(darwinn.MultiExecutable(serialized_executables=contents))
    whole = dataclasses.replace(
        file.package, serialized_multi_executable=np.frombuffer(multi, np.uint8)
    )
    return flat.encode(whole, identifier=darwinn.IDENTIFIER)


def test_packages_for_later_runtimes_are_refused() -> None:
    file = package()
    file.package.min_runtime_version = 15
    for act in (
        lambda: darwinn.check_runtime(file),
        lambda: darwinn.write_package(file),
        lambda: darwinn.read_package(rewritten(file)),
    ):
        with pytest.raises(UnsupportedError, match=r"version 15, 14 is the last.*hint"):
            act()


def test_packages_for_old_runtimes_give_a_warning() -> None:
    file = package()
    file.package.min_runtime_version = 9
    (diagnostic,) = darwinn.read_package(darwinn.write_package(file), "some.bin").diagnostics
    assert diagnostic.severity is Severity.WARNING
    assert diagnostic.where == "some.bin, Package"
    assert "version 9" in diagnostic.what
    file.package.min_runtime_version = 10
    assert darwinn.check_runtime(file) == []


def test_packages_for_several_chips_are_refused() -> None:
    file = package()
    file.package.virtual_chip_id = -1
    with pytest.raises(UnsupportedError, match="several chips"):
        darwinn.read_package(rewritten(file))
    file.package.serialized_multi_executable = None
    with pytest.raises(UnsupportedError, match="several chips"):
        darwinn.read_package(flat.encode(file.package, identifier=darwinn.IDENTIFIER))


@pytest.mark.parametrize(
    ("kinds", "main"),
    [
        ((STAND_ALONE,), 0),
        ((EXECUTION_ONLY,), 0),
        ((EXECUTION_ONLY, CACHING), 0),
        ((CACHING, EXECUTION_ONLY), 1),
        ((CACHING, EXECUTION_ONLY, STAND_ALONE), 2),
        ((), None),
        ((STAND_ALONE, STAND_ALONE), None),
        ((STAND_ALONE, CACHING), None),
        ((CACHING, CACHING, EXECUTION_ONLY), None),
        ((STAND_ALONE, CACHING, EXECUTION_ONLY, EXECUTION_ONLY), None),
    ],
)
def test_types_of_executables_decide_which_is_run(
    kinds: tuple[ExecutableType, ...], main: int | None
) -> None:
    file = package()
    file.executables = [caching() if kind is CACHING else execution(kind) for kind in kinds]
    if main is not None:
        file = darwinn.read_package(darwinn.write_package(file))
        assert file.main is file.executables[main]
        assert (file.caching is not None) == (len(kinds) == 2)
        return
    for act in (
        lambda: darwinn.write_package(file),
        lambda: darwinn.read_package(rewritten(file)),
        lambda: file.main,
    ):
        with pytest.raises(FormatError, match="MultiExecutable"):
            act()


Change = Callable[[Executable], object]


def without(of: flat.Table, *names: str) -> None:
    for name in names:
        setattr(of, name, None)


def chunks(of: Executable) -> list[InstructionBitstream]:
    assert of.instruction_bitstreams is not None
    return of.instruction_bitstreams


def hint(of: Executable, index: int) -> DmaHint:
    assert of.dma_hints is not None
    assert of.dma_hints.hints is not None
    return of.dma_hints.hints[index]


def hinted(of: Executable, index: int, **values: object) -> None:
    for name, value in values.items():
        setattr(hint(of, index).any_hint, name, value)


def first_field(of: Executable) -> FieldOffset:
    fields = chunks(of)[0].field_offsets
    assert fields is not None
    return fields[0]


def bitstream(of: Executable, size: int) -> None:
    chunks(of)[1].bitstream = np.zeros(size, np.uint8)


def layer(of: Executable, **values: object) -> None:
    for name, value in values.items():
        setattr((of.input_layers or [])[0], name, value)


def output(of: Executable, **values: object) -> None:
    for name, value in values.items():
        setattr((of.output_layers or [])[0], name, value)


def in_layout(of: Executable, **values: object) -> None:
    item = (of.output_layers or [])[0].any_layer
    assert isinstance(item, OutputLayer)
    for name, value in values.items():
        setattr(item.layout, name, value)


FAULTS: tuple[tuple[str, Change, str], ...] = (
    ("batch", lambda e: setattr(e, "batch_size", 0), r"Executable: batch size 0"),
    (
        "no instructions",
        lambda e: without(e, "instruction_bitstreams", "dma_hints"),
        "instruction_bitstreams: no instructions",
    ),
    (
        "empty chunk",
        lambda e: without(chunks(e)[1], "field_offsets", "bitstream"),
        r"instruction_bitstreams\[1\]: an empty chunk",
    ),
    (
        "cut chunk",
        lambda e: bitstream(e, 40),
        r"instruction_bitstreams\[1\]: a bitstream of 40 bytes, instructions have 16",
    ),
    (
        "field behind",
        lambda e: setattr(first_field(e), "offset_bit", 8 * 16 * 8 - 31),
        r"bitstreams\[0\].field_offsets\[0\]: a field of 32 bits at bit 993 of 1024",
    ),
    ("field before", lambda e: setattr(first_field(e), "offset_bit", -1), "at bit -1 of"),
    ("field without meta", lambda e: setattr(first_field(e), "meta", None), "names no buffer"),
    (
        "description",
        lambda e: setattr(first_field(e).meta, "desc", 4),
        r"field_offsets\[0\].meta: Description 4 is unknown",
    ),
    ("position", lambda e: setattr(first_field(e).meta, "position", 2), "Position 2 is unknown"),
    ("name", lambda e: setattr(first_field(e).meta, "name", "x"), "'x', which is no layer"),
    ("batch of field", lambda e: setattr(first_field(e).meta, "batch", 1), "batch 1 of 1"),
    ("type", lambda e: setattr(e, "type", 3), r"Executable\.type: ExecutableType 3 is unknown"),
    ("direction", lambda e: setattr(hint(e, 0), "direction", 2), "Direction 2 is unknown"),
    ("no kind", lambda e: setattr(hint(e, 0), "any_hint", None), "a hint of no kind"),
    (
        "chunk index",
        lambda e: hinted(e, 3, instruction_chunk_index=2),
        r"dma_hints.hints\[3\]: chunk 2 of 2",
    ),
    ("chunk below 0", lambda e: hinted(e, 3, instruction_chunk_index=-1), "chunk -1 of 2"),
    ("interrupt", lambda e: hinted(e, 7, type=4), "InterruptType 4 is unknown"),
    ("slice", lambda e: hinted(e, 2, size_in_bytes=16), "16 bytes at 40 of a buffer of 48"),
    ("negative slice", lambda e: hinted(e, 2, offset_in_bytes=-8), "8 bytes at -8 of"),
    ("data type", lambda e: layer(e, data_type=6), r"input_layers\[0\]: DataType 6 is unknown"),
    ("kind of layer", lambda e: layer(e, any_layer=OutputLayer()), "it is no InputLayer"),
    ("no kind of layer", lambda e: layer(e, any_layer=None), "it is no InputLayer"),
    ("extent", lambda e: layer(e, z_dim=0), r"an extent of \[3, 5, 0\]"),
    ("executions", lambda e: layer(e, execution_count_per_inference=0), "0 executions"),
    ("size", lambda e: layer(e, size_bytes=44), "44 bytes for"),
    ("indices", lambda e: layer(e, shape=shape(1, 0)), "indices 0 to -1"),
    (
        "second name",
        lambda e: setattr((e.output_layers or [])[1], "name", "map"),
        r"output_layers\[1\]: a second layer named 'map'",
    ),
    ("no layout", lambda e: output(e, any_layer=OutputLayer()), "needs a layout"),
    (
        "no coordinates",
        lambda e: in_layout(e, y_coordinate_to_local_y_offset=None),
        "y_coordinate_to_local_y_offset: no coordinates",
    ),
    (
        "count of coordinates",
        lambda e: in_layout(e, y_coordinate_to_local_y_offset=ints(0, 1)),
        "2 coordinates in y, expected 3",
    ),
    (
        "negative coordinate",
        lambda e: in_layout(e, x_coordinate_to_local_byte_offset=ints(0, 8, -8, 0)),
        "x_coordinate_to_local_byte_offset: coordinate -8",
    ),
    (
        "tile",
        lambda e: in_layout(e, y_coordinate_to_linear_tile_id_map=ints(0, 0, 3)),
        "tile 4 of 4",
    ),
    (
        "element",
        lambda e: in_layout(e, linearized_tile_byte_offset=ints(0, 48, 64, 89)),
        "an element ends at byte 97 of 96",
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS]
)
def test_faults_are_refused_by_reader_and_writer(change: Change, message: str) -> None:
    broken = execution()
    change(broken)
    content = flat.encode(broken)
    with pytest.raises(FormatError, match=message):
        darwinn.write_executable(broken)
    with pytest.raises(FormatError, match=message) as caught:
        darwinn.read_executable(content, "some.bin", 1000)
    assert str(caught.value).startswith("some.bin, byte 0x")
    assert 1000 <= (caught.value.offset or 0) <= 1000 + len(content)
    file = package(broken)
    inside = re.sub(r"^Executable\b", "Executable 0", message)
    with pytest.raises(FormatError, match=inside):
        darwinn.read_package(rewritten(file), "some.bin")
    with pytest.raises(FormatError, match=inside):
        darwinn.write_package(file)


def test_faults_of_bitstreams_are_placed_in_the_outer_file() -> None:
    broken = execution(STAND_ALONE)
    bitstream(broken, 40)
    data = rewritten(package(broken))
    with pytest.raises(FormatError) as caught:
        darwinn.read_package(data, base=1 << 20)
    at = (caught.value.offset or 0) - (1 << 20)
    assert data[at - 4 : at] == (40).to_bytes(4, "little")


def test_nested_files_that_are_absent_or_cut_are_refused() -> None:
    data = darwinn.write_package(package())
    assert darwinn.read_package(data)
    whole = Package(min_runtime_version=10)
    with pytest.raises(FormatError, match="Package: no contents"):
        darwinn.read_package(flat.encode(whole, identifier=b"DWN1"))
    whole.serialized_multi_executable = np.zeros(3, np.uint8)
    with pytest.raises(FormatError, match="MultiExecutable: 4 bytes wanted"):
        darwinn.read_package(flat.encode(whole, identifier=b"DWN1"))
    file = package()
    file.executables.append(Executable())
    for content in (b"", b"\x04\0\0"):
        multi = darwinn.MultiExecutable(serialized_executables=[np.frombuffer(content, np.uint8)])
        whole.serialized_multi_executable = np.frombuffer(flat.encode(multi), np.uint8)
        with pytest.raises(FormatError, match="Executable"):
            darwinn.read_package(flat.encode(whole, identifier=b"DWN1"))
    with pytest.raises(FormatError, match="identifier"):
        darwinn.read_package(flat.encode(whole, identifier=b"DWN2"))


def test_a_package_cut_anywhere_is_refused() -> None:
    data = darwinn.write_package(package())
    for size in (*range(0, 256), *range(256, len(data) - 4096, 509)):
        with pytest.raises(FormatError):
            darwinn.read_package(data[:size])


def test_layouts_with_many_regions_are_refused_at_once() -> None:
    broken = execution()
    count = 1 << 12
    each = np.arange(count, dtype=np.int32)
    output(broken, y_dim=count, x_dim=count, z_dim=1, size_bytes=1 << 30)
    in_layout(
        broken,
        y_coordinate_to_linear_tile_id_map=each,
        x_coordinate_to_linear_tile_id_map=each,
        linearized_tile_byte_offset=np.zeros(2 * count, np.int32),
        x_coordinate_to_local_byte_offset=each,
        y_coordinate_to_local_y_offset=each,
        x_coordinate_to_local_y_row_size=each,
    )
    with calls_at_most(2000), pytest.raises(FormatError, match="regions"):
        darwinn.write_executable(broken)


def test_layouts_may_list_many_groups_of_elements() -> None:
    """An output of several tensors lists where each group begins; the tables are as long."""
    file = execution()
    count = 1 << 17
    each, nothing = np.arange(count, dtype=np.int32), np.zeros(1, np.int32)
    output(file, y_dim=count, x_dim=1, z_dim=1, size_bytes=count)
    in_layout(
        file,
        y_coordinate_to_linear_tile_id_map=each,
        x_coordinate_to_linear_tile_id_map=nothing,
        linearized_tile_byte_offset=each,
        x_coordinate_to_local_byte_offset=nothing,
        y_coordinate_to_local_y_offset=np.zeros(count, np.int32),
        x_coordinate_to_local_y_row_size=nothing,
    )
    assert darwinn.write_executable(file)


# --- corpus --------------------------------------------------------------------------------------


@pytest.mark.corpus
def test_packages_of_the_corpus_survive_writing_and_reading() -> None:
    corpus()
    packages = executables = 0
    for path in corpus_models("**/*edgetpu.tflite"):
        data = path.read_bytes()
        for op in custom_op.extract(tflite.read_model(data, path.name), path.name, data):
            # However large they are: programs and parameters stay where they are.
            with memory_of() as memory, calls_at_most(15_000):
                file = op.read()
            assert memory.peak < 128 << 10
            written = darwinn.write_package(file)
            again = darwinn.read_package(written)
            assert darwinn.diff(file, again) == []
            assert len(written) <= len(op.package)
            packages += 1
            executables += len(file.executables)
    print(f"{packages} packages, {executables} executables")
    assert packages > 0


@pytest.mark.corpus
def test_executables_of_the_corpus_survive_writing_and_reading() -> None:
    corpus()
    paths: list[Path] = corpus_models("**/*.executable.bin")
    for path in paths:
        executable = darwinn.read_executable(path.read_bytes(), path.name)
        again = darwinn.read_executable(darwinn.write_executable(executable))
        assert flat.diff(executable, again) == []
    print(f"{len(paths)} executables")
    assert paths

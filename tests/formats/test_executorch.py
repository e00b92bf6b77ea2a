from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import numpy as np
import pytest
from tests import official
from tests.support import need_executorch

from fitzroy.base.errors import FormatError
from fitzroy.base.types import DType
from fitzroy.formats import executorch as et
from fitzroy.formats import flat


def indices(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.asarray(values, np.int32)


def tensor(shape: tuple[int, ...], **fields: object) -> et.Tensor:
    return et.Tensor(
        scalar_type=et.ScalarType.FLOAT,
        sizes=indices(*shape),
        dim_order=np.arange(len(shape), dtype=np.uint8),
        **fields,  # type: ignore[arg-type]
    )


def placed(shape: tuple[int, ...], offset: int) -> et.Tensor:
    return tensor(
        shape, allocation_info=et.AllocationDetails(memory_id=1, memory_offset_low=offset)
    )


def sample_plan() -> et.ExecutionPlan:
    """Every kind of value and of instruction."""
    values = [
        placed((2, 3), 0),
        tensor((2, 3), data_buffer_idx=1),
        et.Int(int_val=1),
        placed((2, 3), 32),
        et.Null(),
        et.Bool(bool_val=True),
        et.Double(double_val=0.5),
        et.String(string_val="mode"),
        et.IntList(items=np.array([2, 2])),
        et.DoubleList(items=np.array([1.5, 2.0])),
        et.BoolList(items=np.array([1, 0], np.uint8)),
        et.TensorList(items=indices(0, 3)),
        et.OptionalTensorList(items=indices(0, 4, -1)),
    ]
    steps: list[flat.Table] = [
        et.KernelCall(op_index=0, args=indices(0, 1, 2, 3, 3)),
        et.DelegateCall(delegate_index=0, args=indices(0, 3)),
        et.MoveCall(move_from=2, move_to=2),
        et.JumpFalseCall(cond_value_index=5, destination_instruction=5),
        et.FreeCall(value_index=3),
    ]
    return et.ExecutionPlan(
        name="forward",
        container_meta_type=et.ContainerMetadata(encoded_inp_str="", encoded_out_str=""),
        values=[et.EValue(val=value) for value in values],
        inputs=indices(0),
        outputs=indices(3),
        chains=[
            et.Chain(
                inputs=indices(),
                outputs=indices(),
                instructions=[et.Instruction(instr_args=step) for step in steps],
                stacktrace=[
                    et.FrameList(items=[et.Frame(filename="a", lineno=3, name="f", context="c")])
                ],
            )
        ],
        operators=[et.Operator(name="aten::add", overload="out")],
        delegates=[
            et.BackendDelegate(
                id="Sample",
                processed=et.BackendDelegateDataReference(location=1, index=1),
                compile_specs=[et.CompileSpec(key="k", value=np.array([1, 2], np.uint8))],
            )
        ],
        non_const_buffer_sizes=np.array([0, 64]),
        non_const_buffer_device=[et.NonConstBufferDevice(buffer_idx=1)],
    )


CONSTANT = np.arange(6, dtype=np.float32)


def sample_program(plan: et.ExecutionPlan | None = None) -> et.Program:
    return et.Program(
        execution_plan=[plan or sample_plan()],
        constant_segment=et.SubsegmentOffsets(segment_index=0, offsets=np.array([0, 0], np.uint64)),
        named_data=[et.NamedData(key="scale", segment_index=1)],
    )


def sample_bytes(plan: et.ExecutionPlan | None = None) -> bytes:
    return et.write_program(sample_program(plan), [CONSTANT.tobytes(), b"delegate data"])


def first_tensor(plan: et.ExecutionPlan) -> et.Tensor:
    assert plan.values is not None
    found = plan.values[0].val
    assert isinstance(found, et.Tensor)
    return found


def test_round_trip() -> None:
    data = sample_bytes()
    file = et.read_program(data, path="a.pte")
    assert [bytes(segment) for segment in file.segments] == [
        CONSTANT.tobytes(),
        b"delegate data",
    ]
    entries = file.program.segments
    assert dataclasses.replace(sample_program(), segments=entries) == file.program
    assert et.write_program(file.program, file.segments) == data
    assert sample_bytes() == data


def test_accessors() -> None:
    file = et.read_program(sample_bytes())
    plan = file.plan("forward")
    assert file.methods == ("forward",)
    assert plan is not None
    assert file.plan("backward") is None
    assert plan.delegates is not None
    assert bytes(file.delegate_data(plan.delegates[0])) == b"delegate data"
    named = file.named("scale")
    assert named is not None
    assert bytes(named) == b"delegate data"
    assert file.named("absent") is None
    values = [value.val for value in plan.values or ()]
    planned, constant = values[0], values[1]
    assert isinstance(planned, et.Tensor)
    assert isinstance(constant, et.Tensor)
    assert file.tensor_data(planned) is None
    assert constant.is_constant
    found = file.tensor_data(constant)
    assert found is not None
    np.testing.assert_array_equal(et.tensor_array(constant, found), CONSTANT.reshape(2, 3))


def test_permuted_tensor_is_read_in_its_dimension_order() -> None:
    permuted = et.Tensor(
        scalar_type=et.ScalarType.FLOAT,
        sizes=indices(2, 3),
        dim_order=np.array([1, 0], np.uint8),
    )
    array = et.tensor_array(permuted, memoryview(CONSTANT.tobytes()))
    np.testing.assert_array_equal(array, CONSTANT.reshape(3, 2).T)


@pytest.mark.parametrize("alignment", [1, 16, 128, 4096])
def test_segments_are_aligned(alignment: int) -> None:
    data = et.write_program(sample_program(), [b"a" * 24, b"b" * 13], alignment=alignment)
    base = struct.unpack_from("<Q", data, 24)[0]
    assert base % alignment == 0
    for segment in et.read_program(data).program.segments or ():
        assert (base + segment.offset) % alignment == 0


def test_header_fields() -> None:
    data = sample_bytes()
    root, identifier, magic, length, size, base, extent = struct.unpack_from("<I4s4sIQQQ", data)
    assert (identifier, magic, length) == (b"ET12", b"eh00", 32)
    assert root >= 40
    assert size <= base == 128 * -(-size // 128)
    assert base + extent == len(data)


def test_short_header_and_unknown_extent_are_read() -> None:
    data = bytearray(sample_bytes())
    struct.pack_into("<Q", data, 32, 0)
    assert et.read_program(data).methods == ("forward",)
    struct.pack_into("<I", data, 12, 24)
    struct.pack_into("<Q", data, 32, 1 << 60)
    assert et.read_program(data).methods == ("forward",)


def test_inline_data_without_header() -> None:
    plan = sample_plan()
    assert plan.delegates is not None
    plan.delegates[0].processed = et.BackendDelegateDataReference(location=0, index=0)
    program = et.Program(
        execution_plan=[plan],
        constant_buffer=[et.Buffer(), et.Buffer(storage=CONSTANT.view(np.uint8))],
        backend_delegate_data=[et.BackendDelegateInlineData(data=np.arange(9, dtype=np.uint8))],
    )
    data = et.write_program(program)
    assert data[8:12] != b"eh00"
    file = et.read_program(data)
    assert bytes(file.delegate_data(plan.delegates[0])) == bytes(range(9))
    constant = (plan.values or [])[1].val
    assert isinstance(constant, et.Tensor)
    found = file.tensor_data(constant)
    assert found is not None
    assert bytes(found) == CONSTANT.tobytes()


@pytest.mark.parametrize(
    ("at", "code", "value", "message"),
    [
        (12, "<I", 23, "a header of 23 bytes"),
        (16, "<Q", 1 << 40, "a flatbuffer of"),
        (16, "<Q", 0, "a flatbuffer of 0"),
        (24, "<Q", 1 << 40, "segments start"),
        (32, "<Q", 1 << 40, "segments end"),
    ],
)
def test_bad_header(at: int, code: str, value: int, message: str) -> None:
    data = bytearray(sample_bytes())
    struct.pack_into(code, data, at, value)
    with pytest.raises(FormatError, match=message) as caught:
        et.read_program(data, path="a.pte")
    assert caught.value.offset is not None
    assert caught.value.path == "a.pte"


def break_sizes(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).sizes = indices(-1, 3)


def break_order(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).dim_order = np.array([0, 0], np.uint8)


def drop_order(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).dim_order = None


def break_type(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).scalar_type = 99


def break_storage(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).storage_offset = 1


def break_buffer(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).allocation_info = et.AllocationDetails(memory_id=2)


def break_place(plan: et.ExecutionPlan) -> None:
    first_tensor(plan).allocation_info = et.AllocationDetails(memory_id=1, memory_offset_high=1)


def break_constant(plan: et.ExecutionPlan) -> None:
    constant = tensor((2, 3), data_buffer_idx=2)
    assert plan.values is not None
    plan.values[1] = et.EValue(val=constant)


def grow_constant(plan: et.ExecutionPlan) -> None:
    assert plan.values is not None
    plan.values[1] = et.EValue(val=tensor((2, 4), data_buffer_idx=1))


def break_input(plan: et.ExecutionPlan) -> None:
    plan.inputs = indices(13)


def break_output(plan: et.ExecutionPlan) -> None:
    plan.outputs = indices(-1)


def break_list(plan: et.ExecutionPlan) -> None:
    assert plan.values is not None
    plan.values[8] = et.EValue(val=et.IntList(items=np.array([0])))


def break_tensors(plan: et.ExecutionPlan) -> None:
    assert plan.values is not None
    plan.values[11] = et.EValue(val=et.TensorList(items=indices(99)))


def drop_value(plan: et.ExecutionPlan) -> None:
    assert plan.values is not None
    plan.values[4] = et.EValue()


def drop_operators(plan: et.ExecutionPlan) -> None:
    plan.operators = None


def drop_delegates(plan: et.ExecutionPlan) -> None:
    plan.delegates = None


def break_delegate(plan: et.ExecutionPlan) -> None:
    assert plan.delegates is not None
    plan.delegates[0].processed = et.BackendDelegateDataReference(location=1, index=7)


def break_inline(plan: et.ExecutionPlan) -> None:
    assert plan.delegates is not None
    plan.delegates[0].processed = et.BackendDelegateDataReference(location=0, index=0)


def replace_step(plan: et.ExecutionPlan, step: flat.Table | None) -> None:
    assert plan.chains is not None
    plan.chains[0].instructions = [et.Instruction(instr_args=step)]


def break_kernel(plan: et.ExecutionPlan) -> None:
    replace_step(plan, et.KernelCall(op_index=0, args=indices(0, 50)))


def break_jump(plan: et.ExecutionPlan) -> None:
    replace_step(plan, et.JumpFalseCall(cond_value_index=5, destination_instruction=2))


def drop_step(plan: et.ExecutionPlan) -> None:
    replace_step(plan, None)


def drop_name(plan: et.ExecutionPlan) -> None:
    plan.name = None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (break_sizes, "negative extent"),
        (break_order, "dimension order"),
        (drop_order, "sizes and a dimension order"),
        (break_type, "unknown scalar type 99"),
        (break_storage, "storage offset 1"),
        (break_buffer, "buffer 2 of 2"),
        (break_place, "of a buffer of 64"),
        (break_constant, "constant 2 of 2"),
        (grow_constant, "bytes 0 to 32 of 24"),
        (break_input, "value 13 of 13"),
        (break_output, "value -1 of 13"),
        (break_list, "kind Tensor where Int is wanted"),
        (break_tensors, "value 99 of 13"),
        (drop_value, "a value without contents"),
        (drop_operators, "operator 0 of 0"),
        (drop_delegates, "delegate 0 of 0"),
        (break_delegate, "segment 7 of 2"),
        (break_inline, "inline data 0 of 0"),
        (break_kernel, "value 50 of 13"),
        (break_jump, "instruction 2 of 2"),
        (drop_step, "an instruction without contents"),
        (drop_name, "a method without a name"),
    ],
)
def test_bad_plan(spoil: object, message: str) -> None:
    plan = sample_plan()
    assert callable(spoil)
    spoil(plan)
    with pytest.raises(FormatError, match=message):
        et.read_program(sample_bytes(plan))


def test_other_faults() -> None:
    with pytest.raises(FormatError, match="without methods"):
        et.read_program(et.write_program(et.Program()))
    segments = et.Program(execution_plan=[sample_plan()], segments=[et.DataSegment(size=4)])
    with pytest.raises(FormatError, match="no header says"):
        et.read_program(flat.encode(segments, identifier=et.IDENTIFIER))
    with pytest.raises(FormatError, match="ET12 is expected"):
        et.read_program(b"\0" * 64)


def visit(data: bytes | bytearray) -> None:
    """Read a program and all data in it; only `FormatError` may come out."""
    file = et.read_program(data)
    for plan in file.program.execution_plan or ():
        for delegate in plan.delegates or ():
            file.delegate_data(delegate)
        for value in plan.values or ():
            if isinstance(value.val, et.Tensor):
                found = file.tensor_data(value.val)
                if found is not None:
                    et.tensor_array(value.val, found)


def test_truncation_gives_format_errors() -> None:
    data = sample_bytes()
    for size in range(len(data)):
        with pytest.raises(FormatError):
            visit(data[:size])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_mutation_gives_nothing_but_format_errors(flip: int) -> None:
    data = bytearray(sample_bytes())
    refused = 0
    for place in range(len(data)):
        data[place] ^= flip
        try:
            visit(data)
        except FormatError:
            refused += 1
        data[place] ^= flip
    assert refused > 100


def test_every_element_type_has_a_scalar_type() -> None:
    assert set(et.SCALAR_TYPES) == set(DType) - {DType.COMPLEX64}
    assert len(et.DTYPES) == len(et.SCALAR_TYPES)


@pytest.mark.slow
@pytest.mark.runtime
@pytest.mark.parametrize("kind", official.KINDS)
def test_programs_of_the_official_exporter(kind: str, tmp_path: Path) -> None:
    need_executorch()
    path = tmp_path / "net.pte"
    official.export(kind, path)
    file = et.read_program(path.read_bytes(), path=str(path))
    plan = file.plan("forward")
    assert plan is not None
    assert plan.delegates
    for delegate in plan.delegates:
        assert delegate.id == et.XNNPACK_BACKEND
        assert bytes(file.delegate_data(delegate)[4:8]) == b"XH00"
    assert et.read_program(et.write_program(file.program, file.segments)).program == file.program

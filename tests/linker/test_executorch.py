from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from fitzroy.base.errors import LinkError
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.formats import executorch as et
from fitzroy.formats.flat import ints
from fitzroy.formats.method import DelegateCall, KernelCall, Method, TensorList, TensorValue, Value
from fitzroy.linker.packages.executorch import SLACK, link_program

KIND = TensorType((2, 3), DType.FLOAT32)
ONES = np.ones((2, 3), np.float32)


def value(name: str, data: Array | None = None, kind: TensorType = KIND) -> TensorValue:
    return TensorValue(name, kind, data)


def adder(name: str = "forward", constant: Array = ONES) -> Method:
    """Output = input + constant + constant."""
    values = (value("x"), value("c", constant), 1, value("t"), value("y"))
    calls = (
        KernelCall("aten::add", "out", (0, 1, 2, 3, 3)),
        KernelCall("aten::add", "out", (3, 1, 2, 4, 4)),
    )
    return Method(name, values, (0,), (4,), calls)


def plan_of(data: bytes, number: int = 0) -> et.ExecutionPlan:
    plans = et.read_program(data).program.execution_plan
    assert plans is not None
    return plans[number]


def tensors(plan: et.ExecutionPlan) -> list[et.Tensor]:
    return [v.val for v in plan.values or () if isinstance(v.val, et.Tensor)]


def test_layout() -> None:
    data = link_program([adder()])
    file = et.read_program(data)
    plan = plan_of(data)
    x, constant, between, y = tensors(plan)
    assert [t.name for t in (x, constant, between, y)] == ["x", "c", "t", "y"]
    assert constant.is_constant
    assert all(t.allocation_info is not None for t in (x, between, y))
    assert ints(plan.inputs) == (0,)
    assert ints(plan.outputs) == (4,)
    assert len(plan.operators or ()) == 1
    found = file.tensor_data(constant)
    assert found is not None
    assert bytes(found) == ONES.tobytes()
    assert len(file.segments[0]) == ONES.nbytes + SLACK
    reserved, arena = ints(plan.non_const_buffer_sizes)
    assert reserved == 0
    # The input's memory serves the output again.
    assert arena == 32 + 24 + SLACK
    assert link_program([adder()]) == data


def test_table_of_constants_is_never_absent() -> None:
    method = Method(
        "forward",
        (value("x"), value("y")),
        (0,),
        (1,),
        (KernelCall("aten::relu", "out", (0, 1, 1)),),
    )
    file = et.read_program(link_program([method]))
    assert file.segments == ()
    assert file.program.constant_segment is not None
    assert ints(file.program.constant_segment.offsets) == (0,)


def test_constants_are_aligned_and_stored_once() -> None:
    values: list[Value] = [value("x"), 1]
    contents = [
        np.arange(n, dtype=np.int8) if n % 2 else np.ones((2, 3), np.float32) * n
        for n in (3, 4, 5, 4, 3)
    ]
    for number, array in enumerate(contents):
        kind = TensorType(array.shape, DType.of(array))
        values.append(TensorValue(f"c{number}", kind, array))
    method = Method(
        "forward", (*values, value("y")), (0,), (7,), (KernelCall("a::b", "", (0, 7, 7)),)
    )
    file = et.read_program(link_program([method, dataclasses.replace(method, name="again")]))
    assert file.program.constant_segment is not None
    offsets = ints(file.program.constant_segment.offsets)
    assert offsets[0] == 0
    assert len(offsets) == 1 + 3
    assert all(offset % 16 == 0 for offset in offsets)
    for plan in file.program.execution_plan or ():
        stored = [t for t in tensors(plan) if t.is_constant]
        for tensor, array in zip(stored, contents, strict=True):
            data = file.tensor_data(tensor)
            assert data is not None
            np.testing.assert_array_equal(et.tensor_array(tensor, data), array)


def test_delegates_get_aligned_segments_behind_the_constants() -> None:
    values = (value("x"), value("c", ONES), value("t"), value("y"))
    calls = (
        DelegateCall("Sample", b"first blob", (0, 1, 2)),
        DelegateCall("Sample", b"second", (2, 1, 3)),
        DelegateCall("Sample", b"first blob", (2, 1, 3)),
    )
    method = Method("forward", values, (0,), (3,), calls)
    for methods in ([method], [adder("other"), method]):
        data = link_program(methods)
        file = et.read_program(data)
        plan = file.plan("forward")
        assert plan is not None
        blobs = [bytes(file.delegate_data(d)) for d in plan.delegates or ()]
        assert blobs == [b"first blob", b"second", b"first blob"]
        assert len(file.segments) == 3
        assert all(s.offset % 128 == 0 for s in file.program.segments or ())
        assert file.methods == tuple(m.name for m in methods)
    assert len(et.read_program(link_program([_without_constant(method)])).segments) == 2


def _without_constant(method: Method) -> Method:
    values = (method.values[0], value("c"), *method.values[2:])
    return dataclasses.replace(method, values=values)


def test_values_of_every_kind() -> None:
    kinds: tuple[Value, ...] = (
        value("x"), None, True, -3, 0.5, "mode", (4, -5, 4), (), (1.5, 2.0), (True, False),
        TensorList((0,)), value("y"),
    )  # fmt: skip
    args = (*range(12), 11)
    method = Method("forward", kinds, (0,), (11,), (KernelCall("a::b", "c", args),))
    values = [entry.val for entry in plan_of(link_program([method])).values or ()]
    assert values[1:6] == [
        et.Null(),
        et.Bool(bool_val=True),
        et.Int(int_val=-3),
        et.Double(double_val=0.5),
        et.String(string_val="mode"),
    ]
    numbers, empty, floats, flags, listed = values[6:11]
    assert isinstance(numbers, et.IntList)
    items = [values[index] for index in ints(numbers.items)]
    assert items == [et.Int(int_val=4), et.Int(int_val=-5), et.Int(int_val=4)]
    assert len(values) == 12 + 2
    assert isinstance(empty, et.IntList)
    assert ints(empty.items) == ()
    assert floats == et.DoubleList(items=np.array([1.5, 2.0]))
    assert flags == et.BoolList(items=np.array([1, 0], np.uint8))
    assert listed == et.TensorList(items=np.array([0], np.int32))


def test_lists_keep_their_items_alive() -> None:
    values = (
        value("x"), value("a"), value("b"), TensorList((1, 2)), 0,
        value("y", None, TensorType((4, 3), DType.FLOAT32)),
    )  # fmt: skip
    calls = (
        KernelCall("aten::relu", "out", (0, 1, 1)),
        KernelCall("aten::neg", "out", (0, 2, 2)),
        KernelCall("aten::cat", "out", (3, 4, 5, 5)),
    )
    plan = plan_of(link_program([Method("forward", values, (0,), (5,), calls)]))
    places = [
        range(t.allocation_info.offset, t.allocation_info.offset + t.nbytes)
        for t in tensors(plan)
        if t.allocation_info is not None
    ]
    _, a, b, y = places
    assert not set(a) & set(b)
    assert not set(y) & (set(a) | set(b))


RELU = KernelCall("aten::relu", "out", (0, 1, 1))
PAIR = (value("x"), value("y"))


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ([], "at least one method"),
        ([adder(), adder()], "2 methods are called 'forward'"),
        ([adder("")], "needs a name"),
        ([Method("f", PAIR, (0,), (1,), ())], "nothing to run"),
        ([Method("f", PAIR, (2,), (1,), (RELU,))], "input is value 2: there are 2"),
        ([Method("f", PAIR, (0,), (-1,), (RELU,))], "output is value -1"),
        ([Method("f", (*PAIR, 1), (0, 2), (1,), (RELU,))], "input 2 is no tensor"),
        ([Method("f", PAIR, (0, 0), (1,), (RELU,))], "listed twice"),
        ([Method("f", (*PAIR, value("c", ONES)), (0,), (2,), (RELU,))], "output c is a constant"),
        ([Method("f", (*PAIR, value("z")), (0,), (1, 2), (RELU,))], "nothing writes output z"),
        ([Method("f", (*PAIR, value("z")), (0,), (1,), (RELU,))], "no call uses tensor z"),
        ([Method("f", PAIR, (0,), (1,), (KernelCall("a::b", "", (0, 5)),))], "argument of call 0"),
        ([Method("f", PAIR, (0,), (1,), (KernelCall("", "", (0, 1)),))], "without a name"),
        ([Method("f", PAIR, (0,), (1,), (DelegateCall("X", b"", (0, 1)),))], "needs a backend"),
        ([Method("f", (*PAIR, TensorList((9,))), (0,), (1,), (RELU,))], "item of list 2"),
        ([Method("f", (TensorList((1, 2)), *PAIR), (1,), (2,), (RELU,))], "comes before its item"),
        ([Method("f", (*PAIR, 1 << 63), (0,), (1,), (RELU,))], "does not fit 64 bits"),
        ([Method("f", (*PAIR, (1, 2.5)), (0,), (1,), (RELU,))], "a value of kind tuple"),
        (
            [Method("f", (*PAIR, value("c", ONES[:1])), (0,), (1,), (RELU,))],
            "constant c do not have its type",
        ),
        (
            [Method("f", (*PAIR, value("c", ONES.astype(np.int8))), (0,), (1,), (RELU,))],
            "int8.* where float32.* is declared",
        ),
    ],
)
def test_faults(methods: Sequence[Method], message: str) -> None:
    with pytest.raises(LinkError, match=message):
        link_program(methods)

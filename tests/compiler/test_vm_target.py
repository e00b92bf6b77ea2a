"""Host programs: calls, buffers and what functions say of themselves."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fitzroy.base.errors import CapacityError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.targets.vm.program import (
    EntryPoint,
    Executor,
    Invocation,
    host_program,
)
from fitzroy.formats import reflection
from fitzroy.formats.bytecode_module import BytecodeModule, read_module, write_module
from fitzroy.formats.reflection import Tensor
from fitzroy.hw_models.vm.context import Context, NativeModule, check_types
from fitzroy.hw_models.vm.functions import Call
from fitzroy.hw_models.vm.objects import MutableByteBuffer
from fitzroy.hw_models.vm.text import assemble, disassemble
from fitzroy.hw_models.vm.verifier import verify

BYTE = TensorType((1, 4), DType.UINT8, Quantization.per_tensor(0.5, 3))


def tensor(name: str) -> Tensor:
    return Tensor(name, BYTE)


class Live(MutableByteBuffer):
    """A buffer that is counted."""

    count = 0

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        Live.count += 1

    def destroyed(self) -> None:
        Live.count -= 1


def host(most: list[int]) -> list[NativeModule]:
    """Executors that write the sum of what they read and of a byte of data to each result."""

    def allocate(call: Call) -> list[Any]:
        (size,) = call.arguments
        assert isinstance(size, int)
        found = Live(bytes(size))
        most.append(Live.count)
        return [found]

    def execute(call: Call) -> list[Any]:
        data, *buffers = (item.data for item in call.arguments)  # type: ignore[union-attr]
        _, reads, writes = call.segments
        assert len(buffers) == reads + writes
        total = np.full(4, data[0], np.uint8)
        for item in buffers[:reads]:
            total += np.frombuffer(item, np.uint8)
        for number, item in enumerate(buffers[reads:]):
            item[:] = bytes(total + number)
        return []

    def clone(call: Call) -> list[Any]:
        (source,) = call.arguments
        return [MutableByteBuffer(bytes(source.data))]  # type: ignore[union-attr]

    return [
        NativeModule("buffer", {"alloc": allocate, "clone": clone}),
        *(NativeModule(kind.split(".")[0], {kind.split(".")[1]: execute}) for kind in Executor),
    ]


def run(module: BytecodeModule, name: str, inputs: list[bytes], most: list[int]) -> list[bytes]:
    verify(module)
    check_types(module)
    Live.count = 0
    given = [MutableByteBuffer(data) for data in inputs]
    with Context([*host(most), module]) as context:
        results = context.invoke(name, given)
        found = [bytes(item.data) for item in results]  # type: ignore[union-attr]
        for item in results:
            item.release()  # type: ignore[union-attr]
    assert Live.count == 0
    assert [item.references for item in given] == [1] * len(given)
    return found


def test_a_model_of_three_parts() -> None:
    calls = (
        Invocation(Executor.DARWINN, b"\x01", ("x",), ("a", "b")),
        Invocation(Executor.XNNPACK, b"\x02", ("a",), ("c",)),
        Invocation(Executor.TFLITE, b"\x01", ("b", "c"), ("y",)),
    )
    entry = EntryPoint(
        "main",
        (tensor("x"),),
        (tensor("y"), tensor("b")),
        calls,
        {name: tensor(name) for name in "abc"},
    )
    module = read_module(write_module(host_program("m", [entry])))
    assert len(module.rodata_segments or ()) == 2
    assert run(module, "main", [b"\x05\x05\x05\x05"], []) == [b"\x10" * 4, b"\x07" * 4]
    again, _ = assemble(disassemble(module))
    assert again == module


def test_states_last_from_call_to_call() -> None:
    calls = (
        Invocation(Executor.DARWINN, b"\x01", ("x",), ("y",), (bytes(4), bytes(4))),
        Invocation(Executor.DARWINN, b"\x02", ("y",), ("z",), (b"\x01" * 4,)),
    )
    outputs = (tensor("y"), tensor("z"))
    module = host_program("m", [EntryPoint("main", (tensor("x"),), outputs, calls)])
    verify(module)
    with Context([*host([]), module]) as context:
        found = []
        for _ in range(3):
            results = context.invoke("main", [MutableByteBuffer(bytes(4))])
            found.append([item.data[0] for item in results])  # type: ignore[union-attr]
    # The first call writes 1 to y, and 2 and 3 to its states, which it reads next time.
    assert found[0] == [1, 2 + 1 + 1]
    assert found[1] == [1 + 2 + 3, 2 + found[1][0] + found[0][1] + 1]
    assert len(module.internal_functions or ()) == 2
    assert len(module.exported_functions or ()) == 1


def test_random_schedules() -> None:
    for seed in range(50):
        rng = random.Random(seed)
        inputs = [f"x{n}" for n in range(rng.randint(1, 3))]
        names, calls = list(inputs), []
        for number in range(rng.randint(1, 12)):
            writes = tuple(f"v{number}.{k}" for k in range(rng.randint(1, 3)))
            reads = tuple(rng.choices(names[-6:], k=rng.randint(1, 3)))
            kind = rng.choice(list(Executor))
            calls.append(Invocation(kind, bytes([number % 3]), reads, writes))
            names += writes
        outputs = [*rng.sample(names, min(3, len(names))), names[-1], "k"]
        tensors = {name: tensor(name) for name in names}
        entry = EntryPoint(
            "f",
            tuple(map(tensor, inputs)),
            tuple(map(tensor, outputs)),
            tuple(calls),
            tensors,
            {"k": b"\x09\x08\x07\x06"},
        )
        values = {name: np.full(4, n + 1, np.uint8) for n, name in enumerate(inputs)}
        for call in calls:
            total = sum((values[name] for name in call.reads), np.full(4, call.data[0], np.uint8))
            values |= {name: (total + k).astype(np.uint8) for k, name in enumerate(call.writes)}
        values["k"] = np.array([9, 8, 7, 6], np.uint8)
        found = run(
            host_program("m", [entry]), "f", [values[name].tobytes() for name in inputs], []
        )
        assert found == [values[name].tobytes() for name in outputs], seed


def test_buffers_are_given_up_with_their_last_use() -> None:
    names = [f"v{n}" for n in range(100)]
    calls = tuple(
        Invocation(Executor.DARWINN, b"\x00", (before,), (after,))
        for before, after in zip(["x", *names], names, strict=False)
    )
    entry = EntryPoint(
        "main", (tensor("x"),), (tensor(names[-1]),), calls, {n: tensor(n) for n in names}
    )
    most: list[int] = []
    run(host_program("m", [entry]), "main", [bytes(4)], most)
    assert max(most) == 2


def test_too_many_buffers() -> None:
    names = tuple(f"v{n}" for n in range(64))
    calls = (Invocation(Executor.DARWINN, b"", ("x",), names),)
    outputs = tuple(map(tensor, names))
    with pytest.raises(CapacityError, match="64 buffers"):
        host_program("m", [EntryPoint("main", (tensor("x"),), outputs, calls)])


def test_reflection() -> None:
    inputs = [Tensor("x", TensorType((2, 3), DType.FLOAT32)), tensor("y")]
    assert reflection.signature(inputs, [Tensor("z", TensorType((), DType.INT64))]) == (
        "I17!B5!d2d3B7!t8d1d4R6!B3!t7"
    )
    entry = EntryPoint("main", tuple(inputs), (tensor("y"),), ())
    module = read_module(write_module(host_program("m", [entry])))
    signature = (module.internal_functions or [])[0].signature
    assert signature is not None
    assert reflection.tensors(signature) == (inputs, [tensor("y")])

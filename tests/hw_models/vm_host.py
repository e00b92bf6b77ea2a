"""The host of the conformance cases: functions that modules import, and objects that log."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from fitzroy.hw_models.vm.context import NativeModule
from fitzroy.hw_models.vm.functions import Call
from fitzroy.hw_models.vm.objects import ByteBuffer, MutableByteBuffer, Object, Value
from fitzroy.hw_models.vm.status import Status, VmError

OBJECT = "test.obj"


class Logged(Object):
    """An object with a number, which says when it is destroyed."""

    type_name: ClassVar[str] = OBJECT

    def __init__(self, host: Host, value: int) -> None:
        super().__init__()
        self.host = host
        self.value = value
        host.live += 1

    def destroyed(self) -> None:
        self.host.live -= 1
        self.host.log.append(["destroy", self.value])


class Host:
    """Functions of the modules `test`, `cc` and `darwinn`, and what they log."""

    def __init__(self) -> None:
        self.log: list[list[Any]] = []
        self.live = 0

    def taken(self) -> list[list[Any]]:
        """What was logged since the last time."""
        found, self.log = self.log, []
        return found

    def modules(self) -> list[NativeModule]:
        shared: dict[str, Callable[[Any], Any]] = {
            "sum_variadic": self._sum_variadic,
            "divmod": _divmod,
            "log": self._log,
            "buffer.length": _length,
        }
        test: dict[str, Callable[[Any], Any]] = {
            **shared,
            "add1": lambda call: [call.arguments[0] + 1],
            "mul_add": lambda call: [call.arguments[0] * call.arguments[1] + call.arguments[2]],
            "fail": _fail,
            "buffer.alloc": lambda call: [MutableByteBuffer(bytes(call.arguments[0]))],
            "buffer.load.i32": _load,
            "obj.new": lambda call: [Logged(self, call.arguments[0])],
            "obj.value": lambda call: [call.arguments[0].value],
        }
        cc: dict[str, Callable[[Any], Any]] = {
            **shared,
            "sum_variadic": _sum_variadic,
            "sum_lens": _sum_lens,
            "opt_len": lambda call: [
                -1 if call.arguments[0] is None else len(call.arguments[0].data)
            ],
            "echo": _echo,
            "buffer.length": _typed_length,
        }
        return [
            NativeModule("test", test),
            NativeModule("cc", cc),
            NativeModule("darwinn", {"execute": self._execute}),
        ]

    def _log(self, call: Call) -> Sequence[Value]:
        self.log.append(["log", *call.arguments])
        return []

    def _sum_variadic(self, call: Call) -> Sequence[Value]:
        self.log.append(["segments", *call.segments])
        return _sum_variadic(call)

    def _execute(self, call: Call) -> Sequence[Value]:
        executable, source, target = call.arguments
        assert isinstance(executable, ByteBuffer)
        assert isinstance(source, ByteBuffer | MutableByteBuffer)
        assert isinstance(target, MutableByteBuffer)
        count = min(len(source.data), len(target.data))
        key = executable.data
        self.log.append(
            ["darwinn.execute", len(executable.data), len(source.data), len(target.data)]
        )
        for index in range(count):
            target.data[index] = source.data[index] ^ key[index % len(key)]
        return [count]

    # --- values of the case files ----------------------------------------------------------------

    def value(self, item: Any) -> Value:
        """An argument."""
        if item is None or isinstance(item, int):
            return item
        if item["type"] == OBJECT:
            return Logged(self, item["value"])
        kinds = {kind.type_name: kind for kind in (ByteBuffer, MutableByteBuffer)}
        return kinds[item["type"]](bytes.fromhex(item["data"]))

    @staticmethod
    def shown(value: Value) -> Any:
        """A value as the case files have it."""
        if value is None or isinstance(value, int):
            return value
        if isinstance(value, Logged):
            return {"type": OBJECT, "value": value.value}
        assert isinstance(value, ByteBuffer | MutableByteBuffer)
        return {"type": value.type_name, "data": bytes(value.data).hex()}


def _invalid(what: str) -> VmError:
    return VmError(Status.INVALID_ARGUMENT, what)


def _divmod(call: Call) -> Sequence[Value]:
    a, b = call.arguments
    assert isinstance(a, int)
    assert isinstance(b, int)
    if not b:
        raise _invalid("a division by 0")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return [quotient, a - quotient * b]


def _fail(call: Call) -> Sequence[Value]:
    (status,) = call.arguments
    assert isinstance(status, int)
    if status:
        raise VmError(Status(status), "as it was asked to")
    return []


def _length(call: Call) -> Sequence[Value]:
    (buffer,) = call.arguments
    assert isinstance(buffer, ByteBuffer | MutableByteBuffer)
    return [len(buffer.data)]


def _typed_length(call: Call) -> Sequence[Value]:
    (buffer,) = call.arguments
    if not isinstance(buffer, ByteBuffer):
        raise _invalid("no byte buffer")
    return [len(buffer.data)]


def _load(call: Call) -> Sequence[Value]:
    buffer, offset = call.arguments
    assert isinstance(buffer, ByteBuffer)
    assert isinstance(offset, int)
    return list(struct.unpack_from("<i", buffer.data, offset))


def _echo(call: Call) -> Sequence[Value]:
    (value,) = call.arguments
    assert isinstance(value, ByteBuffer)
    value.retain()
    return [value]


def _sum_variadic(call: Call) -> Sequence[Value]:
    scale, *rest = call.arguments
    assert isinstance(scale, int)
    return [scale * sum(value for value in rest if isinstance(value, int))]


def _sum_lens(call: Call) -> Sequence[Value]:
    *buffers, more = call.arguments
    assert isinstance(more, int)
    return [more + sum(len(item.data) for item in buffers if isinstance(item, ByteBuffer))]

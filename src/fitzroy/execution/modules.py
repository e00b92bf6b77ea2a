"""Whole models as bytecode modules, executed.

A module holds everything: packages for Edge TPUs, graphs for XNNPACK, and what the host computes as
small TFLite models. It imports what executes these; `ModuleProgram` is the host that provides it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from fitzroy.base.closing import Closing
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.parameters.operands import STATE_SUFFIX
from fitzroy.compiler.targets.vm.program import ALLOCATE, CLONE, Executor
from fitzroy.driver.runtime.devices import Device
from fitzroy.execution.devices import open_device
from fitzroy.execution.interpreter import Interpreter
from fitzroy.formats import reflection
from fitzroy.formats.bytecode_module import BytecodeModule, read_module
from fitzroy.formats.darwinn import PackageFile, read_package
from fitzroy.formats.reflection import Tensor
from fitzroy.formats.xnnpack import read_blob
from fitzroy.hw_models.vm.context import Context, NativeModule, check_types
from fitzroy.hw_models.vm.functions import Call, NativeFunction
from fitzroy.hw_models.vm.objects import ByteBuffer, MutableByteBuffer, Object, Value
from fitzroy.hw_models.vm.status import Status, VmError
from fitzroy.hw_models.vm.verifier import dialect_of
from fitzroy.hw_models.xnnpack import execute
from fitzroy.hw_models.xnnpack.values import read_values

MAIN = "main"


@dataclass(frozen=True, slots=True)
class ModuleFunction:
    """A function that a module exports.

    Attributes:
        name: its name.
        inputs: its arguments.
        outputs: its results.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def functions(module: BytecodeModule, path: str = "") -> tuple[ModuleFunction, ...]:
    """The exported functions that describe their tensors.

    Raises:
        FormatError: a description that is none.
    """
    found = []
    for item in module.exported_functions or ():
        signature = (module.internal_functions or [])[item.internal_ordinal].signature
        described = None if signature is None else reflection.tensors(signature)
        if signature is None or described is None:
            continue
        inputs, outputs = described
        if (len(inputs), len(outputs)) != (len(signature.arguments), len(signature.results)):
            raise FormatError(
                f"{item.local_name!r} describes {len(inputs)} arguments and {len(outputs)} results,"
                f" it has {len(signature.arguments)} and {len(signature.results)}",
                path=path,
            )
        found.append(ModuleFunction(item.local_name or "", tuple(inputs), tuple(outputs)))
    return tuple(found)


def uses_device(module: BytecodeModule) -> bool:
    """Whether a module executes packages."""
    imports = module.imported_functions or ()
    return any(item.full_name == Executor.DARWINN.value for item in imports)


class ModuleProgram(Closing):
    """A module that is executed.

    Buffers that its functions keep from call to call last as long as this object.

    Args:
        module: a file, or its bytes.
        device: as for `Interpreter`; it is opened when the module needs it.

    Raises:
        UsageError: the file cannot be read.
        FormatError: the module is malformed, or might do what its virtual machine does not survive.
        VmError: it has types or imports that nobody knows.
    """

    def __init__(
        self, module: str | os.PathLike[str] | bytes, *, device: str | Device | None = None
    ) -> None:
        self.path = "" if isinstance(module, bytes) else os.fspath(module)
        data = module if isinstance(module, bytes) else read_file(module)
        self.module = read_module(data, self.path)
        dialect = dialect_of(self.module, self.path)
        check_types(self.module)
        self.functions = functions(self.module, self.path)
        self._own = ExitStack()
        self._executors = _Executors(device, self._own)
        self._context = self._own.enter_context(
            Context([*self._executors.modules(), (self.module, dialect)])
        )

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self.functions)
        return f"<ModuleProgram {self.path or self.module.name}: {names}>"

    def close(self) -> None:
        """Give up what the module holds, and the device."""
        self._own.close()

    @property
    def steps(self) -> int:
        """Instructions of the last call."""
        return self._context.steps

    def function(self, name: str | None = None) -> ModuleFunction:
        """A function by name; `main`, or the first one, if there is no name.

        Raises:
            UsageError: no function that describes its tensors has that name.
        """
        known = {item.name: item for item in self.functions}
        if name is None and known:
            name = MAIN if MAIN in known else next(iter(known))
        if name not in known:
            raise UsageError(
                f"no function {name!r}" if name else "no function describes its tensors",
                reason=f"the module has {', '.join(map(repr, known)) or 'none'}",
                where=self.path,
            )
        return known[name]

    def run(self, inputs: Mapping[str, Array], function: str | None = None) -> dict[str, Array]:
        """Outputs of a function by name.

        Args:
            inputs: one array per input, of its shape and element type.
            function: its name, as for `function`.

        Raises:
            UsageError: no such function, or an array is missing or of another type.
            VmError: the module does something that it must not.
            DeviceError: the device fails.
            SimulationError: a simulated program fails.
        """
        entry = self.function(function)
        given: list[Value] = [_buffer(item, inputs, self.path) for item in entry.inputs]
        results = self._context.invoke(entry.name, given)
        found = {}
        for item, value in zip(entry.outputs, results, strict=True):
            found[item.name] = _array(item, value, self.path)
        for value in (*given, *results):
            if isinstance(value, Object):
                value.release()
        return found


def _buffer(tensor: Tensor, inputs: Mapping[str, Array], path: str) -> MutableByteBuffer:
    array = inputs.get(tensor.name)
    if array is None:
        raise UsageError(f"input {tensor.name!r} is missing", where=path)
    if array.shape != tensor.type.shape or array.dtype != tensor.type.dtype.numpy:
        raise UsageError(
            f"input {tensor.name!r} is {tensor.type}",
            reason=f"the array is {array.dtype}{list(array.shape)}",
            where=path,
        )
    return MutableByteBuffer(np.ascontiguousarray(array).tobytes())


def _array(tensor: Tensor, value: Value, path: str) -> Array:
    if not isinstance(value, ByteBuffer | MutableByteBuffer) or len(value.data) != (
        tensor.type.nbytes
    ):
        raise VmError(
            Status.INTERNAL, f"the result {tensor.name!r} is no buffer of its size", where=path
        )
    array = np.frombuffer(bytes(value.data), tensor.type.dtype.numpy)
    return array.reshape(tensor.type.shape)


Run = Callable[[Sequence[memoryview], Sequence[memoryview]], None]
"""Computes buffers from buffers."""


class _Executors:
    """What modules import.

    Args:
        device: what executes packages.
        own: closes what is opened.
    """

    def __init__(self, device: str | Device | None, own: ExitStack) -> None:
        self._device = device
        self._own = own
        self._ready: dict[ByteBuffer, Run] = {}

    def modules(self) -> list[NativeModule]:
        """The imports by module."""
        prepares = {
            Executor.DARWINN: self._package,
            Executor.XNNPACK: _delegate,
            Executor.TFLITE: self._model,
        }
        functions = {ALLOCATE: _allocate, CLONE: _clone} | {
            kind.value: self._invoking(prepare) for kind, prepare in prepares.items()
        }
        modules: dict[str, dict[str, NativeFunction]] = {}
        for name, native in functions.items():
            module, _, local = name.partition(".")
            modules.setdefault(module, {})[local] = native
        return [NativeModule(name, members) for name, members in modules.items()]

    def _invoking(self, prepare: Callable[[memoryview], Run]) -> Callable[[Call], Sequence[Value]]:
        def invoke(call: Call) -> Sequence[Value]:
            held, *buffers = call.arguments or [None]
            sizes = call.segments
            if not isinstance(held, ByteBuffer) or len(sizes) != 3 or sizes[0] != -1:
                raise _invalid("data, buffers to read and buffers to write are wanted")
            views = [_view(item) for item in buffers]
            if held not in self._ready:
                # Data of a module lives as long as its context, and so does what is made of it.
                self._ready[held] = prepare(held.data)
            self._ready[held](views[: sizes[1]], views[sizes[1] :])
            return []

        return invoke

    def _package(self, data: memoryview) -> Run:
        package = read_package(data)
        if self._device is None or isinstance(self._device, str):
            self._device = self._own.enter_context(open_device(self._device or "auto"))
        device = self._device
        inputs, outputs = _layers(package)

        def run(reads: Sequence[memoryview], writes: Sequence[memoryview]) -> None:
            given = {name: np.frombuffer(view, np.uint8) for name, view in _paired(inputs, reads)}
            found = device.run(package, given).tensors
            for name, view in _paired(outputs, writes):
                _store(found[name].tobytes(), view)

        return run

    def _model(self, data: memoryview) -> Run:
        interpreter = self._own.enter_context(Interpreter(bytes(data), device=self._device))
        graph = interpreter.graph

        def run(reads: Sequence[memoryview], writes: Sequence[memoryview]) -> None:
            given = {}
            for name, view in _paired(graph.inputs, reads):
                type = graph.type(name)
                _demand(type.nbytes == len(view), f"{name!r} has {type.nbytes} bytes")
                given[name] = np.frombuffer(view, type.dtype.numpy).reshape(type.shape)
            found = interpreter.run(given)
            for name, view in _paired(graph.outputs, writes):
                _store(found[name].tobytes(), view)

        return run


def _invalid(what: str) -> VmError:
    return VmError(Status.INVALID_ARGUMENT, what)


def _demand(condition: bool, what: str) -> None:
    if not condition:
        raise _invalid(what)


def _view(value: Value) -> memoryview:
    if not isinstance(value, ByteBuffer | MutableByteBuffer):
        raise _invalid("a buffer is wanted")
    return value.data


def _paired(names: Sequence[str], views: Sequence[memoryview]) -> list[tuple[str, memoryview]]:
    _demand(len(names) == len(views), f"{len(views)} buffers for {len(names)} tensors")
    return list(zip(names, views, strict=True))


def _store(data: bytes, view: memoryview) -> None:
    _demand(not view.readonly, "a result goes to a buffer that must not change")
    _demand(len(data) == len(view), f"a result of {len(data)} bytes for a buffer of {len(view)}")
    view[:] = data


def _only(call: Call) -> Value:
    _demand(len(call.arguments) == 1, f"{len(call.arguments)} arguments, one is wanted")
    return call.arguments[0]


_MOST_BYTES = 1 << 30
"""The largest buffer that a module may ask for."""


def _allocate(call: Call) -> Sequence[Value]:
    size = _only(call)
    if not isinstance(size, int):
        raise _invalid("a number of bytes is wanted")
    if not 0 <= size <= _MOST_BYTES:
        raise VmError(Status.RESOURCE_EXHAUSTED, f"a buffer of {size} bytes")
    return [MutableByteBuffer(bytes(size))]


def _clone(call: Call) -> Sequence[Value]:
    return [MutableByteBuffer(bytes(_view(_only(call))))]


def _layers(package: PackageFile) -> tuple[list[str], list[str]]:
    """Inputs and outputs of a package in order, states after the others."""
    main = package.main
    states = [name for name in main.inputs if name + STATE_SUFFIX in main.outputs]
    kept = {name + STATE_SUFFIX for name in states}
    return (
        [*(name for name in main.inputs if name not in states), *states],
        [*(name for name in main.outputs if name not in kept), *(s + STATE_SUFFIX for s in states)],
    )


def _delegate(data: memoryview) -> Run:
    """A graph of the XNNPACK delegate; its tensors are ordered by their external ids."""
    blob = read_blob(data)
    values = sorted(
        read_values(blob, lambda _: None, "").values(), key=lambda value: value.external_id
    )
    given = [value for value in values if value.is_input]
    made = [value for value in values if value.is_output]

    def run(reads: Sequence[memoryview], writes: Sequence[memoryview]) -> None:
        _demand(
            (len(reads), len(writes)) == (len(given), len(made)),
            f"{len(reads)} and {len(writes)} buffers for {len(given)} and {len(made)} tensors",
        )
        inputs = {}
        for value, view in zip(given, reads, strict=True):
            type = value.type
            _demand(type.nbytes == len(view), f"tensor {value.external_id} has {type.nbytes} bytes")
            inputs[value.external_id] = np.frombuffer(view, type.dtype.numpy).reshape(type.shape)
        found = execute(blob, inputs)
        for value, view in zip(made, writes, strict=True):
            _store(found[value.external_id].tobytes(), view)

    return run

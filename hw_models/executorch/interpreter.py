"""Model of ExecuTorch's executor: runs a program instruction by instruction with numpy.

Planned tensors are views of byte buffers at the program's own offsets, so a memory plan in which
two living tensors overlap gives wrong results here, as it does on the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import (
    FormatError,
    SimulationError,
    UnsupportedError,
    UsageError,
)
from fitzroy.base.types import Array
from fitzroy.formats import executorch as et
from fitzroy.formats import xnnpack
from fitzroy.formats.flat import Table, ints
from fitzroy.hw_models.executorch.kernels import KERNELS
from fitzroy.hw_models.xnnpack import execute as execute_xnnpack

_MAX_STEPS = 1_000_000
_NOTHING: Array = np.empty(0, np.uint8)
# What numpy raises for arguments that a kernel of the library would refuse.
_REFUSALS = (
    ValueError,
    IndexError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)


def run_method(
    file: et.ProgramFile, inputs: Sequence[Array], method: str = "forward"
) -> list[Array]:
    """Run a method of a program.

    Args:
        file: the program.
        inputs: one array per input, of its element type and at most its shape.
        method: the method's name.

    Returns:
        copies of the outputs.

    Raises:
        UsageError: no such method, or the inputs do not suit it.
        UnsupportedError: the program calls a kernel or a backend that has no model.
        FormatError: the data of a delegate is malformed.
        CapacityError: the program's buffers take more memory than the budget has.
        SimulationError: the program reads what nothing wrote, or writes what does not fit.
    """
    return MethodModel(file, method).run(inputs)


class MethodModel:
    """A loaded method.

    Args:
        file: the program.
        method: the method's name.

    Raises:
        UsageError: there is no such method.
        UnsupportedError: the program calls a kernel or a backend that has no model.
        FormatError: the data of a delegate is malformed.
    """

    def __init__(self, file: et.ProgramFile, method: str = "forward") -> None:
        plan = file.plan(method)
        if plan is None:
            known = ", ".join(map(repr, file.methods))
            raise UsageError(f"no method {method!r}", reason=f"the program has {known}")
        self.file = file
        self.plan = plan
        self.values: list[et.EValue] = plan.values or []
        self.blobs = [self._blob(delegate) for delegate in plan.delegates or ()]
        self.kernels = [self._kernel(operator) for operator in plan.operators or ()]

    def _blob(self, delegate: et.BackendDelegate) -> xnnpack.Blob:
        if delegate.id != et.XNNPACK_BACKEND:
            raise UnsupportedError(f"backend {delegate.id!r} has no model", where=self.file.path)
        return xnnpack.read_blob(self.file.delegate_data(delegate), path=self.file.path)

    def _kernel(self, operator: et.Operator) -> str:
        key = f"{operator.name}.{operator.overload}" if operator.overload else operator.name or ""
        if key not in KERNELS:
            raise UnsupportedError(f"kernel {key} has no model", where=self.file.path)
        return key

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the method on fresh memory; see `run_method`."""
        state = _State(self)
        wanted = ints(self.plan.inputs)
        if len(inputs) != len(wanted):
            raise UsageError(
                f"the method takes {len(wanted)} inputs", reason=f"{len(inputs)} are given"
            )
        for index, array in zip(wanted, inputs, strict=True):
            tensor = self.values[index].val
            if not isinstance(tensor, et.Tensor) or et.DTYPES.get(tensor.scalar_type) is None:
                raise UsageError(f"input {index} is no tensor that numpy can express")
            if array.dtype != et.DTYPES[tensor.scalar_type].numpy:
                raise UsageError(
                    f"input {tensor.name or index} has elements of type"
                    f" {et.DTYPES[tensor.scalar_type].value}",
                    reason=f"the array has {array.dtype}",
                )
            state.store(index, array)
        for chain in self.plan.chains or ():
            state.execute(chain)
        return [np.array(state.load(index)) for index in ints(self.plan.outputs)]


class _State:
    """Memory of one run."""

    def __init__(self, model: MethodModel) -> None:
        self.model = model
        sizes = ints(model.plan.non_const_buffer_sizes)
        self.buffers = [
            self.buffer(size) if number else _NOTHING for number, size in enumerate(sizes)
        ]
        self.tensors: dict[int, Array] = {}
        # MoveCall replaces values; the program itself stays as it is.
        self.moved: dict[int, Any] = {}

    def buffer(self, size: int) -> Array:
        return budget.zeros((max(size, 0),), np.uint8, "a planned buffer")

    def value(self, index: int) -> Table | None:
        return self.model.values[index].val

    def fault(self, what: str, index: int, reason: str = "") -> SimulationError:
        value = self.value(index)
        name = value.name if isinstance(value, et.Tensor) else ""
        return SimulationError(
            what, reason=reason, where=f"value {index}" + (f" ({name})" if name else "")
        )

    def load(self, index: int) -> Any:
        """A value as a Python object; tensors as arrays."""
        if index in self.moved:
            return self.moved[index]
        value = self.value(index)
        if isinstance(value, et.Tensor):
            return self.tensor(index, value)
        if isinstance(value, et.IntList):
            return tuple(self.load(item) for item in ints(value.items))
        if isinstance(value, et.TensorList | et.OptionalTensorList):
            return tuple(None if item < 0 else self.load(item) for item in ints(value.items))
        if isinstance(value, et.DoubleList):
            return tuple(float(item) for item in value.items) if value.items is not None else ()
        if isinstance(value, et.BoolList):
            return tuple(bool(item) for item in ints(value.items))
        if isinstance(value, et.Int):
            return value.int_val
        if isinstance(value, et.Double):
            return value.double_val
        if isinstance(value, et.Bool):
            return value.bool_val
        return value.string_val if isinstance(value, et.String) else None

    def tensor(self, index: int, tensor: et.Tensor) -> Array:
        if index not in self.tensors:
            data = self.model.file.tensor_data(tensor)
            if data is None:
                raise self.fault("a tensor is read that nothing wrote", index)
            self.tensors[index] = et.tensor_array(tensor, data)
        return self.tensors[index]

    def dtype(self, index: int) -> np.dtype[Any]:
        tensor = self.value(index)
        if not isinstance(tensor, et.Tensor) or tensor.scalar_type not in et.DTYPES:
            raise self.fault("no tensor that can be written", index)
        return et.DTYPES[tensor.scalar_type].numpy

    def check(self, index: int, found: tuple[int, ...]) -> None:
        """Raise a fault unless an array of that shape can be written to a tensor."""
        tensor = self.value(index)
        if not isinstance(tensor, et.Tensor):
            raise self.fault("no tensor that can be written", index)
        if tensor.is_constant:
            raise self.fault("a constant is written", index)
        shape = tensor.shape
        fits = found == shape or (
            tensor.shape_dynamism != et.ShapeDynamism.STATIC
            and len(found) == len(shape)
            and all(n <= m for n, m in zip(found, shape, strict=True))
        )
        if not fits:
            raise self.fault(
                "an array does not fit a tensor", index, f"{list(found)} in {list(shape)}"
            )

    def store(self, index: int, array: Array) -> None:
        """Write an array to a tensor's memory, casting as C does."""
        self.check(index, array.shape)
        tensor, dtype = self.value(index), self.dtype(index)
        assert isinstance(tensor, et.Tensor)
        order = ints(tensor.dim_order)
        size = math.prod(array.shape) * dtype.itemsize
        place = tensor.allocation_info
        if place is None:
            memory = budget.zeros((size,), np.uint8, f"value {index}")
        else:
            memory = self.buffers[place.memory_id][place.offset : place.offset + size]
            if memory.size != size:
                raise self.fault("a tensor does not fit its buffer", index)
        stored = memory.view(dtype).reshape([array.shape[axis] for axis in order])
        view = stored.transpose(np.argsort(order).tolist() if order else ())
        with np.errstate(invalid="ignore", over="ignore"):
            view[...] = array.astype(dtype)
        self.tensors[index] = view

    def execute(self, chain: et.Chain) -> None:
        instructions = chain.instructions or []
        counter, steps = 0, 0
        while counter < len(instructions):
            steps += 1
            if steps > _MAX_STEPS:
                raise SimulationError(f"more than {_MAX_STEPS} instructions were run")
            step = instructions[counter].instr_args
            counter += 1
            if isinstance(step, et.KernelCall):
                self.kernel(self.model.kernels[step.op_index], ints(step.args))
            elif isinstance(step, et.DelegateCall):
                self.delegate(self.model.blobs[step.delegate_index], ints(step.args))
            elif isinstance(step, et.MoveCall):
                self.moved[step.move_to] = self.load(step.move_from)
            elif isinstance(step, et.JumpFalseCall):
                if not np.all(self.load(step.cond_value_index)):
                    counter = step.destination_instruction
            elif isinstance(step, et.FreeCall):
                self.tensors.pop(step.value_index, None)

    def kernel(self, key: str, args: Sequence[int]) -> None:
        kernel = KERNELS[key]
        count = len(kernel.parameters)
        if kernel.outputs is None:
            if len(args) <= count:
                raise SimulationError(f"{key} got {len(args)} arguments and needs {count + 1}")
            outs = self.items(args[count])
        else:
            if len(args) < count + kernel.outputs:
                raise SimulationError(
                    f"{key} got {len(args)} arguments and needs {count + kernel.outputs}"
                )
            outs = tuple(args[count : count + kernel.outputs])
        arguments = [self.load(index) for index in args[:count]]
        kinds = tuple(self.dtype(index) for index in outs)
        try:
            with np.errstate(all="ignore"):
                result = kernel.compute(*arguments, out=kinds)
        except _REFUSALS as error:
            raise SimulationError(f"{key} refuses its arguments", reason=str(error)) from error
        arrays = result if isinstance(result, tuple) else (result,)
        if len(arrays) != len(outs):
            raise SimulationError(f"{key} gives {len(arrays)} tensors, {len(outs)} are expected")
        for index, array in zip(outs, arrays, strict=True):
            self.check(index, array.shape)
        # Out tensors may share memory with operands, so nothing is stored before all is copied.
        for index, array in zip(outs, [np.array(array) for array in arrays], strict=True):
            self.store(index, array)

    def items(self, index: int) -> tuple[int, ...]:
        value = self.value(index)
        if not isinstance(value, et.TensorList):
            raise self.fault("no list of tensors", index)
        return ints(value.items)

    def delegate(self, blob: xnnpack.Blob, args: Sequence[int]) -> None:
        inputs: dict[int, Array] = {}
        for value in blob.graph.xvalues or ():
            tensor = xnnpack.tensor_of(value)
            if tensor is not None and tensor.flags & xnnpack.ValueFlag.EXTERNAL_INPUT:
                if tensor.external_id >= len(args):
                    raise FormatError(
                        f"external value {tensor.external_id} of a call with {len(args)} arguments",
                        path=self.model.file.path,
                        table="XNNTensorValue.external_id",
                    )
                array = self.load(args[tensor.external_id])
                # Exporters declare a scalar as a vector of one element; the backend takes both.
                scalar = isinstance(array, np.ndarray) and array.ndim == 0 and tensor.num_dims == 1
                inputs[tensor.external_id] = array.reshape(1) if scalar else array
        outputs = execute_xnnpack(
            blob, inputs, named=self.model.file.named, path=self.model.file.path
        )
        for position, array in outputs.items():
            if position >= len(args):
                raise FormatError(
                    f"external value {position} of a call with {len(args)} arguments",
                    path=self.model.file.path,
                    table="XNNTensorValue.external_id",
                )
            result = self.value(args[position])
            scalar = isinstance(result, et.Tensor) and result.shape == () and array.size == 1
            self.store(args[position], array.reshape(()) if scalar else array)

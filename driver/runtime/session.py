"""What every runtime offers: programs are loaded into sessions, sessions run methods."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, TensorType
from fitzroy.formats import executorch as et
from fitzroy.formats.flat import ints


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a method.

    Attributes:
        name: name in the file; empty if the file has none.
        type: shape and element type; programs carry no quantization.
        bounded: whether the shape is an upper bound.
    """

    name: str
    type: TensorType
    bounded: bool = False


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What a caller needs to know of a method.

    Attributes:
        name: the method's name.
        inputs: what to provide, in order.
        outputs: what comes back, in order.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def check(self, inputs: Sequence[Array]) -> None:
        """Compare arrays with the inputs.

        Raises:
            UsageError: too few or too many, or one has another shape or element type.
        """
        if len(inputs) != len(self.inputs):
            raise UsageError(
                f"method {self.name!r} takes {len(self.inputs)} inputs",
                reason=f"{len(inputs)} are given",
            )
        for number, (array, port) in enumerate(zip(inputs, self.inputs, strict=True)):
            label = port.name or str(number)
            if array.dtype != port.type.dtype.numpy:
                raise UsageError(
                    f"input {label} has elements of type {port.type.dtype.value}",
                    reason=f"the array has {array.dtype}",
                )
            fits = array.shape == port.type.shape or (
                port.bounded
                and array.ndim == port.type.rank
                and all(n <= m for n, m in zip(array.shape, port.type.shape, strict=True))
            )
            if not fits:
                limit = "at most " if port.bounded else ""
                raise UsageError(
                    f"input {label} has shape {limit}{list(port.type.shape)}",
                    reason=f"the array has {list(array.shape)}",
                )


def method_infos(file: et.ProgramFile) -> tuple[MethodInfo, ...]:
    """Inputs and outputs of every method of a program.

    Raises:
        UsageError: an input or output is not a tensor that numpy can express.
    """
    return tuple(
        MethodInfo(
            plan.name or "",
            tuple(_port(plan, index, "input") for index in ints(plan.inputs)),
            tuple(_port(plan, index, "output") for index in ints(plan.outputs)),
        )
        for plan in file.program.execution_plan or ()
    )


def _port(plan: et.ExecutionPlan, index: int, what: str) -> Port:
    tensor = (plan.values or [])[index].val
    if not isinstance(tensor, et.Tensor):
        kind = type(tensor).__name__
        raise UsageError(
            f"{what} {index} of method {plan.name!r} is no tensor", reason=f"it is of kind {kind}"
        )
    dtype = et.DTYPES.get(tensor.scalar_type)
    if dtype is None:
        raise UsageError(
            f"{what} {index} of method {plan.name!r} cannot be expressed as an array",
            reason=f"its elements are of type {et.ScalarType(tensor.scalar_type).name}",
        )
    bounded = tensor.shape_dynamism != et.ShapeDynamism.STATIC
    return Port(tensor.name, TensorType(tensor.shape, dtype), bounded)


class Session(Protocol):
    """A loaded program."""

    @property
    def methods(self) -> tuple[MethodInfo, ...]:
        """Its methods, in order of the file."""

    def run(self, inputs: Sequence[Array], method: str = "forward") -> list[Array]:
        """Run a method.

        Args:
            inputs: one array per input, of its shape and element type.
            method: the method's name.

        Raises:
            UsageError: no such method, or the inputs do not suit it.
            DeviceError: the runtime failed.
        """

    def close(self) -> None:
        """Release the program; closing twice is fine."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Runtime(Protocol):
    """Something that runs programs."""

    def load(self, data: bytes, path: str = "") -> Session:
        """Load a program from memory.

        Args:
            data: the program.
            path: name of the file it came from, for errors.

        Raises:
            FormatError: the bytes are no program.
            DeviceError: the runtime refuses it.
        """

    def load_file(self, path: str | os.PathLike[str]) -> Session:
        """Load a program from a file.

        Raises:
            UsageError: the file cannot be read.
            FormatError: it is no program.
            DeviceError: the runtime refuses it.
        """

    def close(self) -> None:
        """Release everything; closing twice is fine."""


def find_method(methods: Sequence[MethodInfo], name: str) -> MethodInfo:
    """The method of that name.

    Raises:
        UsageError: there is none.
    """
    for info in methods:
        if info.name == name:
            return info
    known = ", ".join(repr(info.name) for info in methods)
    raise UsageError(f"no method {name!r}", reason=f"the program has {known}")

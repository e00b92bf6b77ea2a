"""Models whose parts run on a device and on the host, with the calls of TFLite's interpreter.

Every error is one that TFLite raises for the same call, with the same beginning of its text.
"""

from __future__ import annotations

import logging
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fitzroy.base.types import Array, DType
from fitzroy.driver.runtime.devices import Device
from fitzroy.execution import interpreter as execution
from fitzroy.execution.details import tensor_details
from fitzroy.execution.parts import Host
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.flat import ints
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.tflite_runtime.errors import (
    ArgumentError,
    ArgumentTypeError,
    NotReadyError,
    ResizeError,
    raising,
)
from fitzroy.tflite_runtime.signatures import SignatureRunner, Signatures, chosen_signature

_log = logging.getLogger(__name__)


class CompiledModel:
    """A model, with arrays for its inputs and outputs once they are allocated.

    Args:
        data: the model.
        path: name of its file, for errors.
        device: what runs its Edge TPU operators; without one, tensors cannot be allocated if there
            are any.
        arithmetic: how the host rounds, as `execution.interpreter.Interpreter` takes it.
        threads: how many threads of LiteRT compute on the host.

    Attributes:
        model: the model as the file has it.
        signatures: numbers of the tensors behind the names of every signature.

    Raises:
        FormatError: the model is malformed.
        UnsupportedError: operators exchange tensors of types that have no counterpart here.
        DeviceError: LiteRT has no kernel for an operator.
    """

    def __init__(
        self, data: bytes, path: str, device: Device | None, arithmetic: Arithmetic, threads: int
    ) -> None:
        self.path = path
        self.model = tflite.read_model(data, path)
        self._engine: execution.Interpreter | None = None
        if device is not None or not custom_op.extract(self.model, path):
            self._engine = execution.Interpreter(
                data,
                device=device,
                host=Host.AUTO,
                arithmetic=arithmetic,
                name=path,
                threads=threads,
            )
        main = (self.model.subgraphs or [])[0]
        self._tensors = main.tensors or []
        # An input that is listed twice is one input.
        self._inputs = tuple(dict.fromkeys(ints(main.inputs)))
        self._outputs = tuple(dict.fromkeys(ints(main.outputs)))
        self.signatures: Signatures = execution.signature_tensors(self.model)
        self._ready = False
        for number in range(self.num_subgraphs()):
            # What is wrong with a tensor is said now, and not when it is asked for.
            self.get_tensor_details(number)
        self._views: list[weakref.ref[Array]] = []

    # --- running ---------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Make inputs and outputs usable; what they hold stays.

        Raises:
            NotReadyError: an array of `tensor` is still there, or nothing runs Edge TPU operators.
        """
        self._check_views()
        if self._engine is None:
            raise NotReadyError(
                f"Encountered unresolved custom op: {custom_op.CUSTOM_CODE}.",
                reason=f"{self.path or 'the model'} is given no delegate for the Edge TPU",
                hint="experimental_delegates=[load_delegate('libedgetpu.so.1')]",
            )
        self._ready = True

    def invoke(self) -> None:
        """Compute the outputs.

        Raises:
            NotReadyError: tensors are not allocated, or an array of `tensor` is still there.
            FitzroyError: a device or an operator fails, as a RuntimeError.
        """
        self._check_views()
        self.invoke_anyway()

    def invoke_anyway(self) -> None:
        """Compute the outputs, though arrays of `tensor` may be there; see `invoke`."""
        engine = self._allocated("Invoke called on model that is not ready.")
        with raising(RuntimeError):
            engine.invoke()
        for timing in engine.timings:
            part = timing.part
            _log.debug("%s on %s: %.3f ms", part.title, part.where, 1e3 * timing.seconds)

    def reset_all_variables(self) -> None:
        """Begin the next inference with states of zero."""
        if self._engine is not None:
            self._engine.reset_all_variables()

    def resize_tensor_input(self, index: int, shape: Sequence[int], strict: bool = False) -> None:
        """Do nothing, if the input has the shape already.

        Raises:
            NotReadyError: an array of `tensor` is still there.
            ArgumentError: there is no such tensor.
            ResizeError: the input has another shape.
        """
        self._check_views()
        details = self.details(index)
        wanted = tuple(int(extent) for extent in np.array(shape, np.int32).reshape(-1))
        if details["index"] not in self._inputs:
            raise ResizeError(f"tensor {index} is no input", where=self.path)
        if wanted != tuple(details["shape"]):
            raise ResizeError(
                f"input {details['name']!r} cannot be resized to {list(wanted)}",
                reason=f"the model was compiled for {details['shape'].tolist()}",
                where=self.path,
                hint="compile the model for the other shape",
            )

    # --- tensors ---------------------------------------------------------------------------------

    def get_input_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the inputs."""
        return [self.details(index) for index in self._inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """What TFLite says of the outputs."""
        return [self.details(index) for index in self._outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """What TFLite says of all tensors of a subgraph.

        Raises:
            ArgumentError: there is no such subgraph.
        """
        subgraphs = self.model.subgraphs or []
        if not 0 <= subgraph_index < len(subgraphs):
            raise ArgumentError(
                f"subgraph_index is out of range: {subgraph_index} for the model, which has "
                f"{len(subgraphs)} subgraphs."
            )
        if subgraph_index:
            tensors = subgraphs[subgraph_index].tensors or []
            every = (tensor_details(tensor, index) for index, tensor in enumerate(tensors))
        else:
            every = (self._said(index) for index in range(len(self._tensors)))
        return [details for details in every if details is not None]

    def details(self, index: int) -> dict[str, Any]:
        """What TFLite says of a tensor.

        Raises:
            ArgumentError: there is no such tensor, or TFLite says nothing of its type.
        """
        details = self._said(self._number(index))
        if details is None:
            raise ArgumentError("Could not get tensor details", where=self.path)
        return details

    def set_tensor(self, index: int, value: Any) -> None:
        """Copy elements into an input or output.

        Raises:
            ArgumentError: it is neither, not allocated, or of another type or shape.
        """
        number = self._number(index)
        refusal = "Cannot set tensor: "
        if not self._ready:
            raise ArgumentError(
                f"{refusal}Tensor is unallocated. Try calling allocate_tensors() first"
            )
        buffer, array = self._buffer(number), np.asarray(value)
        if array.dtype.type is not buffer.dtype.type:
            raise ArgumentError(
                f"{refusal}Got value of type {_type_name(array)} but expected type "
                f"{_type_name(buffer)} for input {number}, name: {self._tensors[number].name} "
            )
        if array.ndim != buffer.ndim:
            raise ArgumentError(
                f"{refusal}Dimension mismatch. Got {array.ndim} but expected {buffer.ndim} "
                f"for input {number}."
            )
        for axis, (found, wanted) in enumerate(zip(array.shape, buffer.shape, strict=True)):
            if found != wanted:
                raise ArgumentError(
                    f"{refusal}Dimension mismatch. Got {found} but expected {wanted} for "
                    f"dimension {axis} of input {number}."
                )
        buffer[...] = array

    def get_tensor(self, index: int, subgraph_index: int = 0) -> Array:
        """A copy of an input, an output or a constant.

        Raises:
            ArgumentError: it is none of them, or not allocated.
        """
        if subgraph_index:
            raise ArgumentError(
                f"Invalid subgraph index {subgraph_index} exceeds max subgraph index 1",
                reason="only tensors of the first subgraph have values between calls",
            )
        return self._value(self._number(index)).copy()

    def tensor(self, index: int) -> Callable[[], Array]:
        """A function that gives an input, an output or a constant itself.

        As long as such an array or a part of it is there, tensors cannot be allocated, resized or
        computed.
        """
        return lambda: self._view(index)

    def _view(self, index: int) -> Array:
        view: Array = np.asarray(_Memory(self._value(self._number(index))))
        self._views.append(weakref.ref(view))
        return view

    def _check_views(self) -> None:
        self._views = [view for view in self._views if view() is not None]
        if self._views:
            raise NotReadyError(
                "There is at least 1 reference to internal data in the interpreter in the form of "
                "a numpy array or slice",
                reason=f"{len(self._views)} arrays that tensor() gave are in use",
                hint="keep the function that tensor() returns, or a copy of the array",
            )

    def _value(self, number: int) -> Array:
        """An input or output itself, or a constant."""
        if self._ready and number in (*self._inputs, *self._outputs):
            return self._buffer(number)
        with raising(ValueError):
            constant = tflite.constant(self.model, self._tensors[number], self.path)
        if constant is None:
            raise ArgumentError(
                "Tensor data is null. Run allocate_tensors() first",
                reason=f"tensor {number} is between operators" if self._ready else "",
            )
        return np.ascontiguousarray(constant)

    def _buffer(self, number: int) -> Array:
        """An input or output itself."""
        if number not in (*self._inputs, *self._outputs):
            raise ArgumentError(
                "Cannot set tensor: it is no input and no output", reason=f"it is tensor {number}"
            )
        engine = self._allocated("Tensor data is null. Run allocate_tensors() first")
        return engine.tensor(number)()

    def _said(self, number: int) -> dict[str, Any] | None:
        details = tensor_details(self._tensors[number], number)
        if details is not None and self._ready and number in self._outputs:
            details["shape"] = np.array(self._buffer(number).shape, np.int32)
        return details

    def _number(self, index: int) -> int:
        """The number of a tensor.

        Raises:
            ArgumentError: there is no such tensor.
            ArgumentTypeError: it is no number.
        """
        try:
            number = operator.index(index)
        except TypeError:
            raise ArgumentTypeError(
                "incompatible function arguments: a tensor has a number",
                reason=f"{type(index).__name__} is given",
            ) from None
        if not 0 <= number < len(self._tensors):
            raise ArgumentError(
                f"Invalid tensor index {number} exceeds max tensor index {len(self._tensors)}"
            )
        return number

    def _allocated(self, refusal: str) -> execution.Interpreter:
        if self._engine is None or not self._ready:
            raise NotReadyError(refusal, hint="call allocate_tensors() first")
        return self._engine

    # --- the model -------------------------------------------------------------------------------

    def num_subgraphs(self) -> int:
        """How many subgraphs the model has."""
        return len(self.model.subgraphs or ())

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """Index, name, and tensors of every operator, as LiteRT says them."""
        operators = (self.model.subgraphs or [])[0].operators or []
        return [
            {
                "index": number,
                "op_name": tflite.operator_name(self.model, item),
                "inputs": np.array(ints(item.inputs), np.int32),
                "outputs": np.array(ints(item.outputs), np.int32),
                "operand_types": self._types(item.inputs),
                "result_types": self._types(item.outputs),
            }
            for number, item in enumerate(operators)
        ]

    def _types(self, indices: Array | None) -> list[type[np.generic]]:
        return [self.details(index)["dtype"] for index in ints(indices) if index >= 0]

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of the inputs and outputs of every signature, in order of the names."""
        return {
            key: {side: list(names) for side, names in sides.items()}
            for key, sides in self.signatures.items()
        }

    def get_signature_runner(self, key: str | None = None) -> SignatureRunner:
        """A signature to call.

        Raises:
            ArgumentError: there is none of that name, or it is of another subgraph.
        """
        name = chosen_signature(self.signatures, key)
        definitions = self.model.signature_defs or ()
        if any(item.subgraph_index for item in definitions if (item.signature_key or "") == name):
            raise ArgumentError(
                f"signature {name!r} is of another subgraph than the first", where=self.path
            )
        return SignatureRunner(self, name)


class _Memory:
    """The memory of an array, for arrays whose parts keep them alive.

    A part of an array refers to the first array on its memory. On memory that is no array, that is
    the array which was made of this.
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self.__array_interface__ = array.__array_interface__


def _type_name(array: Array) -> str:
    """TFLite's name of an element type; texts and objects are strings to it."""
    try:
        return tflite.TENSOR_TYPES[DType.of(array)].name
    except ValueError:
        return "STRING" if array.dtype.kind in "OSU" else str(array.dtype).upper()

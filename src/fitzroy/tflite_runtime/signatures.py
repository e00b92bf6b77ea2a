"""Signatures: models as functions whose arguments and results have names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fitzroy.base.types import Array
from fitzroy.tflite_runtime.errors import ArgumentError

Signatures = dict[str, dict[str, dict[str, int]]]
"""Numbers of tensors by the name of a signature, ``inputs`` or ``outputs``, and their names."""


def chosen_signature(signatures: Signatures, key: str | None) -> str:
    """The name of the signature that is meant.

    Raises:
        ArgumentError: there is none of that name, or none is named of several.
    """
    if key is None:
        if len(signatures) != 1:
            raise ArgumentError(
                f"SignatureDef signature_key is None and model has {len(signatures)} Signatures. "
                "None is only allowed when the model has 1 SignatureDef"
            )
        return next(iter(signatures))
    if key not in signatures:
        raise ArgumentError(f'Invalid signature_key provided: "{key}".')
    return key


class Callee(Protocol):
    """A model that signatures call; its methods are those of TFLite's interpreter."""

    signatures: Signatures

    def allocate_tensors(self) -> None:
        """Make inputs and outputs usable."""
        ...

    def resize_tensor_input(self, index: int, shape: Sequence[int], strict: bool = False) -> None:
        """Give an input a shape."""
        ...

    def set_tensor(self, index: int, value: Any) -> None:
        """Copy elements into an input."""
        ...

    def invoke(self) -> None:
        """Compute the outputs."""
        ...

    def get_tensor(self, index: int, subgraph_index: int = 0) -> Array:
        """A copy of an output."""
        ...

    def details(self, index: int) -> dict[str, Any]:
        """What TFLite says of a tensor."""
        ...


class SignatureRunner:
    """A signature of a model, to be called with arrays by name.

    Args:
        model: the model; tensors are allocated by the first call.
        key: the signature.
    """

    def __init__(self, model: Callee, key: str) -> None:
        self._model = model
        sides = model.signatures[key]
        self._inputs: Mapping[str, int] = sides["inputs"]
        self._outputs: Mapping[str, int] = sides["outputs"]

    def __call__(self, **inputs: Array) -> dict[str, Array]:
        """The results by name, copied.

        Raises:
            ArgumentError: another number of inputs, an unknown one, or one of another type.
            ResizeError: an input of another shape.
        """
        if len(inputs) != len(self._inputs):
            raise ArgumentError(
                "Invalid number of inputs provided for running a SignatureDef, "
                f"expected {len(self._inputs)} vs provided {len(inputs)}"
            )
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ArgumentError(f"Invalid Input name ({name}) for SignatureDef")
            self._model.resize_tensor_input(self._inputs[name], value.shape)
        self._model.allocate_tensors()
        for name, value in inputs.items():
            self._model.set_tensor(self._inputs[name], value)
        self._model.invoke()
        return {name: self._model.get_tensor(index) for name, index in self._outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """What TFLite says of the inputs, by name."""
        return {name: self._model.details(index) for name, index in self._inputs.items()}

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """What TFLite says of the outputs, by name."""
        return {name: self._model.details(index) for name, index in self._outputs.items()}

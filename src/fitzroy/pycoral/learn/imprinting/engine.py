"""Classes learned from a few embeddings each: the weights of a class are their direction.

A model for this ends in L2 normalization, a 1x1 convolution whose filters are the classes, a
multiplication, a reshape and a softmax. Embeddings have length 1, and so have filters.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, is_usable_scale
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints
from fitzroy.formats.submodel import rebuilt
from fitzroy.formats.tflite import BuiltinOperator
from fitzroy.pycoral.learn.models import (
    QUANTIZED,
    main_graph,
    parameters,
    quantization_of,
    quantized,
    read_prototype,
    with_graph,
)
from fitzroy.tflite_runtime.errors import ArgumentError, NotReadyError

__all__ = ["ImprintingEngine"]

Floats = npt.NDArray[np.float64]

_TAIL = (
    BuiltinOperator.CONV_2D,
    BuiltinOperator.MUL,
    BuiltinOperator.RESHAPE,
    BuiltinOperator.SOFTMAX,
)
_SHORTEST = 1e-5
"""Vectors that are shorter have no direction."""

_LONGEST = 1e30
"""Sums of embeddings are shorter."""


class ImprintingEngine:
    """Learns classes for a model; equal calls give equal models.

    Args:
        model_path: the model; it may be compiled for the Edge TPU, which leaves its end on the
            host.
        keep_classes: whether to keep its classes, and add further ones.

    Raises:
        ArgumentError: the file cannot be read, or the model does not end as it must; a ValueError.
        FormatError: it is malformed; a ValueError, too.
    """

    def __init__(self, model_path: str | os.PathLike[str], keep_classes: bool = False) -> None:
        self._ending = _Ending(read_prototype(model_path))
        self._classes = self._ending.classes() if keep_classes else []

    @property
    def embedding_dim(self) -> int:
        """Length of embeddings."""
        return self._ending.features

    @property
    def num_classes(self) -> int:
        """How many classes there are by now."""
        return len(self._classes)

    def serialize_extractor_model(self) -> bytes:
        """The model up to its embedding."""
        return self._ending.extractor()

    def serialize_model(self) -> bytes:
        """The model with the classes that there are by now.

        Raises:
            NotReadyError: there are none; a RuntimeError.
        """
        if not self._classes:
            raise NotReadyError("Model is not trained.")
        return self._ending.with_classes(self._classes)

    def train(self, embedding: Array, class_id: int) -> None:
        """Learn a class, or more of a class that was learned here.

        Args:
            embedding: what the extractor gives for an input, as real numbers [embedding_dim].
            class_id: number of the class, or how many there are for one more.

        Raises:
            NotReadyError: the embedding has another shape, or the class cannot be learned; a
                RuntimeError, as PyCoral raises.
        """
        vector = np.asarray(embedding, np.float32)
        if vector.shape != (self.embedding_dim,):
            raise NotReadyError(
                "Invalid weights array shape.",
                reason=f"it is {list(vector.shape)}, expected {[self.embedding_dim]}",
            )
        if not 0 <= class_id <= self.num_classes:
            raise NotReadyError(
                "The class index of a new category is too large!",
                reason=f"it is {class_id}, and there are {self.num_classes} classes",
            )
        if class_id == self.num_classes:
            self._classes.append(_Class(np.zeros(len(vector)), True))
        known = self._classes[class_id]
        if not known.learned:
            raise NotReadyError(
                "Cannot change the base model classes not trained with imprinting method!",
                reason=f"class {class_id} is of the model itself",
            )
        self._classes[class_id] = replace(known, total=known.total + vector)


@dataclass(frozen=True, eq=False)
class _Class:
    """A class: the sum of its embeddings, and whether it was learned here."""

    total: Floats
    learned: bool


class _Ending:
    """A model and its last operators.

    Args:
        model: the model.

    Raises:
        ArgumentError: it does not end as it must.
    """

    def __init__(self, model: tflite.Model) -> None:
        self.model = model
        graph = main_graph(model)
        self._tensors = graph.tensors or []
        self._operators = graph.operators or []
        codes = [self._code(item) for item in self._operators]
        found = [n for n, code in enumerate(codes) if code == BuiltinOperator.L2_NORMALIZATION]
        if len(found) != 1:
            raise ArgumentError(
                "Unsupported model architecture. Input model must have an L2Norm layer.",
                reason=f"it has {len(found)}",
            )
        if tuple(codes[-len(_TAIL) :]) != _TAIL:
            raise ArgumentError("The last 4 operators must be Conv2d, Mul, Reshape, Softmax")
        (normalization,), first = found, len(codes) - len(_TAIL)
        between = codes[normalization + 1 : first]
        if between not in ([], [BuiltinOperator.QUANTIZE]):
            raise ArgumentError(
                "Unsupported model architecture. L2Norm operator must be followed with the last "
                "Conv2d operator."
            )
        self._normalization = normalization
        self._convolution, self._product, self._reshape, self._softmax = self._operators[first:]
        self._check_shapes()

    def _check_shapes(self) -> None:
        embedding = ints(self._output(self._operators[self._normalization]).shape)
        if embedding[:-1] != (1, 1, 1):
            raise ArgumentError(
                "Embedding extractor's output tensor should be [1, 1, 1, x]",
                reason=f"it is {list(embedding)}",
            )
        for item in (self._convolution, self._product, self._reshape, self._softmax):
            self._output(item)
            for number in range(len(ints(item.inputs))):
                self._input(item, number)
        logits = ints(self._output(self._softmax).shape)
        if len(logits) != 2 or logits[0] != 1:
            raise ArgumentError(
                "Logit output tensor should be [1, x]", reason=f"it is {list(logits)}"
            )
        if ints(main_graph(self.model).outputs) != ints(self._softmax.outputs):
            raise ArgumentError("Graph must have output from Softmax")
        self.features = embedding[-1]
        filters = ints(self._input(self._convolution, 1).shape)
        if len(ints(self._convolution.inputs)) != 3 or filters[1:] != (1, 1, self.features):
            raise ArgumentError(
                f"the last convolution has filters [n,1,1,{self.features}] and a bias",
                reason=f"its filters are {list(filters)}",
            )

    def classes(self) -> list[_Class]:
        """The classes that the model has."""
        tensor = self._input(self._convolution, 1)
        scale, zero = quantization_of(tensor)
        stored = self._constant(tensor).reshape(-1, self.features)
        real = scale * (stored.astype(np.float64) - zero)
        lengths = _lengths(self.model.description or "")
        return [
            _Class(row * lengths.get(number, 1.0), number in lengths)
            for number, row in enumerate(real)
        ]

    def extractor(self) -> bytes:
        """The model up to its embedding."""
        last = self._operators[self._normalization]
        ending = with_graph(self.model, outputs=last.outputs)
        return tflite.write_model(rebuilt(ending, self._operators[: self._normalization + 1]))

    def with_classes(self, classes: list[_Class]) -> bytes:
        """The model with other classes."""
        count = len(classes)
        changed: dict[int, tflite.Tensor] = {}
        buffers = list(self.model.buffers or ())
        lengths = [float(np.sqrt(item.total @ item.total)) for item in classes]
        kernel, bias = ints(self._convolution.inputs)[1:]
        scale, zero = quantization_of(self._tensors[kernel])
        dtype = QUANTIZED[self._tensors[kernel].type]
        rows = [
            item.total / (length if length > _SHORTEST else 1.0)
            for item, length in zip(classes, lengths, strict=True)
        ]
        filters = quantized(np.stack(rows), scale, zero, dtype)

        def put(number: int, shape: tuple[int, ...], data: Array) -> None:
            buffers.append(tflite.Buffer(data=np.frombuffer(data.tobytes(), np.uint8)))
            changed[number] = replace(
                self._tensors[number],
                shape=np.array(shape, np.int32),
                shape_signature=None,
                buffer=len(buffers) - 1,
            )

        put(kernel, (count, 1, 1, self.features), filters)
        put(bias, (count,), np.zeros(count, np.int32))
        reshape_inputs = ints(self._reshape.inputs)
        if len(reshape_inputs) == 2:
            put(reshape_inputs[1], (2,), np.array([1, count], np.int32))
        changed |= self._results(count)
        model = with_graph(
            replace(self.model, buffers=buffers, description=_described(classes, lengths)),
            tensors=[changed.get(n, tensor) for n, tensor in enumerate(self._tensors)],
            operators=[self._resized(item, count) for item in self._operators],
        )
        # What nothing refers to any more, such as the filters before, is left out.
        return tflite.write_model(rebuilt(model, main_graph(model).operators or []))

    def _results(self, count: int) -> dict[int, tflite.Tensor]:
        """Tensors that the last operators compute, for as many classes.

        Products of vectors of length 1 are from -1 to 1.
        """
        factor_tensor = self._input(self._product, 1)
        scale, zero = quantization_of(factor_tensor)
        factor = scale * (int(self._constant(factor_tensor).reshape(-1)[0]) - zero)
        if not is_usable_scale(factor / 128):
            raise ArgumentError(
                "the factor of the last multiplication is a positive number",
                reason=f"it is {factor:.7g}",
            )
        middle = 128 if self._output(self._convolution).type == tflite.TensorType.UINT8 else 0
        cosines, logits = parameters(1 / 128, middle), parameters(factor / 128, middle)
        results = (
            (self._convolution, (1, 1, 1, count), cosines),
            (self._product, (1, 1, 1, count), logits),
            (self._reshape, (1, count), logits),
            (self._softmax, (1, count), self._output(self._softmax).quantization),
        )
        return {
            ints(item.outputs)[0]: replace(
                self._output(item),
                shape=np.array(shape, np.int32),
                shape_signature=None,
                quantization=quantization,
            )
            for item, shape, quantization in results
        }

    def _resized(self, operator: tflite.Operator, count: int) -> tflite.Operator:
        """An operator, for as many classes if it is the reshape."""
        options = operator.builtin_options
        if operator is not self._reshape or not isinstance(options, tflite.ReshapeOptions):
            return operator
        return replace(
            operator, builtin_options=replace(options, new_shape=np.array([1, count], np.int32))
        )

    def _code(self, operator: tflite.Operator) -> int:
        code = (self.model.operator_codes or [])[operator.opcode_index]
        return tflite.builtin_number(code)

    def _input(self, operator: tflite.Operator, number: int) -> tflite.Tensor:
        given = ints(operator.inputs)
        if number >= len(given) or given[number] < 0:
            raise ArgumentError("an operator at the end of the model lacks an input")
        return self._tensors[given[number]]

    def _output(self, operator: tflite.Operator) -> tflite.Tensor:
        made = ints(operator.outputs)
        if len(made) != 1:
            raise ArgumentError("an operator at the end of the model has one output")
        return self._tensors[made[0]]

    def _constant(self, tensor: tflite.Tensor) -> Array:
        data = tflite.constant(self.model, tensor)
        if data is None or not data.size:
            raise ArgumentError(f"tensor {tensor.name!r} is no constant")
        return data


def _lengths(description: str) -> dict[int, float]:
    """Lengths of the sums of embeddings by class, from the description of a model."""
    words = description.split()
    try:
        pairs = zip(words[::2], words[1::2], strict=True)
        found = {int(number): float(length) for number, length in pairs}
    except ValueError:
        # A description in words, of a model that was not made here.
        return {}
    return found if all(0 <= length < _LONGEST for length in found.values()) else {}


def _described(classes: list[_Class], lengths: list[float]) -> str:
    """The description of a model, from which `_lengths` reads; classes of the model have none."""
    return "".join(
        f"{number} {length:f}\n"
        for number, (item, length) in enumerate(zip(classes, lengths, strict=True))
        if item.learned
    )

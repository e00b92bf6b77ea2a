"""The last layer of a classifier, learned by gradient descent on embeddings.

The layer is a matrix and a bias, with a softmax after them, and the loss is the cross entropy. The
other layers are an embedding extractor, which does not change.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fitzroy.base.types import Array, is_usable_scale
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints
from fitzroy.formats.tflite import BuiltinOperator
from fitzroy.pycoral.learn.models import (
    QUANTIZED,
    Appender,
    Byte,
    parameters,
    quantization_of,
    quantized,
    read_prototype,
)
from fitzroy.tflite_runtime.errors import ArgumentError

__all__ = ["SoftmaxRegression"]

Floats = npt.NDArray[np.float32]

_CODES: dict[Byte, tuple[tuple[BuiltinOperator, int], ...]] = {
    np.uint8: ((BuiltinOperator.FULLY_CONNECTED, 1), (BuiltinOperator.SOFTMAX, 1)),
    np.int8: ((BuiltinOperator.FULLY_CONNECTED, 4), (BuiltinOperator.SOFTMAX, 2)),
}
"""The operators that are appended, with their versions, by element type."""

_log = logging.getLogger(__name__)


class SoftmaxRegression:
    """A last layer that learns; equal calls give equal weights.

    Args:
        feature_dim: length of embeddings.
        num_classes: how many classes there are.
        weight_scale: standard deviation of the weights at first.
        reg: factor of half the sum of squared weights in the loss that is logged; as in PyCoral,
            weights are learned without it.

    Raises:
        ArgumentError: no extent is given, or one that is not positive.
    """

    def __init__(
        self,
        feature_dim: int | None = None,
        num_classes: int | None = None,
        weight_scale: float = 0.01,
        reg: float = 0.0,
    ) -> None:
        extents = (feature_dim, num_classes)
        if any(extent is None or extent < 1 for extent in extents):
            raise ArgumentError(
                "feature_dim and num_classes are positive numbers", reason=f"they are {extents}"
            )
        self._random = np.random.default_rng(0)
        shape = (int(feature_dim or 0), int(num_classes or 0))
        self._weights: Floats = self._random.standard_normal(shape).astype(np.float32)
        self._weights *= np.float32(weight_scale)
        self._biases: Floats = np.zeros(shape[1], np.float32)
        self._regularization = reg
        self._logits = (0.0, 0.0)

    def train_with_sgd(
        self,
        data: Mapping[str, Array],
        num_iter: int,
        learning_rate: float,
        batch_size: int = 100,
        print_every: int = 100,
    ) -> None:
        """Learn by stochastic gradient descent.

        Args:
            data: ``data_train`` has embeddings [n, feature_dim], ``labels_train`` their classes
                [n]; ``data_val`` and ``labels_val`` have others, on which accuracy is logged.
            num_iter: how many batches.
            learning_rate: factor of gradients.
            batch_size: embeddings of a batch, chosen at random.
            print_every: log loss and accuracy after so many batches; 0 for never.

        Raises:
            ArgumentError: embeddings or classes are missing, or do not fit.
        """
        embeddings, labels = self._checked(data, "train")
        validation = self._checked(data, "val") if print_every else (embeddings, labels)
        for number in range(num_iter):
            batch = self._random.integers(0, len(embeddings), batch_size)
            loss = self._step(embeddings[batch], labels[batch], np.float32(learning_rate))
            if print_every and number % print_every == 0:
                _log.info("Loss: %g", loss)
                _log.info("Train Acc: %g", self.get_accuracy(embeddings, labels))
                if len(validation[0]):
                    _log.info("Valid Acc: %g", self.get_accuracy(*validation))

    def get_accuracy(self, mat_x: Array, labels: Array) -> float:
        """The part of embeddings whose class is found.

        Args:
            mat_x: embeddings [n, feature_dim].
            labels: their classes [n].

        Raises:
            ArgumentError: there are none, or they do not fit.
        """
        embeddings, wanted = self._fitting(mat_x, labels)
        if not len(wanted):
            raise ArgumentError("there is nothing to find classes of", reason="no labels are given")
        found = (embeddings @ self._weights + self._biases).argmax(axis=1)
        return float(np.mean(found == wanted))

    def serialize_model(self, in_model_path: str | os.PathLike[str]) -> bytes:
        """An embedding extractor with the layer after it, which runs on the host.

        Args:
            in_model_path: the extractor, whose one output is an embedding of 8-bit integers; it may
                be compiled for the Edge TPU.

        Returns:
            The model; weights have the output's element type.

        Raises:
            ArgumentError: the file cannot be read, or its output is something else.
            FormatError: it is malformed; a ValueError, too.
        """
        appender = Appender(read_prototype(in_model_path))
        shape, features = ints(appender.output.shape), len(self._weights)
        if not shape or shape[-1] != features:
            raise ArgumentError(
                f"embeddings have {features} elements",
                reason=f"the model's output has shape {list(shape)}",
                where=os.fspath(in_model_path),
            )
        self._append(appender, math.prod(shape[:-1]))
        return appender.finished()

    def _append(self, appender: Appender, count: int) -> None:
        """Append the layer to a model with `count` embeddings."""
        scale, _ = quantization_of(appender.output)
        dtype = QUANTIZED[appender.output.type]
        product, softmax = (
            tflite.operator_code(code, version=version) for code, version in _CODES[dtype]
        )
        weights, weight_scale, weight_zero = _weights(self._weights.T, dtype)
        bias_scale = scale * weight_scale
        if not is_usable_scale(bias_scale):
            raise ArgumentError(
                f"the output {appender.output.name!r} cannot be an embedding",
                reason=f"with its scale {scale:.7g}, that of biases would be {bias_scale:.7g}",
            )
        biases = quantized(self._biases, bias_scale, 0, np.int32)
        operands = (
            appender.constant(
                "Appended/FC/Weights", weights, parameters(weight_scale, weight_zero)
            ),
            appender.constant("Appended/FC/Bias", biases, parameters(bias_scale, 0)),
        )
        # TFLite's matrix product takes embeddings of any rank as rows.
        rows = (count, len(self._biases))
        logits = ("Appended/FC/Output", rows, parameters(*_range(*self._logits, dtype)))
        appender.append(product, tflite.FullyConnectedOptions(), operands, logits)
        lowest = int(np.iinfo(dtype).min)
        scores = ("Appended/Softmax/Output", rows, parameters(1 / 256, lowest))
        appender.append(softmax, tflite.SoftmaxOptions(beta=1.0), (), scores)

    def _step(self, embeddings: Floats, labels: Array, rate: np.float32) -> float:
        """Learn from a batch; returns its loss."""
        logits = embeddings @ self._weights + self._biases
        self._logits = (
            min(self._logits[0], float(logits.min())),
            max(self._logits[1], float(logits.max())),
        )
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        rows = np.arange(len(labels))
        chosen = probabilities[rows, labels]
        loss = -np.log(np.maximum(chosen, np.finfo(np.float32).tiny)).mean()
        loss += 0.5 * self._regularization * (self._weights.T @ self._weights).sum()
        # The gradient of the loss by logits.
        gradient = probabilities
        gradient[rows, labels] -= 1
        gradient /= len(labels)
        self._weights -= rate * (embeddings.T @ gradient)
        self._biases -= rate * gradient.sum(axis=0)
        return float(loss)

    def _checked(self, data: Mapping[str, Array], part: str) -> tuple[Floats, Array]:
        names = (f"data_{part}", f"labels_{part}")
        missing = [name for name in names if name not in data]
        if missing:
            raise ArgumentError(f"data has no {missing[0]!r}", reason=f"it has {', '.join(data)}")
        embeddings, labels = self._fitting(*(data[name] for name in names))
        if part == "train" and not len(labels):
            raise ArgumentError("there is nothing to learn from", reason="data_train is empty")
        return embeddings, labels

    def _fitting(self, mat_x: Array, labels: Array) -> tuple[Floats, Array]:
        features, classes = self._weights.shape
        embeddings, wanted = np.asarray(mat_x, np.float32), np.asarray(labels)
        if not len(wanted):
            return embeddings.reshape(0, features), wanted.astype(np.int64)
        if embeddings.shape != (len(wanted), features) or wanted.dtype.kind not in "iu":
            raise ArgumentError(
                f"{len(wanted)} labels need {len(wanted)} embeddings of {features} elements",
                reason=f"embeddings are {list(embeddings.shape)}, labels {wanted.dtype}",
            )
        if wanted.min() < 0 or wanted.max() >= classes:
            raise ArgumentError(
                f"labels are 0 to {classes - 1}", reason=f"{wanted.min()} to {wanted.max()}"
            )
        return embeddings, wanted


def _weights(real: Floats, dtype: Byte) -> tuple[Array, float, int]:
    """Quantized weights, with scale and zero point: symmetric as int8, which TFLite demands."""
    if dtype is np.int8:
        scale, zero = _usable(float(np.abs(real).max()) / 127), 0
    else:
        scale, zero = _range(float(real.min()), float(real.max()), dtype)
    return quantized(real, scale, zero, dtype), scale, zero


def _range(low: float, high: float, dtype: Byte) -> tuple[float, int]:
    """Scale and zero point by which elements reach from `low` to `high`, and have a zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    limits = np.iinfo(dtype)
    scale = _usable((high - low) / (limits.max - limits.min))
    zero = int(np.clip(np.round(limits.min - low / scale), limits.min, limits.max))
    return scale, zero


def _usable(scale: float) -> float:
    """A scale as float32; 1 where all is zero, which any scale says."""
    return float(np.float32(scale)) or 1.0

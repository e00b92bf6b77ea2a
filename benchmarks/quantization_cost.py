"""Time and memory of quantizing a network of the size of MobileNetV2.

``python -m benchmarks.quantization_cost`` does it in a process of its own, whose processor time
and peak of memory are therefore those of the work, and prints them.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np

from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.convolution import ConvAttributes
from fitzroy.compiler.ops.elementwise import ActivationAttributes
from fitzroy.compiler.ops.matmul import FullyConnectedAttributes
from fitzroy.compiler.ops.reduction import ReductionAttributes
from fitzroy.compiler.ops.windows import Activation, PaddingScheme
from fitzroy.compiler.quantization.options import QuantizeOptions
from fitzroy.compiler.quantization.pipeline import quantize_model

SAMPLES = 100
_SIDE = 224
_BLOCKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, channels, repetitions and first stride, of the published architecture."""


class _Builder:
    """The network with random weights.

    Attributes:
        multiplications: of one inference.
    """

    def __init__(self) -> None:
        self.graph = Graph("mobilenet_v2")
        self.rng = np.random.default_rng(0)
        self.multiplications = 0

    def weights(self, *shape: int) -> str:
        taps = int(np.prod(shape[1:]))
        data = self.rng.normal(size=shape) * np.sqrt(2 / taps)
        return self.graph.add_constant("w", data.astype(np.float32))

    def conv(self, x: str, width: int, kernel: int, stride: int, *, linear: bool = False) -> str:
        """A convolution; a width of 0 makes it a depthwise one."""
        _, height, _, depth = self.graph.type(x).shape
        size, out = height // stride, width or depth
        shape = (out, kernel, kernel, depth) if width else (1, kernel, kernel, out)
        self.multiplications += size * size * int(np.prod(shape))
        activation = Activation.NONE if linear else Activation.RELU6
        attributes = ConvAttributes((stride, stride), (1, 1), PaddingScheme.SAME, activation)
        bias = self.graph.add_constant("b", np.zeros(out, np.float32))
        operands = (x, self.weights(*shape), bias)
        op = "conv_2d" if width else "depthwise_conv_2d"
        return self.graph.emit(op, operands, _real(1, size, size, out), attributes)

    def block(self, x: str, expansion: int, width: int, stride: int) -> str:
        depth = self.graph.type(x).shape[3]
        y = self.conv(x, depth * expansion, 1, 1) if expansion > 1 else x
        y = self.conv(self.conv(y, 0, 3, stride), width, 1, 1, linear=True)
        if stride > 1 or depth != width:
            return y
        return self.graph.emit("add", (x, y), self.graph.type(x), ActivationAttributes())

    def build(self) -> Graph:
        x = self.conv(self.graph.add_input("image", _real(1, _SIDE, _SIDE, 3)), 32, 3, 2)
        for expansion, width, count, stride in _BLOCKS:
            for number in range(count):
                x = self.block(x, expansion, width, stride if number == 0 else 1)
        x = self.conv(x, 1280, 1, 1)
        x = self.graph.emit("mean", (x,), _real(1, 1280), ReductionAttributes((1, 2)))
        self.multiplications += 1280 * 1000
        operands = (x, self.weights(1000, 1280))
        attributes = FullyConnectedAttributes()
        self.graph.outputs = [
            self.graph.emit("fully_connected", operands, _real(1, 1000), attributes)
        ]
        return self.graph


def _real(*shape: int) -> TensorType:
    return TensorType(shape, DType.FLOAT32)


def _peak() -> int:
    """Most bytes resident; `getrusage` would count what the process that started this one had."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return 1024 * int(line.split()[1])


def main() -> int:
    """Quantize the network, and print what it cost as JSON."""
    builder = _Builder()
    graph = builder.build()
    rng = np.random.default_rng(1)
    samples: list[dict[str, Array]] = [
        {"image": rng.random((1, _SIDE, _SIDE, 3), np.float32)} for _ in range(SAMPLES)
    ]
    wall, cpu = time.perf_counter(), time.process_time()
    quantize_model(graph, samples, QuantizeOptions())
    print(
        json.dumps(
            {
                "samples": SAMPLES,
                "multiplications": builder.multiplications,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
                "peak_bytes": _peak(),
            }
        )
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

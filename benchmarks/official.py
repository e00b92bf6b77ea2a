"""ExecuTorch's own exporter on MobileNet v2, quantized to int8, for comparison.

``python -m benchmarks.official OUT.pte`` writes the program and prints the seconds of each step
as JSON. Weights are random: neither the steps nor their cost depend on them. Imports are not
counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import to_edge_transform_and_lower
from torch import nn

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and stride of the first block; table 2 of arXiv:1801.04381."""

CALIBRATION = 1
"""Samples that the quantizer sees."""


def _conv(before: int, after: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
    return [
        nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    ]


class Block(nn.Module):  # type: ignore[misc]
    """Expansion, depthwise convolution and projection, with a shortcut where shapes allow."""

    def __init__(self, before: int, after: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = before * expansion
        layers = [*_conv(before, inner, 1), nn.ReLU6()] if expansion > 1 else []
        layers += [*_conv(inner, inner, 3, stride, inner), nn.ReLU6(), *_conv(inner, after, 1)]
        self.layers = nn.Sequential(*layers)
        self.has_shortcut = stride == 1 and before == after

    def forward(self, x: Any) -> Any:
        """Apply the block to [N, C, H, W]."""
        y = self.layers(x)
        return x + y if self.has_shortcut else y


class MobileNetV2(nn.Module):  # type: ignore[misc]
    """MobileNet v2 of width 1.0 for pictures of 224 x 224."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[Any] = [*_conv(3, 32, 3, 2), nn.ReLU6()]
        channels = 32
        for expansion, after, blocks, stride in STAGES:
            for number in range(blocks):
                layers.append(Block(channels, after, stride if number == 0 else 1, expansion))
                channels = after
        self.features = nn.Sequential(*layers, *_conv(channels, 1280, 1), nn.ReLU6())
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: Any) -> Any:
        """Logits [N, classes] of pictures [N, 3, 224, 224]."""
        return self.classifier(self.features(x).mean((2, 3)))


def main() -> int:
    """Export, quantize, lower and serialize, each step timed."""
    seconds: dict[str, float] = {}

    @contextmanager
    def step(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - start

    # Untyped, and unknown to type checkers where it is not installed.
    pt2e = import_module("torchao.quantization.pt2e.quantize_pt2e")
    torch.manual_seed(0)
    model, example = MobileNetV2().eval(), (torch.rand(1, 3, 224, 224),)
    with torch.no_grad():
        with step("export for quantization"):
            graph = torch.export.export(model, example).module()
        with step("prepare"):
            quantizer = XNNPACKQuantizer()
            quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
            prepared = pt2e.prepare_pt2e(graph, quantizer)
        with step("calibrate"):
            for _ in range(CALIBRATION):
                prepared(*example)
        with step("convert"):
            quantized = pt2e.convert_pt2e(prepared)
        with step("export"):
            exported = torch.export.export(quantized, example)
        with step("lower"):
            lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        with step("serialize"):
            data = bytes(lowered.to_executorch().buffer)
    Path(sys.argv[1]).write_bytes(data)
    print(json.dumps({"seconds": seconds, "bytes": len(data)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Programs written by ExecuTorch's own exporter: ``python -m tests.official KIND PATH``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

KINDS = ("float", "int8", "norm")
SHAPE = (1, 2, 5, 6)
"""Shape of the one input."""


def export(kind: str, path: Path) -> None:
    """Write a small network with convolutions, a matrix product and kernels beside XNNPACK."""
    command = [sys.executable, "-m", "tests.official", kind, str(path)]
    root = Path(__file__).parent.parent
    subprocess.run(command, check=True, capture_output=True, timeout=300, cwd=root)


def _main(kind: str, path: str) -> None:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(2, 4, 3, padding=1)
            self.depthwise = torch.nn.Conv2d(4, 4, 3, groups=4)
            self.linear = torch.nn.Linear(4, 3)
            self.register_buffer("table", torch.arange(3.0))

        def forward(self, x: Any) -> Any:
            y = torch.nn.functional.relu6(self.depthwise(torch.relu(self.conv(x)))).mean((2, 3))
            return torch.cumsum(self.linear(y) * self.table, 1), torch.topk(y, 2)[1]

    class Normalized(torch.nn.Module):  # type: ignore[misc]
        """Layer normalization, which is a portable kernel, and a scalar that goes to XNNPACK."""

        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(6, 8), torch.nn.LayerNorm(8)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.linear(x))
            return torch.relu(y) * torch.topk(y.flatten(), 1)[0].squeeze(), y

    torch.manual_seed(0)
    net, example = (Normalized() if kind == "norm" else Net()).eval(), (torch.randn(SHAPE),)
    exported = torch.export.export(net, example, strict=True)
    if kind == "int8":
        config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
        quantizer = xnnpack_quantizer.XNNPACKQuantizer().set_global(config)
        prepared = prepare_pt2e(exported.module(), quantizer)
        prepared(*example)
        exported = torch.export.export(convert_pt2e(prepared), example, strict=True)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    with open(path, "wb") as file:
        lowered.to_executorch().write_to_file(file)


if __name__ == "__main__":
    _main(*sys.argv[1:])

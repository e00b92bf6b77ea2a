"""What an inference costs on the timing model: cycles of the chip alone, and times behind hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

from fitzroy.base.evidence import Evidence
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.partition.costs import macs
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.driver.runtime.stage import Stage
from fitzroy.execution.hosts import made, values
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import Host
from fitzroy.hw_models.edgetpu.timing import simulate
from fitzroy.hw_models.isa.tensor import TensorOp

HOSTS = {"USB 3": "jetson_nano_10w_usb3", "USB 2": "jetson_nano_10w_usb2"}
"""Hosts behind which inferences are timed, by their links."""

_INSTANT = "instant"
"""A host that takes no time: cycles are those of the chip alone."""

_INPUT_UNIT = "avdata_pop"
"""Stream unit that takes inputs from the host."""

_MACS = 4096
"""Products of a cycle: 16 tiles with 64 lanes of 4 products."""

_BYTES = 4
"""Bytes of a cycle that the ring brings from the host, or takes there."""


def instant() -> Host:
    """A host that takes no time."""
    usual = values(BEAGLE.hosts[HOSTS["USB 3"]])
    nothing = dict.fromkeys((name for name in usual if name not in ("bus", "read")), 0.0)
    rates = {"link": 1e12, "stream": 1e12, "doze": 1e12}
    return made({**usual, **nothing, **rates}, Evidence.ASSUMED, "a host that takes no time")


@dataclass
class Costs:
    """What one inference costs, all parts on the chip together.

    Attributes:
        operators: operators of the source model on the chip.
        cycles: of the timing model with a host that takes no time, from the start of the first
            program to the end of the last: infeed and outfeed count, links do not.
        computing: cycles after the last byte of the last input is on the chip.
        milliseconds: of an inference at the highest clock, by the links of `HOSTS`.
        steps: steps of the op engine on the tile with most of them.
        instructions: bytes of programs.
        parameters: bytes of parameters, cached and streamed.
        streamed: those of them that come with every inference.
    """

    operators: int = 0
    cycles: float = 0
    computing: float = 0
    milliseconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HOSTS, 0.0))
    steps: int = 0
    instructions: int = 0
    parameters: int = 0
    streamed: int = 0

    def add(self, package: PackageFile) -> None:
        """Count one more part."""
        stage = recorded(package)
        assert stage.recording is not None
        with patch.dict(BEAGLE.hosts, {_INSTANT: instant()}):
            chip = simulate(stage.recording, stage.chunk_sizes, host=_INSTANT)
        self.cycles += chip.cycles
        received = [span.end for span in chip.spans if span.unit == _INPUT_UNIT]
        self.computing += chip.cycles - max(received, default=0)
        for link, host in HOSTS.items():
            timeline = simulate(stage.recording, stage.chunk_sizes, host=host)
            self.milliseconds[link] += timeline.total / 1000
        steps = np.zeros(BEAGLE.tiles.count, np.int64)
        for issued in chip.issued:
            if isinstance(issued.instruction, TensorOp):
                tiles = [tile for tile in range(len(steps)) if issued.tiles >> tile & 1]
                steps[tiles] += issued.steps
        self.steps += int(steps.max())
        self.instructions += sum(stage.chunk_sizes)
        cached, streamed = parameters(package)
        self.parameters += cached + streamed
        self.streamed += streamed


def parameters(package: PackageFile) -> tuple[int, int]:
    """Bytes of parameters that stay on the chip, and of those that come with every inference."""
    sizes = [
        0 if executable is None or executable.parameters is None else len(executable.parameters)
        for executable in (package.caching, package.main)
    ]
    return sizes[0], sizes[1]


def recorded(package: PackageFile) -> Stage:
    """The main executable on inputs that are zero, with a recording."""
    inputs = {
        name: np.zeros(layer.packed_bytes * layer.execution_count_per_inference, np.uint8)
        for name, layer in package.main.inputs.items()
    }
    return SimulatedDevice().start(package, inputs, record=True).finish().stages[-1]


def bound(parts: Iterable[Graph]) -> float:
    """Cycles that no program takes less than: of products, of inputs, or of outputs.

    What depends on what is left out, so that a program that reaches it may not exist.

    Args:
        parts: what the chip computes, part by part.
    """
    return sum(
        max(
            sum(macs(graph, node) for node in graph.nodes()) / _MACS,
            sum(graph.type(name).nbytes for name in graph.inputs) / _BYTES,
            sum(graph.type(name).nbytes for name in graph.outputs) / _BYTES,
        )
        for graph in parts
    )


def least_milliseconds(parts: Iterable[Graph], link: str) -> float:
    """What the host and its link alone take of an inference, with programs that take no time.

    Args:
        parts: what the chip computes, part by part.
        link: a key of `HOSTS`.
    """
    host = BEAGLE.hosts[HOSTS[link]]
    return sum(
        host.fixed
        + sum(graph.type(name).nbytes for name in graph.inputs) / host.link / 1000
        + sum(graph.type(name).nbytes for name in graph.outputs) * host.output_byte / 1e6
        for graph in parts
    )

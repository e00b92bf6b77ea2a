"""Write a kernel that no operator stands for: a motion detector, which marks what has changed.

A pixel of the result is 255 where two images differ by a threshold or more, and 0 elsewhere. One
tensor operation on each tile subtracts and compares; the host sends both images and gets the mask.
Prints what the verifier and the simulated chip say of the program, and when its units work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fitzroy.base.errors import FitzroyError
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.instructions.builder import mask_of
from fitzroy.compiler.targets.edgetpu.kernels import (
    QUARTER,
    WHOLE,
    Axis,
    consume,
    moves,
    once,
    send,
    walk,
)
from fitzroy.compiler.targets.edgetpu.layers.layer import Context, Layer, Weights, filled
from fitzroy.compiler.targets.edgetpu.layers.matrices import diagonal
from fitzroy.compiler.targets.edgetpu.lowerings.normalization import table
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import TILES, WORD, Placed
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage
from fitzroy.compiler.targets.edgetpu.program.lower import lower_layers
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import estimate
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.edgetpu.timeline import Timeline
from fitzroy.hw_models.edgetpu.verifier import record, verify
from fitzroy.hw_models.isa.fields import TileFlag
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.html import page

Image = npt.NDArray[np.uint8]

SHAPE = (1, 48, 64, 1)
LANES = 16
"""Lanes of a row of parameters, the fewest that there are; a matrix takes the first four."""

ONE = 1
"""Stored value of a factor of zero, so that 0 is -1 and 2 is +1."""

FACTORS = (diagonal(ONE + 1, ONE), diagonal(ONE - 1, ONE))
"""Matrices that multiply the bytes of a word by 1 and by -1."""


def outside(threshold: int) -> NluTable:
    """A table that is 255 for numbers from a threshold on, of either sign, and 0 between."""
    no, yes = (0.0,) * 5, (255.0, *(0.0,) * 4)
    return table([yes, no, yes], [0.5 - threshold, threshold - 0.5])


@dataclass(frozen=True, eq=False, kw_only=True)
class Motion(Layer):
    """Marks where two images differ.

    Attributes:
        threshold: the smallest difference that is marked.
    """

    threshold: int

    def staging_rows(self, tensors: Mapping[str, Placed]) -> int:
        """Rows of wide memory for the matrices."""
        return len(FACTORS)

    def emit(self, context: Context) -> None:
        """The matrices come over the ring, and every tile computes as soon as it has them."""
        builder, (matrices,) = context.builder, self.weights
        result = context.image(self.writes)
        active = [tile for tile in range(TILES) if result.active(tile)]
        rows = walk(builder.staging - len(FACTORS), matrix=(len(FACTORS), 1))
        builder.emit(consume(1, rows, publish=WHOLE, tiles=mask_of(active)))
        builder.emit(outside(self.threshold))
        builder.on_tiles(lambda tile: self.operation(context, rows.base, tile), active)
        send(builder, matrices.name, context.pieces[matrices.name], mask_of(active))

    def operation(self, context: Context, row: int, tile: int) -> TensorOp:
        """What a tile computes with the matrices from a row of wide memory on."""
        before, after = (context.image(name) for name in self.reads)
        result = context.image(self.writes)
        height, width = result.area(tile)
        (top, _), (left, _) = result.owned(tile)
        one, other = (image.address(tile, top, left) for image in (before, after))
        return moves(
            one,
            result.address(tile, top, left),
            row,
            [Axis("image", 2, other - one, factor=QUARTER)],
            [
                Axis("word", result.depth // WORD, WORD, WORD),
                Axis("x", width, before.depth, result.depth),
                Axis("y", height, before.pitch, result.pitch),
            ],
            OutputStage(scale=1.0, c_zero_point=ONE, nlu=True),
            acquire=[once(TileFlag.RING_READ_B, "word", 1)],
        )


def compiled(threshold: int) -> PackageFile:
    """The motion detector as a package."""
    graph = Graph("motion")
    image = TensorType(SHAPE, DType.UINT8, Quantization.per_tensor(1.0, 0))
    names = graph.add_input("before", image), graph.add_input("after", image)
    moved = graph.emit("motion", names, image)
    graph.outputs.append(moved)
    data = np.zeros((len(FACTORS), LANES), np.uint32)
    data[:, :WORD] = FACTORS
    words = filled(data.view(np.uint8).reshape(-1))
    matrices = Weights("factors", OperandKind.CONVOLUTION, LANES, 0, words, len(FACTORS))
    layer = Motion(
        name="motion", reads=names, writes=moved, weights=(matrices,), threshold=threshold
    )
    (package,) = link([lower_layers(graph, [layer])])
    return package


def moving(threshold: int, before: Image, after: Image) -> Image:
    """What the chip should say."""
    distance = np.abs(before.astype(np.int16) - after)
    return np.where(distance >= threshold, 255, 0).astype(np.uint8)


def scene(x: int) -> Image:
    """Noise after a bright square at some column, [1, 48, 64, 1]."""
    image = np.random.default_rng(x).integers(40, 50, SHAPE, np.uint8)
    image[:, 16:32, x : x + 16] = 200
    return image


def findings(package: PackageFile) -> list[str]:
    """What the verifier finds: races, deadlocks, and what no published program does."""
    streams = package.main.instruction_bitstreams or ()
    chunks = [disassemble(bytes(stream.bitstream)) for stream in streams]  # type: ignore[arg-type]
    return [str(finding) for finding in verify(record(chunks), chunks)]


def bars(timeline: Timeline, width: int = 64) -> Iterator[tuple[str, str]]:
    """Units by name, and when any of each moves anything."""
    for unit in dict.fromkeys(span.unit for span in timeline.spans):
        bar = ["."] * width
        for span in timeline.spans:
            if span.unit == unit and span.busy:
                begin, end = (
                    int(width * cycle / timeline.cycles)
                    for cycle in (span.end - span.busy, span.end)
                )
                bar[begin : end + 1] = "#" * len(bar[begin : end + 1])
        yield unit, "".join(bar)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threshold", type=int, default=32, help="smallest difference, in grey")
    parser.add_argument("--output", type=Path, help="where to keep the package")
    parser.add_argument("--timeline", type=Path, help="where to write the timeline, as HTML")
    options = parser.parse_args(arguments)

    package = compiled(options.threshold)
    found = findings(package)
    print(f"verifier: {'; '.join(found) or 'nothing to object to'}")
    before, after = scene(8), scene(14)
    inputs = {"before": before.reshape(-1), "after": after.reshape(-1)}
    outputs = SimulatedDevice(seed=1).run(package, inputs)
    (answer,) = outputs.tensors.values()
    mask, wanted = answer.reshape(SHAPE), moving(options.threshold, before, after)
    wrong = int(np.count_nonzero(mask != wanted))
    print(f"simulator: {np.count_nonzero(mask)} pixels have changed, {wrong} are wrong")
    for row in mask[0, ::4, ::2, 0]:
        print("  " + "".join(".#"[bool(pixel)] for pixel in row))

    run = estimate(package, "motion detector")
    print(f"timeline: {run.timeline.cycles:.0f} cycles on the chip")
    for unit, bar in bars(run.timeline):
        print(f"  {unit:16} {bar}")
    if options.output:
        options.output.write_bytes(write_package(package))
    if options.timeline:
        options.timeline.write_text(page(run))
    return 1 if wrong or found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FitzroyError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)

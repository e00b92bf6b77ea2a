"""Compile the digits model for the Edge TPU, and run it on the simulated chip.

Prints where every operator runs, what the chip answers for each image, and how long a host with a
real one would wait for it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

import fitzroy
from fitzroy.base.errors import FitzroyError
from fitzroy.execution.programs import EdgeTpuProgram

HERE = Path(__file__).parent


def read_image(path: Path) -> npt.NDArray[np.int8]:
    """An 8x8 grey image as the model takes it: int8[1,8,8,1], the byte minus 128."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("L"))
    return (pixels.astype(np.int16) - 128).astype(np.int8)[None, :, :, None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, help="where to keep the model (_edgetpu.tflite)")
    parser.add_argument("--clock", default="max", help="max, high, medium or low")
    options = parser.parse_args(arguments)

    result = fitzroy.compile_edgetpu(HERE / "models" / "digits.tflite")
    print(f"{len(result.mapped)} of {len(result.graph.nodes())} operators on the Edge TPU")
    print(f"model of {len(result.data):,} bytes in {1000 * result.seconds:.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        path = options.output or Path(folder) / "digits_edgetpu.tflite"
        path.write_bytes(result.data)
        program = EdgeTpuProgram.load(path)

    labels = (HERE / "models" / "digits_labels.txt").read_text().split()
    images = sorted((HERE / "images").glob("digit_*.png"))
    wrong = 0
    print(f"\n{'image':18} {'label':>5} {'found':>5} {'time':>9}")
    for path in images:
        # Recording what the chip does is what its time is told from.
        device = program.start({"image": read_image(path)}, record=True).finish()
        timeline = program.timed(device, clock=options.clock).timeline
        scores = program.finished(device).outputs["probabilities"]
        found = labels[int(scores.argmax())]
        label = path.stem.split("_")[1]
        print(f"{path.name:18} {label:>5} {found:>5} {timeline.total:6.1f} µs")
        wrong += label != found
    print(f"{len(images) - wrong} of {len(images)} are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FitzroyError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)

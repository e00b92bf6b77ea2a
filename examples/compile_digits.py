"""Compile the digits model to an ExecuTorch program, run it on images, and print the answers.

The program runs on ExecuTorch's runtime if that is installed, else on its numpy model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

import fitzroy
from fitzroy.base.errors import FitzroyError
from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime, Runtime, available

HERE = Path(__file__).parent
RUNTIMES = ("executorch", "oracle")


def read_image(path: Path) -> npt.NDArray[np.int8]:
    """An 8x8 grey image as the model takes it: int8[1,8,8,1], the byte minus 128."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("L"))
    return (pixels.astype(np.int16) - 128).astype(np.int8)[None, :, :, None]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--runtime", choices=RUNTIMES, default="executorch" if available() else "oracle"
    )
    parser.add_argument("--output", type=Path, help="where to keep the program (.pte)")
    options = parser.parse_args(arguments)

    compilation = fitzroy.compile(HERE / "models" / "digits.tflite")
    if options.output is not None:
        options.output.write_bytes(compilation.data)
    print(f"program of {len(compilation.data):,} bytes")
    for placement in compilation.placements["forward"]:
        operators = ", ".join(node.op for node in placement.nodes)
        print(f"  on {placement.target}: {operators}")

    labels = (HERE / "models" / "digits_labels.txt").read_text().split()
    images = sorted((HERE / "images").glob("digit_*.png"))
    (_, type), *_ = compilation.outputs
    assert type.quantization is not None
    (scale,), (zero_point,) = type.quantization.scale, type.quantization.zero_point
    runtime: Runtime = ExecuTorchRuntime() if options.runtime == "executorch" else OracleRuntime()
    wrong = 0
    print(f"\n{'image':18} {'label':>5} {'found':>5} {'probability':>11}   ({options.runtime})")
    try:
        with runtime.load(compilation.data) as session:
            for path in images:
                (scores,) = session.run([read_image(path)])
                best = int(scores.argmax())
                label, found = path.stem.split("_")[1], labels[best]
                probability = scale * (int(scores[0, best]) - zero_point)
                print(f"{path.name:18} {label:>5} {found:>5} {probability:11.1%}")
                wrong += label != found
    finally:
        runtime.close()
    print(f"{len(images) - wrong} of {len(images)} are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FitzroyError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)

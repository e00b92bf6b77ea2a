"""Classify digits as a script for a Coral device does, on the simulated one.

Compiles the digits model for the Edge TPU, if no compiled model is given. Everything after that
is what such scripts contain; only the imports name FitzRoy. With an accelerator attached,
``--device usb`` runs the same on it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import fitzroy
from fitzroy.base.errors import FitzroyError
from fitzroy.pycoral.adapters import classify, common
from fitzroy.pycoral.utils.dataset import read_label_file
from fitzroy.pycoral.utils.edgetpu import make_interpreter

HERE = Path(__file__).parent


def compiled(folder: Path) -> Path:
    """The digits model, compiled for the Edge TPU."""
    path = folder / "digits_edgetpu.tflite"
    path.write_bytes(fitzroy.compile_edgetpu(HERE / "models" / "digits.tflite").data)
    return path


def classify_images(model: Path, images: Sequence[Path], device: str) -> int:
    """Print the best class of each image; returns how many are not that of the file's name."""
    labels = read_label_file(HERE / "models" / "digits_labels.txt")
    interpreter = make_interpreter(str(model), device=device)
    interpreter.allocate_tensors()
    size = common.input_size(interpreter)
    zero_point = common.input_details(interpreter, "quantization")[1]
    wrong = 0
    print(f"{'image':18} {'found':>5} {'score':>6} {'time':>8}")
    for path in images:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("L").resize(size))
        common.set_input(interpreter, pixels.astype(np.int16) + zero_point)
        start = time.perf_counter()
        interpreter.invoke()
        elapsed = time.perf_counter() - start
        (best,) = classify.get_classes(interpreter, top_k=1)
        print(f"{path.name:18} {labels[best.id]:>5} {best.score:6.3f} {1e3 * elapsed:5.0f} ms")
        wrong += labels[best.id] != path.stem.split("_")[1]
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", type=Path, help="a compiled model (_edgetpu.tflite)")
    parser.add_argument("--device", default="sim:direct", help="sim:direct, sim, usb, auto")
    options = parser.parse_args(arguments)
    images = sorted((HERE / "images").glob("digit_*.png"))
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or compiled(Path(folder))
        wrong = classify_images(model, images, options.device)
    print(f"{len(images) - wrong} of {len(images)} are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FitzroyError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)

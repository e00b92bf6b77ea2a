"""Time of the functional simulator, beside a fixed piece of numpy work.

Each time is that of one inference: a chip that holds the parameters of a package already runs its
main executable, from reading the program to the last byte of the outputs, in a warm process. The
piece of numpy work runs next to every inference; with the ratio of both, machines of different
speed and load can be compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.support import corpus_model, summary, write_results
from fitzroy.base.types import Array
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile

REPEATS = 7

BOUNDS: dict[str, float | None] = {
    "coral/mobilenet_v1_0.5_160_quant_edgetpu.tflite": 4.8 / 3,
    "coral/posenet_mobilenet_v1_075_353_481_16_quant_decoder_edgetpu.tflite": 6.6 / 3,
    "coral/posenet_mobilenet_v1_075_481_641_16_quant_decoder_edgetpu.tflite": 16.5 / 3,
    "conv3x3/conv2d_12x192x64_to_64_k3_s1_same_quant_edgetpu.tflite": 0.2 / 3,
    "coral/bodypix_mobilenet_v1_075_512_512_16_quant_decoder_edgetpu.tflite": None,
    "coral/deeplabv3_mnv2_dm05_pascal_quant_edgetpu.tflite": None,
    "coral/mobilenet_v1_1.0_224_quant_embedding_extractor_edgetpu.tflite": None,
    "coral/mobilenet_v1_0.25_128_quant_edgetpu.tflite": None,
    "coral/yamnet_spectra_in_edgetpu.tflite": None,
    "layers/model_padding_256x256x3_edgetpu.tflite": None,
    "templates/dense_1024_edgetpu.tflite": None,
    "templates/gabor_128x128_7k_4o_2s_edgetpu.tflite": None,
}
"""Models, and the most seconds that they should take on a machine like that of the results.

A third of what an implementation without any thought of speed takes.
"""


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/simulator.json``.

    Args:
        progress: called with the name of each model.
        repeats: how often everything is done, 0 for the usual number.

    Returns:
        bounds that were exceeded.

    Raises:
        UsageError: there is no corpus.
    """
    calibration = Calibration()
    entries, faults = [], []
    for name, bound in BOUNDS.items():
        progress(name)
        (package,) = packages(name)
        ours, theirs = _times(package, calibration, repeats or REPEATS)
        median = statistics.median(ours)
        entries.append(
            {
                "model": name,
                "ours": summary(ours),
                "calibration": summary(theirs),
                "ratio": min(ours) / min(theirs),
                "bound_seconds": bound,
            }
        )
        if bound is not None and median > bound:
            faults.append(f"simulator: {name} takes {median:.3f} s, more than {bound:.3f} s")
    write_results("simulator", {"cases": entries})
    return faults


def packages(name: str) -> list[PackageFile]:
    """Packages of a compiled model of the corpus.

    Raises:
        UsageError: it is absent.
    """
    path = corpus_model(name)
    model = tflite.read_model(path.read_bytes(), path.name)
    return [op.read() for op in custom_op.extract(model, path.name)]


def random_bytes(package: PackageFile, seed: int = 0) -> dict[str, Array]:
    """Random elements of every input of a package, as bytes."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(
            0, 256, layer.packed_bytes * layer.execution_count_per_inference, np.uint8
        )
        for name, layer in package.main.inputs.items()
    }


class Calibration:
    """A fixed piece of numpy work of the kind that the simulator does: products and gathers."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        # Small enough that OpenBLAS uses one thread.
        self._one, self._other = rng.standard_normal((2, 16, 64, 64)).astype(np.float32)
        self._memory = rng.integers(0, 1 << 32, (16, 1 << 16), np.uint32)
        self._places = rng.integers(0, 1 << 16, 4096)

    def run(self) -> None:
        """Do the work once."""
        for _ in range(100):
            np.matmul(self._one, self._other).astype(np.int32)
            self._memory.take(self._places, axis=1).view(np.uint8).astype(np.float32)


def _times(
    package: PackageFile, calibration: Calibration, repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds of both, which take turns."""
    device = SimulatedDevice()
    inputs: Mapping[str, Array] = random_bytes(package)
    ours: list[float] = []
    theirs: list[float] = []
    # Parameters are loaded by the first run.
    device.run(package, inputs)
    for _ in range(repeats):
        for work, seconds in (
            (lambda: device.run(package, inputs), ours),
            (calibration.run, theirs),
        ):
            start = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - start)
    return ours, theirs

"""Published programs beyond the corpus, on the simulator and against their source models.

The files lie beside the corpus, in `study`. Every value of an output must equal the source computed
as published programs compute it, with the table that the program has for LOGISTIC.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from benchmarks.simulator_conformance import requantized, source_part, source_path
from tests.support import corpus_path

from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.twin.published import (
    evaluate_as_published,
    published_logistic,
)
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.simulator import PackageOutputs, SimulatedDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu.resize import resize_plan
from fitzroy.hw_models.edgetpu.verifier.record import record
from fitzroy.hw_models.edgetpu.verifier.verify import verify
from fitzroy.hw_models.isa.program import assemble, disassemble
from fitzroy.hw_models.isa.tensor import Resize

STUDY = corpus_path().parent / "study"

QUICK = ("bright_64x64_edgetpu", "mobilenet_v1_0.25_128_quant_edgetpu")
"""Programs that run without --full."""

DOUBTFUL = "model_conv_128x128x3x32x7x25_edgetpu"
"""Its padding leaves tiles without contents, whose values a network of rectifiers hides."""

RESIZES = {
    "movenet_single_pose_lightning_ptq_edgetpu": 6,
    "yolov5nu_352_full_integer_quant_edgetpu": 20,
    "yolov8n_224_full_integer_quant_edgetpu": 20,
}


def published(*, sources: bool = False) -> list[object]:
    """Programs as pytest parameters; all but the quick ones are slow."""
    paths = sorted(STUDY.glob("*/*_edgetpu.tflite"))
    if sources:
        paths = [path for path in paths if source_path(path).is_file()]
    if not paths:
        reason = f"no programs at {STUDY}"
        return [pytest.param(Path(), id="none", marks=pytest.mark.skip(reason=reason))]
    return [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else [pytest.mark.slow])
        for path in paths
    ]


def package_of(path: Path) -> PackageFile:
    data = path.read_bytes()
    (operator,) = custom_op.extract(tflite.read_model(data, path.name), path.name, data)
    return operator.read()


def drawn(package: PackageFile, seed: int) -> dict[str, Array]:
    """Random bytes of every input."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(
            0, 256, layer.packed_bytes * layer.execution_count_per_inference, np.uint8
        )
        for name, layer in package.main.inputs.items()
    }


def chunks(package: PackageFile) -> Iterator[bytes]:
    for executable in package.executables:
        for stream in executable.instruction_bitstreams or ():
            yield np.asarray(stream.bitstream).tobytes()


def simulated(package: PackageFile, inputs: dict[str, Array], seed: int | None) -> PackageOutputs:
    return SimulatedDevice(seed=seed).run(package, inputs)


@pytest.mark.parametrize("path", published())
def test_program_runs_and_does_not_depend_on_initial_memories(path: Path) -> None:
    package = package_of(path)
    inputs = drawn(package, 1)
    outputs = simulated(package, inputs, None)
    assert bool(outputs.doubt) == (path.stem == DOUBTFUL)
    if not outputs.doubt:
        # Otherwise the device has tried others itself.
        assert simulated(package, inputs, 7).stream == outputs.stream
    for name, layer in package.main.outputs.items():
        size = layer.packed_bytes * layer.execution_count_per_inference
        assert outputs.tensors[name].size == size


@pytest.mark.parametrize("path", published(sources=True))
def test_outputs_equal_the_source(path: Path) -> None:
    package = package_of(path)
    names = list(package.main.outputs)
    graph = requantized(source_part(source_path(path), package), package, names)
    inputs = drawn(package, 2)
    outputs = simulated(package, inputs, None)
    arrays = {
        name: data.view(graph.type(name).dtype.numpy).reshape(graph.type(name).shape)
        for name, data in inputs.items()
    }
    logistic = published_logistic(package)
    wanted = evaluate_as_published(graph, arrays, logistic)
    exact = evaluate_on_device(graph, arrays)
    changed = 0
    for name in names:
        have = outputs.tensors[name].view(wanted[name].dtype).reshape(wanted[name].shape)
        assert np.count_nonzero(have != wanted[name]) == 0, name
        changed += int(np.count_nonzero(have != exact[name]))
    # Tables change values of the YOLOs, and constants of sums those of movenet.
    assert bool(changed) == (path.stem in RESIZES)
    assert (logistic is not None) == (path.stem in RESIZES)


@pytest.mark.parametrize("path", published())
def test_programs_come_back_and_are_in_order(path: Path) -> None:
    package = package_of(path)
    for content in chunks(package):
        assert assemble(disassemble(content)) == content
    main = [
        disassemble(np.asarray(stream.bitstream).tobytes())
        for stream in package.main.instruction_bitstreams or ()
    ]
    resizes = [item for chunk in main for item in chunk if isinstance(item, Resize)]
    assert len(resizes) == RESIZES.get(path.stem, 0)
    for item in resizes:
        assert resize_plan(item).weights.sum(axis=1).tolist() == [
            1 if item.nearest else 1 << 14
        ] * len(resize_plan(item).b)
    recording = record(main)
    assert [finding for finding in verify(recording, main) if finding.rule == "hazard"] == []

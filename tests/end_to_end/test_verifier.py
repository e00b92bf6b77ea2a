"""The verifier on compiled models: programs as published, and with seeded faults."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.hw_models.verifier_mutations import mutants
from tests.support import corpus, corpus_params

from fitzroy.base.diagnostics import Severity
from fitzroy.base.errors import FitzroyError
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import Executable, PackageFile
from fitzroy.hw_models.edgetpu.scalar import UnknownValueError
from fitzroy.hw_models.edgetpu.verifier import Finding, record, verify
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import disassemble

NOTES = {
    "bright_16x16_edgetpu": 11,
    "color_cyan_128x128_edgetpu": 28,
    "color_red_64x64_edgetpu": 57,
    "deeplabv3_mnv2_dm05_pascal_quant_edgetpu": 2,
    "dense_1024_edgetpu": 15,
    "dense_256_edgetpu": 3,
    "dense_512_edgetpu": 7,
    "keras_lstm_mnist_ptq_edgetpu": 11,
    "mobilenet_v1_0.25_128_quant_cocompiled_with_mobilenet_v1_0.5_160_quant_edgetpu": 507,
    "mobilenet_v1_0.25_128_quant_edgetpu": 507,
    "mobilenet_v1_0.5_160_quant_cocompiled_with_mobilenet_v1_0.25_128_quant_edgetpu": 511,
    "mobilenet_v1_0.5_160_quant_edgetpu": 511,
    "model_dense_2x2x3x100x100_edgetpu": 21,
    "yamnet_spectra_in_edgetpu": 15,
}
"""What only time guarantees, by model."""


def packages(path: Path) -> list[PackageFile]:
    model = tflite.read_model(path.read_bytes())
    return [op.read() for op in custom_op.extract(model, path.name)]


def chunks_of(executable: Executable) -> list[list[Instruction]]:
    return [
        disassemble(stream.bitstream.tobytes())
        for stream in executable.instruction_bitstreams or ()
        if stream.bitstream is not None
    ]


def simulated(package: PackageFile) -> list[Finding]:
    """Findings of a package whose course depends on data."""
    inputs = {
        name: np.zeros(layer.packed_bytes * layer.execution_count_per_inference, np.uint8)
        for name, layer in package.main.inputs.items()
    }
    run = SimulatedDevice().start(package, inputs, record=True)
    run.finish()
    return [
        finding
        for stage in run.stages
        if stage.recording is not None
        for finding in verify(stage.recording, stage.chunks)
        # The envelope counts offsets from the addresses of buffers, which a run has filled in.
        if finding.rule != "envelope"
    ]


def findings(package: PackageFile) -> list[Finding]:
    try:
        return [
            finding
            for executable in (package.caching, package.main)
            if executable is not None
            for finding in verify(record(chunks_of(executable)), chunks_of(executable))
        ]
    except UnknownValueError:
        return simulated(package)


@pytest.mark.parametrize("path", corpus_params("**/*edgetpu*.tflite", quick=6))
def test_compiled_models_keep_all_rules(path: Path) -> None:
    found = [finding for package in packages(path) for finding in findings(package)]
    assert [str(one) for one in found if one.severity is not Severity.NOTE] == []
    assert {one.rule for one in found} <= {"timing-guaranteed"}
    assert len(found) == NOTES.get(path.stem, 0)


@cache
def program(name: str) -> Sequence[Sequence[Instruction]]:
    (package,) = packages(corpus() / name)
    return chunks_of(package.main)


def broken(chunks: Sequence[Sequence[Instruction]]) -> bool:
    try:
        found = verify(record(chunks), chunks)
    except FitzroyError:
        return True
    return any(one.severity is not Severity.NOTE for one in found if one.rule != "envelope")


CONVOLUTION = "conv3x3/conv2d_12x128x32_to_32_k3_s1_same_quant_edgetpu.tflite"
LEAST = {
    "drop-count": 0.6,
    "drop-fence": 0.7,
    "drop-signal": 1.0,
    "drop-tile-wait": 1.0,
    "drop-watcher": 0.9,
    "exceed-credits": 0.8,
    "move-buffer": 0.7,
    "weaken-by-one": 0.9,
}
"""Share of the faults of each class that is found in a convolution; the rest is redundant."""


@pytest.mark.corpus
@pytest.mark.slow
def test_seeded_faults_are_found() -> None:
    chunks = program(CONVOLUTION)
    found = {
        kind: [broken(one.apply(chunks)) for one in some]
        for kind, some in mutants(chunks).items()
        if kind in LEAST
    }
    shares = {kind: sum(some) / len(some) for kind, some in found.items()}
    assert {kind for kind in LEAST if shares[kind] < LEAST[kind]} == set(), shares

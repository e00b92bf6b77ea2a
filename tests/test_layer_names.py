"""Names of the source's layers in estimates, reports, traces and the debugger."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.edgetpu_models import random_model
from tests.support import corpus

from fitzroy.base.errors import LinkError, UsageError
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.records import steps_of
from fitzroy.compilation.source import Source
from fitzroy.execution.estimate import estimate
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats import tflite
from fitzroy.formats.compilation_record import attached, read_record
from fitzroy.formats.darwinn import write_package
from fitzroy.linker.packages.container import read_container, wrapped
from fitzroy.report import perfetto
from fitzroy.report.html import page
from fitzroy.report.phases import owners, phases, short_name
from fitzroy.report.summary import document, lines


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m_edgetpu.tflite"
    path.write_bytes(compile_edgetpu(Source.of(random_model(4))).data)
    return path


def test_short_names() -> None:
    assert short_name("a/Relu6;a/add;b/bias") == "a/Relu6"
    assert short_name("x" * 100) == "…" + "x" * 55
    name = "MobileNetV2/expanded_conv_17/project/batch_norm/FusedBatchNormV3"
    assert short_name(name) == "…/expanded_conv_17/project/batch_norm/FusedBatchNormV3"
    # What a step does stays in front; a name with few folders is cut where it is too long.
    assert short_name(f"max pool {name};a") == f"max pool {short_name(name)}"
    assert short_name(f"{'y' * 70}/z") == "…" + "y" * 53 + "/z"
    assert short_name(f"Two words {'y' * 60}") == "…" + f"Two words {'y' * 60}"[-55:]
    assert short_name(";") == ";"


@pytest.mark.long
def test_every_phase_has_the_layer_that_it_was_made_for(model: Path) -> None:
    source = Source.of(random_model(4))
    (part,) = compile_edgetpu(source).segments
    program = EdgeTpuProgram.load(model)
    assert program.steps == steps_of(part.segment, part.forms)
    run = estimate(program.package, "m", steps=program.steps)
    places = [(step.chunk, step.bundle) for step in program.steps]
    wanted = [program.steps[number].origin for number in owners(places, run.timeline)]
    assert [item.layer for item in phases(run)] == wanted
    known = {node.name for node in source.graph.nodes()} | {*source.graph.inputs, ""}
    assert set(wanted) <= known
    assert len(set(wanted)) > 2


@pytest.mark.long
def test_reports_name_layers(model: Path) -> None:
    program = EdgeTpuProgram.load(model)
    run = estimate(program.package, "m", steps=program.steps)
    layer = max(phases(run), key=lambda item: item.cycles).layer
    assert layer
    name = short_name(layer)
    assert any(f"{name}: " in line for line in lines(run))
    assert layer in {item["layer"] for item in document(run)["phases"]}
    events = perfetto.trace(run)["traceEvents"]
    assert any(str(event.get("name", "")).startswith(f"{name}: ") for event in events)
    assert f"{name}: " in page(run)


def test_without_a_record_there_are_no_names(model: Path) -> None:
    container = read_container(model.read_bytes(), str(model))
    assert container.steps(0)
    assert container.steps(1) == ()
    (package,) = container.packages
    assert read_container(write_package(package)).steps(0) == ()
    run = estimate(package, "m")
    assert {item.layer for item in phases(run)} == {""}
    assert all(item.title == item.name for item in phases(run))


def test_a_record_of_another_program_names_nothing(model: Path) -> None:
    container = read_container(model.read_bytes(), str(model))
    assert container.model is not None
    other = compile_edgetpu(Source.of(random_model(1)))
    package = other.segments[0].package
    assert package.main.instruction_bitstreams
    record = read_record(container.model)
    assert record is not None
    wrong = tflite.write_model(attached(wrapped(package), record))
    assert read_container(wrong).steps(0) == ()


# --- programs of other compilers -----------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "found", "operators"),
    [("mobilenet_v1_0.25_128_quant", 29, 31), ("yamnet_spectra_in", 30, 34)],
)
def test_a_source_names_the_layers_of_a_published_program(
    name: str, found: int, operators: int
) -> None:
    folder = corpus() / "coral"
    program = EdgeTpuProgram.load(folder / f"{name}_edgetpu.tflite")
    assert program.steps == ()
    named = program.named_by(folder / f"{name}.tflite")
    numbers = [step.operator for step in named.steps]
    # In the order of the source, each once.
    assert numbers == sorted(set(numbers))
    assert len(numbers) == found
    assert max(numbers) < operators


@pytest.mark.corpus
def test_another_source_is_refused() -> None:
    folder = corpus() / "coral"
    program = EdgeTpuProgram.load(folder / "mobilenet_v1_0.25_128_quant_edgetpu.tflite")
    with pytest.raises((LinkError, UsageError)):
        program.named_by(folder / "yamnet_spectra_in.tflite")

"""Models for the Edge TPU as a whole: together on one chip, one after the other on several."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import random_inputs, random_model
from tests.support import corpus

from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.types import Array, DType
from fitzroy.compilation.documents import document
from fitzroy.compilation.edgetpu import (
    EdgeTpuCompilation,
    compile_edgetpu,
    compile_together,
)
from fitzroy.compilation.segments import compile_segments
from fitzroy.compilation.source import Source
from fitzroy.compilation.texts import forms
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.partition.cuts import Cut
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import parameter_rows
from fitzroy.compiler.targets.edgetpu.twin.semantics import evaluate_on_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.execution.estimate import Conditions, estimate
from fitzroy.execution.interpreter import Interpreter
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.execution.whole import predict
from fitzroy.formats import flat, tflite
from fitzroy.formats.darwinn import write_package
from fitzroy.linker.objects.assembly import executable_chunks, parse_packages

TILES = 16


def model(layers: int, channels: int = 32, *, size: int = 12, seed: int = 0) -> Graph:
    """Some convolutions."""
    graph = chain(DType.INT8, (size, size, 8))
    for number in range(layers):
        grow(graph, "conv_2d", channels, (3, 3), seed=seed + number)
    return graph


def written(graph: Graph, path: Path) -> Path:
    path.write_bytes(tflite.write_model(export_model(graph)))
    return path


def answers(
    device: SimulatedDevice, result: EdgeTpuCompilation, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], int]:
    """Outputs of a model that is one part, and how many executables ran."""
    (part,) = result.segments
    raw = {name: x.reshape(-1).view(np.uint8) for name, x in inputs.items()}
    found = device.run(part.package, raw)
    return dict(found.tensors), len(found.stages)


def streamed(result: EdgeTpuCompilation) -> int:
    parts = [part.package.main.parameters for part in result.segments]
    return sum(0 if held is None else len(held) for held in parts)


def rows(results: Sequence[EdgeTpuCompilation]) -> list[set[tuple[int, int]]]:
    """Tiles and rows that the parameters of each model have."""
    return [
        {
            (run.tile, row)
            for part in result.segments
            for operand in part.object.operands or ()
            for run in operand.runs or ()
            for row in range(run.row, run.row + run.words)
        }
        for result in results
    ]


# --- together ------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1750, 1790])
def test_models_share_a_chip(tmp_path: Path, taken: int) -> None:
    graphs = [model(3), model(2, 48, seed=7), model(2, 24, size=7, seed=9)]
    paths = [written(graph, tmp_path / f"m{n}.tflite") for n, graph in enumerate(graphs)]
    results = compile_together(paths, generator=Options(taken=(taken,) * TILES))
    tokens = {part.package.main.parameter_caching_token for r in results for part in r.segments}
    assert len(tokens) == 1
    held = rows(results)
    assert sum(map(len, held)) == len(set.union(*held))
    device = SimulatedDevice(seed=1)
    loads = []
    for turn in range(2):
        for graph, result in zip(graphs, results, strict=True):
            inputs = random_inputs(graph, turn)
            found, stages = answers(device, result, inputs)
            wanted = evaluate_on_device(graph, inputs)[graph.outputs[0]]
            ((have),) = found.values()
            assert np.array_equal(have.view(wanted.dtype).reshape(wanted.shape), wanted)
            loads.append(stages > 1)
    # Once loaded, parameters stay while the models take turns.
    assert not any(loads[len(graphs) :])
    if not taken:
        assert [streamed(result) for result in results] == [0, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 6])
@pytest.mark.parametrize("taken", [0, 1070])
def test_random_models_share_a_chip(tmp_path: Path, seed: int, taken: int) -> None:
    graphs, paths = [], []
    for number in itertools.count(10 * seed):
        for part in divide(random_model(number))[0][:1]:
            with suppress(UnsupportedError):  # What TFLite cannot express.
                paths.append(written(part.graph, tmp_path / f"m{number}.tflite"))
                graphs.append(part.graph)
        if len(graphs) == 3:
            break
    results = compile_together(paths, generator=Options(taken=(taken,) * TILES))
    device = SimulatedDevice(seed=2)
    for graph, result in zip(graphs, results, strict=True):
        assert len(result.mapped) == len(graph.nodes())
        inputs = random_inputs(graph, seed)
        found, _ = answers(device, result, inputs)
        for name, wanted in evaluate_on_device(graph, inputs).items():
            if name in graph.outputs:
                assert np.array_equal(found[name].view(wanted.dtype).reshape(wanted.shape), wanted)


def test_the_first_models_get_memory_first(tmp_path: Path) -> None:
    paths = [written(model(3, 64, seed=n), tmp_path / f"m{n}.tflite") for n in range(3)]
    results = compile_together(paths, generator=Options(taken=(1990,) * TILES))
    sizes = [streamed(result) for result in results]
    assert sizes[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[-1] > 0


def test_order_is_priority(tmp_path: Path) -> None:
    paths = [written(model(3, 64, seed=n), tmp_path / f"m{n}.tflite") for n in range(3)]
    results = compile_together(paths[::-1], generator=Options(taken=(1990,) * TILES))
    assert [Path(result.source.path).name for result in results] == [
        "m2.tflite",
        "m1.tflite",
        "m0.tflite",
    ]
    assert streamed(results[0]) == 0


def test_what_is_left_is_divided(tmp_path: Path) -> None:
    """Depthwise convolutions, which could take all, get more than the fewest rows in each model."""
    graphs = []
    for number in range(2):
        graph = chain(DType.INT8, (14, 14, 192))
        for seed in range(3):
            grow(graph, "depthwise_conv_2d", 192, (3, 3), seed=number + seed)
        graphs.append(graph)
    paths = [written(graph, tmp_path / f"m{n}.tflite") for n, graph in enumerate(graphs)]
    least = min(parameter_rows(graph) for graph in graphs)
    for order in (paths, paths[::-1]):
        results = compile_together(order, generator=Options(taken=(1850,) * TILES))
        assert [streamed(result) for result in results] == [0, 0]
        assert min(len(held) for held in rows(results)) > 5 * least


def test_a_model_together_with_none_is_a_model_alone(tmp_path: Path) -> None:
    path = written(model(3), tmp_path / "m.tflite")
    assert compile_together([path])[0].data == compile_edgetpu(path).data
    assert compile_edgetpu(Source.read(path)).data == compile_edgetpu(path).data


def test_models_as_text(tmp_path: Path) -> None:
    graph = model(2)
    path = tmp_path / "m.ir"
    path.write_text(print_graph(graph))
    result = compile_edgetpu(path)
    assert len(result.mapped) == 2


def test_a_model_that_nothing_can_be_mapped_of(tmp_path: Path) -> None:
    graph = Graph("none")
    x = graph.add_input("x", model(1).type("x").with_shape((1, 4)))
    graph.outputs = [x]
    path = written(graph, tmp_path / "none.tflite")
    with pytest.raises(UnsupportedError, match="no operator can be mapped"):
        compile_together([written(model(1), tmp_path / "m.tflite"), path])


def test_no_part_fits(tmp_path: Path) -> None:
    path = written(model(1), tmp_path / "m.tflite")
    with pytest.raises(UnsupportedError, match="of 64 bytes of narrow memory"):
        compile_edgetpu(path, generator=Options(narrow_bytes=64))


# --- one after the other -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
def test_segments_in_sequence_are_the_whole(tmp_path: Path, count: int) -> None:
    graph = model(5, 16)
    results = compile_segments(written(graph, tmp_path / "m.tflite"), count)
    assert len(results) == count
    values = random_inputs(graph, 3)
    wanted = evaluate_on_device(graph, values)[graph.outputs[0]]
    for number, result in enumerate(results):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(result.data)
        program = EdgeTpuProgram.load(path)
        assert program.others == 0
        values |= program.simulate({name: values[name] for name in program.inputs}).outputs
    assert np.array_equal(values[graph.outputs[0]], wanted)


@pytest.mark.long
@pytest.mark.corpus
def test_segments_of_a_network() -> None:
    path = corpus() / "coral" / "mobilenet_v1_0.25_128_quant.tflite"
    results = compile_segments(path, 3)
    for before, after in pairwise(results):
        assert before.graph.outputs == after.graph.inputs
    times = [estimate(r.segments[0].package, "").timeline.total for r in results]
    whole = estimate(compile_edgetpu(path).segments[0].package, "").timeline.total
    assert max(times) < whole


@pytest.mark.parametrize("count", [None, 3])
def test_reported_times_are_those_of_the_segments(tmp_path: Path, count: int | None) -> None:
    found: list[Cut] = []
    path = written(model(5, 16), tmp_path / "m.tflite")
    results = compile_segments(path, count, report=found.extend)
    (cut,) = (cut for cut in found if len(cut.times) == len(results))
    taken = [predict(result.data, "").total for result in results]
    assert list(cut.times) == pytest.approx(taken)


def test_too_many_segments(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="6 segments"):
        compile_segments(written(model(5), tmp_path / "m.tflite"), 6)


# --- time, documents, text -----------------------------------------------------------------------


def test_estimates_need_no_data(tmp_path: Path) -> None:
    graph = model(3)
    result = compile_edgetpu(written(graph, tmp_path / "m.tflite"))
    path = tmp_path / "m_edgetpu.tflite"
    path.write_bytes(result.data)
    program = EdgeTpuProgram.load(path)
    inputs = random_inputs(graph, 0)
    run = program.timed(program.start(inputs, record=True).finish())
    found = estimate(result.segments[0].package, "m")
    assert found.timeline.cycles == run.timeline.cycles
    assert found.timeline.total == run.timeline.total
    assert (found.cached, found.streamed, found.instructions) == (
        run.cached,
        run.streamed,
        run.instructions,
    )
    assert (found.inputs, found.outputs) == (run.inputs, run.outputs)
    assert np.array_equal(found.occupancy.narrow.peak, run.occupancy.narrow.peak)
    assert np.array_equal(found.occupancy.wide.live, run.occupancy.wide.live)
    slow = estimate(result.segments[0].package, "m", Conditions(clock="low"))
    assert slow.timeline.total > found.timeline.total
    with pytest.raises(UsageError, match="no clock 'fast'"):
        estimate(result.segments[0].package, "m", Conditions(clock="fast"))


@pytest.mark.long
def test_documents(tmp_path: Path) -> None:
    result = compile_edgetpu(written(model(3), tmp_path / "m.tflite"))
    run = estimate(result.segments[0].package, "m")
    found = document(result, [run], full=True)
    (part,) = found["subgraphs"]
    assert all("convolution" in item["layers"] for item in found["explanation"])
    cycles = [layer["cycles"] for layer in part["layers"]]
    assert sum(cycles) == pytest.approx(run.timeline.cycles)
    named = [layer for layer in part["layers"] if layer["name"].startswith("convolution")]
    assert all(layer["macs"] > 0 for layer in named)
    assert len(named) == 3
    assert {item["name"] for item in part["wide"]["operands"]} == {
        operand.name for operand in result.segments[0].object.operands or ()
    }
    assert part["estimate"]["cycles"] == run.timeline.cycles
    assert "layers" not in document(result)["subgraphs"][0]


def test_forms_as_text(tmp_path: Path) -> None:
    result = compile_edgetpu(written(model(2), tmp_path / "m.tflite"))
    files = forms(result)
    assert list(files) == [
        "0-graph.ir",
        "1-parts.txt",
        "part-0-2-legalized.txt",
        "part-0-3-allocated.txt",
        "part-0-4-parameters.txt",
        "part-0-5-emitted.txt",
        "part-0-6-program.s",
        "part-0-7-script.txt",
    ]
    assert files == forms(compile_edgetpu(tmp_path / "m.tflite"))
    listing = files["part-0-6-program.s"]
    # The text is the program: steps are comments in it.
    programs = parse_packages(listing)
    package = result.segments[0].package
    for program, executable in zip(programs, package.executables, strict=True):
        wanted = [chunk.instructions for chunk in executable_chunks(executable)]
        assert [chunk.instructions for chunk in program.chunks] == wanted
    lines = listing.splitlines()
    marks = [line for line in lines if line.startswith("; convolution")]
    assert len(marks) == 2


def test_files_that_are_no_models(tmp_path: Path) -> None:
    compiled = tmp_path / "m.dwn"
    result = compile_edgetpu(written(model(1), tmp_path / "m.tflite"))
    compiled.write_bytes(write_package(result.segments[0].package))
    with pytest.raises(UsageError, match="is no model"):
        Source.read(compiled)
    text = print_graph(model(1)).replace("output %conv", "output %other")
    (tmp_path / "m.ir").write_text(text)
    with pytest.raises(FormatError):
        Source.read(tmp_path / "m.ir")


@pytest.mark.parametrize("name", [None, "", "same"])
def test_tensors_may_share_a_name_or_have_none(name: str | None, tmp_path: Path) -> None:
    usual = export_model(model(2))
    (subgraph,) = usual.subgraphs or []
    tensors = [replace(tensor, name=name) for tensor in subgraph.tensors or ()]
    unusual = replace(usual, subgraphs=[replace(subgraph, tensors=tensors)])
    image, found = random_inputs(model(2), 0), list[Array]()
    for number, item in enumerate((usual, unusual)):
        path = tmp_path / f"{number}.tflite"
        path.write_bytes(tflite.write_model(item))
        with Interpreter(compile_edgetpu(path).data, device="sim:direct") as interpreter:
            for tensor, array in zip(interpreter.get_input_details(), image.values(), strict=True):
                interpreter.set_tensor(tensor["index"], array)
            interpreter.invoke()
            (output,) = interpreter.get_output_details()
            found.append(interpreter.get_tensor(output["index"]))
    np.testing.assert_array_equal(found[0], found[1])


def test_open_extents_are_compiled_as_they_are_given(tmp_path: Path) -> None:
    usual = export_model(model(2))
    (subgraph,) = usual.subgraphs or []
    (given,), (made,) = (flat.ints(side) for side in (subgraph.inputs, subgraph.outputs))
    tensors = list(subgraph.tensors or ())
    for index in {
        given,
        made,
        *(i for op in subgraph.operators or () for i in flat.ints(op.outputs)),
    }:
        extents = flat.ints(tensors[index].shape)
        tensors[index] = replace(
            tensors[index],
            shape=np.array([1, 1, 1, extents[3]], np.int32),
            shape_signature=np.array([1, -1, -1, extents[3]], np.int32),
        )
    border = tflite.TensorMap(name="picture", tensor_index=given)
    signature = tflite.SignatureDef(inputs=[border], outputs=[], signature_key="main")
    path = tmp_path / "m.tflite"
    opened = replace(
        usual, subgraphs=[replace(subgraph, tensors=tensors)], signature_defs=[signature]
    )
    path.write_bytes(tflite.write_model(opened))
    with pytest.raises(UnsupportedError, match=r"has shape 1x\?x\?x8"):
        Source.read(path)
    source = Source.read(path, Reading(shapes={"0": (1, 12, 12, 8)}))
    (found,), (wanted,) = (compile_edgetpu(each).segments for each in (source, Source.of(model(2))))
    assert write_package(found.package) == write_package(wanted.package)
    (kept,) = source.model.signature_defs or []
    assert kept.signature_key == "main"

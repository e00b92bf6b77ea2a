"""``fitzroy run``: a program or a model on inputs, and bundled programs on their test cases."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import typer

from fitzroy.base.errors import DeviceError, FitzroyError, SimulationError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.base.progress import counted
from fitzroy.base.types import Array
from fitzroy.cli.batches import check_folder, folder_files, refuse_for_many, write_folder
from fitzroy.cli.compiled import DeviceChoice, is_compiled
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import Given, Verb, Written
from fitzroy.cli.judged import Judged, Judgement
from fitzroy.cli.models import given_value
from fitzroy.cli.terminal import Column, Terminal, count, error_document, seconds
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port, Sample, samples
from fitzroy.formats.detect import FileKind, detect
from fitzroy.formats.npy import read_npy

if TYPE_CHECKING:
    from fitzroy.compiler.frontends.frontend import Given as GivenValue
    from fitzroy.compiler.ir import Graph
    from fitzroy.driver.runtime import Runtime, Session
    from fitzroy.formats.bundled import Case

_BUNDLES = (FileKind.BUNDLED_PROGRAM, FileKind.BUNDLED_PROGRAM_BP04)
_EXECUTORCH = "ExecuTorch's runtime"
_ORACLE = "the numpy oracle"
_LITERT = "LiteRT"
_MISSING = "ExecuTorch's runtime is not installed"
# Outputs of at most as many elements are shown in full.
_FEW = 8
_RTOL, _ATOL = 1e-5, 1e-8


class RuntimeChoice(StrEnum):
    """What runs a program, or the operators of a model that are not on the Edge TPU."""

    AUTO = "auto"
    EXECUTORCH = "executorch"
    ORACLE = "oracle"
    LITERT = "litert"


class ArithmeticChoice(StrEnum):
    """Whose rounding a model is computed with."""

    XNNPACK = "xnnpack"
    TFLITE = "tflite"


@dataclass(frozen=True, slots=True)
class Runner:
    """Something that computes outputs from inputs.

    Attributes:
        how: what computes, for people.
        inputs: what to give.
        outputs: what comes back.
        run: one array per input to one array per output.
        parts: after a run, what computed what and for how many seconds; empty if it is one part.
        graph: the model, None for programs.
        simulated: whether a simulated device takes part, whose time is not that of a device.
        many: the same as `run` for one after the other, if several are computed at a time.
        seconds: what the last inference took, if results come at other times than they are done.
    """

    how: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    run: Callable[[Sequence[Array]], Sequence[Array]]
    parts: Callable[[], list[dict[str, Any]]] = list
    graph: Graph | None = None
    simulated: bool = False
    many: Callable[[Iterable[Sequence[Array]]], Iterator[Sequence[Array]]] | None = None
    seconds: Callable[[], float] | None = None


@dataclass(frozen=True)
class Execution:
    """What runs, and how; what does not fit the file is refused.

    Attributes:
        runtime: what runs programs, or operators that are not on the Edge TPU.
        arithmetic: whose rounding.
        threads: threads of the runtime.
        method: method of a program, or function of a module.
        real: whether quantized inputs and outputs are given and written as real numbers.
    """

    panel: ClassVar[str] = "Runtime"

    runtime: Annotated[
        RuntimeChoice,
        typer.Option(
            "--runtime",
            help="For programs: ExecuTorch's runtime, or numpy. For models: LiteRT in place of the "
            "reference semantics.",
        ),
    ] = RuntimeChoice.AUTO
    arithmetic: Annotated[
        ArithmeticChoice | None,
        typer.Option(
            "--arithmetic",
            help="For models: whose rounding. [dim]default: xnnpack[/dim]",
            show_default=False,
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, help="Threads of the runtime.", show_default=False
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Method of a program, or function of a module. [dim]default: forward or main, or"
            " the first[/dim]",
            show_default=False,
        ),
    ] = None
    real: Annotated[
        bool,
        typer.Option(
            "--float",
            help="Take and write float32 numbers, in the units of the model before quantization, "
            "where inputs and outputs are quantized. Images become pixel / 255, or as --mean and "
            "--std say.",
        ),
    ] = False


@dataclass(frozen=True)
class RunOutputs(Written):
    """Where outputs of any program go.

    Attributes:
        raw_output: whether to write bare bytes.
        draw: file for the picture with what a detector found.
    """

    panel: ClassVar[str] = "Outputs"

    raw_output: Annotated[
        bool, typer.Option("--raw-output", help="Write bare bytes instead of .npy.")
    ] = False
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw",
            metavar="FILE",
            help="For detectors: write the input picture with boxes, masks and keypoints in it.",
            show_default=False,
        ),
    ] = None

    def write(self, pairs: Sequence[tuple[Port, Array]], name: str | None = None) -> list[str]:
        """Write outputs, if that is wanted; the names of the files.

        Args:
            pairs: the outputs.
            name: which of several inferences they are of; None for the only one.
        """
        if self.output is None:
            return []
        named = [(port.name, result) for port, result in pairs]
        if name is not None:
            files = folder_files(self.output, name, named, raw=self.raw_output)
            return write_folder(self.output, files)
        files = arrays.output_files(self.output, named, raw=self.raw_output)
        write_files(files)
        return [os.fspath(path) for path, _ in files]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run; what does not fit the file is refused.

    Attributes:
        runtime: what runs a program.
        arithmetic: whose rounding.
        threads: threads of the runtime.
        method: method of a program, or function of a module.
        device: what the user said of devices.
        shapes: shapes of inputs that an ONNX model leaves open.
        heads: what a detector is to give.
        values: values that inputs of an ONNX model are fixed to.
    """

    runtime: RuntimeChoice
    arithmetic: ArithmeticChoice | None
    threads: int | None
    method: str | None
    device: DeviceChoice
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    heads: HeadOptions = PLAIN_OUTPUTS
    values: Mapping[str, GivenValue] = field(default_factory=dict)


def run(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A .pte or .bpte program, a .tflite model, compiled for the Edge TPU or not, an "
            ".onnx model, a bytecode module, or a graph in text form.",
        ),
    ],
    given: Given,
    written: RunOutputs,
    how: Execution,
    heads: HeadOptions,
    device: DeviceChoice,
    judged: Judged,
) -> None:
    """Run a program or a model, or check the test cases of a bundled program.

    A program (.pte) runs on ExecuTorch's runtime when that is installed, else on its model in
    numpy; a model (.tflite or .onnx) by its reference semantics. Of a model that is compiled for
    the Edge TPU (*_edgetpu.tflite), the device runs what was compiled, and the host the other
    operators; fitzroy sim looks inside the simulated chip. A bytecode module says itself what runs
    where.

    Images are resized to the input, grey or RGB. 8-bit inputs get the pixel plus the smallest
    value of the type (uint8: 0, int8: -128), float inputs get pixel / 255, unless --mean and --std
    say otherwise. Arrays for ONNX models have the model's own order of dimensions, and may give
    extents that the model leaves open.

    Several files for an input, or a folder, are several inferences, each with states of zero;
    --max-us is for the median of their times.
    """
    terminal = written.terminal
    data = read_file(file)
    kind = detect(data, file)
    heads.check()
    options = Options(how.runtime, how.arithmetic, how.threads, how.method, device, heads=heads)
    if kind in _BUNDLES and not given.inputs:
        others: dict[str, object] = {"--output": written.output, "--labels": written.labels}
        others |= {"--mean": given.mean, "--std": given.std, "--float": how.real or None}
        others |= judged.given
        others |= {"--draw": written.draw, "--detections": heads.detections or None}
        _refuse("checking a bundled program", others, file)
        device.refuse(file)
        _verify(terminal, data, file, options)
        return
    if written.output is None and written.raw_output:
        raise UsageError("--raw-output needs --output")
    judged.check()
    names = written.names
    specs: Sequence[str] = given.inputs or []
    with ExitStack() as stack:
        if kind is FileKind.ONNX:
            fixed, specs = _fixed(specs)
            options = replace(options, shapes=_shapes(specs), values=fixed)
        runner = _runner(data, file, kind, options, stack)
        job = _Job(runner, given.rule, how.real, file)
        chosen = samples(job.ports, specs, file)
        _check_targets(job, chosen, written, judged)
        document: dict[str, Any] = {"file": file, "kind": kind.value, "ran_on": runner.how}
        inferences, deviations = [], []
        for sample, pairs, entry in job.run(terminal, chosen, written):
            outputs = [(port.name, array) for port, array in pairs]
            # Expectations that cannot be read leave nothing behind.
            deviations += judged.deviations(sample.name, outputs)
            entry["written"] += written.write(pairs, sample.name if len(chosen) > 1 else None)
            inferences.append({"name": sample.name, **entry})
            if not written.json:
                if len(chosen) > 1:
                    terminal.heading(sample.name)
                show_outputs(terminal, document | entry)
    us = 1e6 * median(item["seconds"] for item in inferences)
    judgement = Judgement(judged, len(chosen), deviations, us)
    if written.json and len(chosen) > 1:
        document |= {"inferences": inferences}
        terminal.document("run-batch", document | judgement.document)
    elif written.json:
        del inferences[0]["name"]
        terminal.document("run", document | inferences[0] | judgement.document)
    if names is not None and "objects" not in inferences[0]:
        _judge_labels(terminal, names, runner.outputs)
    judgement.finish(terminal)


@dataclass
class _Job:
    """What runs, and how files become its inputs.

    Attributes:
        runner: what runs.
        rule: what pixels become.
        real: whether quantized inputs and outputs are given and written as real numbers.
        path: the file of the model.
    """

    runner: Runner
    rule: arrays.Normalization | None
    real: bool
    path: str
    _reading: float = 0.0

    @property
    def ports(self) -> Sequence[Port]:
        """Inputs as they are given."""
        inputs = self.runner.inputs
        return [_real(port) for port in inputs] if self.real else inputs

    def run(
        self, terminal: Terminal, chosen: Sequence[Sample], written: RunOutputs
    ) -> Iterator[tuple[Sample, list[tuple[Port, Array]], dict[str, Any]]]:
        """Each inference with its outputs, and what to say of it."""
        results = self._results(terminal, chosen)
        for sample, (found, elapsed) in zip(chosen, results, strict=True):
            yield sample, *self._told(sample, found, elapsed, written)

    def _results(
        self, terminal: Terminal, chosen: Sequence[Sample]
    ) -> Iterator[tuple[Sequence[Array], float]]:
        """Outputs of each inference, and the seconds since those of the one before."""
        runner = self.runner
        many = runner.many or (lambda images: map(runner.run, images))
        results = many(map(self._values, chosen))
        while True:
            with terminal.working(f"running on {runner.how}"):
                # Files are read meanwhile, if several inferences are under way.
                start = time.perf_counter()
                found = next(results, None)
                elapsed = time.perf_counter() - start - (0 if runner.many else self._reading)
            if found is None:
                return
            yield found, elapsed if runner.seconds is None else runner.seconds()

    def _values(self, sample: Sample) -> list[Array]:
        """Inputs of an inference."""
        start = time.perf_counter()
        values = sample.read(self.ports, self.rule)
        if self.real:
            stored = zip(self.runner.inputs, values, strict=True)
            values = [_stored(port, x, self.path) for port, x in stored]
        self._reading = time.perf_counter() - start
        return values

    def _told(
        self, sample: Sample, results: Sequence[Array], elapsed: float, written: RunOutputs
    ) -> tuple[list[tuple[Port, Array]], dict[str, Any]]:
        """Outputs of an inference, and what to say of it."""
        runner, names = self.runner, written.names
        pairs = list(zip(runner.outputs, results, strict=True))
        if self.real:
            pairs = [(_real(port), _meant(port, result)) for port, result in pairs]
        document: dict[str, Any] = {
            "inputs": list(sample.files),
            "seconds": elapsed,
            "parts": runner.parts(),
            "outputs": [describe_output(port, x, written.top, names) for port, x in pairs],
        }
        document["written"] = self._draw(sample, results, document, written)
        return pairs, document

    def _draw(
        self,
        sample: Sample,
        results: Sequence[Array],
        document: dict[str, Any],
        written: RunOutputs,
    ) -> list[str]:
        """Say what a detector found, and draw it; the files of the picture.

        Raises:
            UsageError: a picture is wanted of a model that is no detector.
        """
        from fitzroy.cli.objects import drawn
        from fitzroy.execution.objects import objects_of

        graph, names = self.runner.graph, written.names
        objects = None if graph is None else objects_of(graph, results)
        if objects is not None:
            document["objects"] = [item.document(names) for item in objects]
            for report in document["outputs"]:
                # Not a ranking of classes.
                report.pop("top", None)
        if written.draw is None:
            return []
        picture = _picture(sample.files, written.draw)
        if objects is None:
            raise UsageError("--draw is for detectors", where=self.path, hint=_HOW_TO_LIST)
        write_files([(written.draw, drawn(picture, objects, names, written.draw))])
        return [os.fspath(written.draw)]


def _check_targets(
    job: _Job, chosen: Sequence[Sample], written: RunOutputs, judged: Judged
) -> None:
    """Refuse results that cannot be written, and limits without meaning.

    Raises:
        UsageError: names the file or the option.
    """
    if len(chosen) > 1:
        check_folder(written.output)
        refuse_for_many(chosen, {"--draw": written.draw})
    for target in (written.output, written.draw) if len(chosen) == 1 else ():
        if target is not None:
            check_output(target, [job.path])
    if judged.max_us is not None and job.runner.simulated:
        raise UsageError(
            f"--max-us has no meaning on {job.runner.how}",
            reason="its time is that of the simulation",
            hint="limit the predicted time: fitzroy sim --max-us",
        )


_HOW_TO_LIST = "fitzroy compile MODEL --calibrate images/ --detections makes one of a YOLO model"


def _picture(specs: Sequence[str], output: Path) -> str:
    """The input that is a picture.

    Raises:
        UsageError: there is none.
    """
    for spec in specs:
        path = spec if os.path.exists(spec) else spec.partition("=")[2]
        if Path(path).suffix.lower() in arrays.IMAGE_SUFFIXES:
            return path
    raise UsageError("--draw needs a picture as input", where=os.fspath(output))


def _runner(data: bytes, file: str, kind: FileKind, options: Options, stack: ExitStack) -> Runner:
    """What runs a file."""
    if kind not in (FileKind.TFLITE, FileKind.ONNX, FileKind.GRAPH_TEXT):
        _refuse("a program", {"--detections": options.heads.detections or None}, file)
    compiled = kind is FileKind.TFLITE and is_compiled(data, file)
    if compiled and options.device.several is not None:
        return _pipeline_runner(file, options, stack)
    if compiled or (kind is FileKind.TFLITE and options.runtime is RuntimeChoice.LITERT):
        what = "a compiled model" if compiled else "a model that LiteRT runs"
        _refuse(what, {"--detections": options.heads.detections or None}, file)
        return _interpreter_runner(file, options, compiled, stack)
    if kind in (FileKind.TFLITE, FileKind.ONNX, FileKind.GRAPH_TEXT):
        return _model_runner(file, kind, options, stack)
    if kind is FileKind.MODULE:
        return _module_runner(file, options, stack)
    return _program_runner(data, file, kind, options, stack)


# --- what runs -----------------------------------------------------------------------------------


def _refuse(what: str, given: Mapping[str, object], path: str) -> None:
    """Refuse options that would have no effect.

    Raises:
        UsageError: one was given.
    """
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} has no meaning for {what}", where=path)


def _model_runner(path: str, kind: FileKind, options: Options, stack: ExitStack) -> Runner:
    """A model by its reference semantics; LiteRT computes operators that have none."""
    import fitzroy
    from fitzroy.compiler.frontends.frontend import Reading
    from fitzroy.compiler.ops.opaque import opaque_nodes
    from fitzroy.compiler.passes.heads.rewriting import with_detections
    from fitzroy.hw_models.numerics import Arithmetic

    given = {
        "--runtime": None if options.runtime is RuntimeChoice.AUTO else options.runtime,
        "--threads": options.threads,
        "--method": options.method,
    }
    _refuse("a model, which is computed by its reference semantics", given, path)
    options.device.refuse(path)
    choice = options.arithmetic or ArithmeticChoice.XNNPACK
    arithmetic = Arithmetic[choice.name]
    how = Reading(shapes=options.shapes, values=options.values, keep_layout=True)
    graph = fitzroy.load(path, how)
    if kind is FileKind.TFLITE and opaque_nodes(graph):
        return _interpreter_runner(path, options, False, stack)
    graph = with_detections(graph, options.heads)

    def evaluate(values: Sequence[Array]) -> list[Array]:
        results = fitzroy.evaluate(graph, dict(zip(graph.inputs, values, strict=True)), arithmetic)
        return [results[name] for name in graph.outputs]

    return Runner(
        f"numpy with the rounding of {_ROUNDING[choice]}",
        ports(graph, graph.inputs),
        ports(graph, graph.outputs),
        evaluate,
        graph=graph,
    )


def ports(graph: Graph, names: Sequence[str]) -> tuple[Port, ...]:
    """Inputs or outputs of a graph."""
    return tuple(Port(name, graph.type(name)) for name in names)


def _interpreter_runner(path: str, options: Options, compiled: bool, stack: ExitStack) -> Runner:
    """A model on the Edge TPU as far as it is compiled for that, and on the host."""
    from fitzroy.driver.runtime.simulator import MOST_IMAGES
    from fitzroy.execution.interpreter import Interpreter
    from fitzroy.execution.parts import Host
    from fitzroy.hw_models.numerics import Arithmetic

    given = {"--threads": options.threads, "--method": options.method}
    if options.runtime in (RuntimeChoice.EXECUTORCH, RuntimeChoice.ORACLE):
        given["--runtime"] = options.runtime
    _refuse("a model", given, path)
    host = Host.LITERT if options.runtime is RuntimeChoice.LITERT else Host.REFERENCE
    choice = options.arithmetic or ArithmeticChoice.XNNPACK
    how, device, simulated = _LITERT, None, False
    if compiled:
        device = stack.enter_context(options.device.open())
        how, simulated = device.description, options.device.simulated
    else:
        options.device.refuse(path)
        if host is Host.REFERENCE:
            how = f"numpy with the rounding of {_ROUNDING[choice]}, and {_LITERT}"
    interpreter = Interpreter(path, device=device, host=host, arithmetic=Arithmetic[choice.name])
    graph = interpreter.graph

    def run(values: Sequence[Array]) -> list[Array]:
        interpreter.reset_all_variables()
        results = interpreter.run(dict(zip(graph.inputs, values, strict=True)))
        return [results[name] for name in graph.outputs]

    def many(images: Iterable[Sequence[Array]]) -> Iterator[Sequence[Array]]:
        named = (dict(zip(graph.inputs, values, strict=True)) for values in images)
        while some := list(islice(named, MOST_IMAGES)):
            for results in interpreter.run_images(some):
                yield [results[name] for name in graph.outputs]

    return Runner(
        how,
        ports(graph, graph.inputs),
        ports(graph, graph.outputs),
        run,
        lambda: [
            {"on": item.part.where, "what": item.part.title, "seconds": item.seconds}
            for item in interpreter.timings
        ],
        graph,
        simulated,
        many if interpreter.takes_many else None,
        (lambda: sum(item.seconds for item in interpreter.timings))
        if interpreter.takes_many
        else None,
    )


def _pipeline_runner(path: str, options: Options, stack: ExitStack) -> Runner:
    """Segments of a model on several devices."""
    given = {
        "--runtime": None if options.runtime is RuntimeChoice.AUTO else options.runtime,
        "--arithmetic": options.arithmetic,
        "--threads": options.threads,
        "--method": options.method,
    }
    _refuse("a model in segments", given, path)
    _refuse("a compiled model", {"--detections": options.heads.detections or None}, path)
    pipeline = stack.enter_context(options.device.segments(path))
    names = [port.name for port in pipeline.inputs]
    done = 0

    def many(images: Iterable[Sequence[Array]]) -> Iterator[Sequence[Array]]:
        nonlocal done
        named = (dict(zip(names, values, strict=True)) for values in images)
        for found in pipeline.map(named):
            done += 1
            yield [found[port.name] for port in pipeline.outputs]

    return Runner(
        pipeline.description,
        pipeline.inputs,
        pipeline.outputs,
        lambda values: next(iter(many([values]))),
        lambda: [
            {"on": item.where, "what": f"segment {number}", "seconds": item.seconds[done - 1]}
            for number, item in enumerate(pipeline.times)
        ],
        simulated=options.device.simulated,
        many=many,
    )


def _module_runner(path: str, options: Options, stack: ExitStack) -> Runner:
    """A bytecode module on its virtual machine."""
    from fitzroy.execution.modules import ModuleProgram, uses_device
    from fitzroy.formats.bytecode_module import read_module

    given = {
        "--runtime": None if options.runtime is RuntimeChoice.AUTO else options.runtime,
        "--threads": options.threads,
        "--arithmetic": options.arithmetic,
    }
    _refuse("a module, which says itself what runs where", given, path)
    how, device, simulated = "its virtual machine", None, False
    if uses_device(read_module(read_file(path), path)):
        device = stack.enter_context(options.device.open())
        how += f" and {device.description}"
        simulated = options.device.simulated
    else:
        options.device.refuse(path)
    program = stack.enter_context(ModuleProgram(path, device=device))
    function = program.function(options.method)
    unused = [program]

    def run(values: Sequence[Array]) -> list[Array]:
        names = [item.name for item in function.inputs]
        # What a module keeps from call to call begins anew with every inference.
        with unused.pop() if unused else ModuleProgram(path, device=device) as fresh:
            results = fresh.run(dict(zip(names, values, strict=True)), function.name)
        return [results[item.name] for item in function.outputs]

    inputs, outputs = (
        tuple(Port(item.name, item.type) for item in items)
        for items in (function.inputs, function.outputs)
    )
    return Runner(how, inputs, outputs, run, simulated=simulated)


_ROUNDING = {ArithmeticChoice.XNNPACK: "XNNPACK", ArithmeticChoice.TFLITE: "TFLite"}


def _program_runner(
    data: bytes, path: str, kind: FileKind, options: Options, stack: ExitStack
) -> Runner:
    from fitzroy.cli.describe import no_reader
    from fitzroy.cli.programs import method_types
    from fitzroy.formats import bundled, executorch

    if kind is FileKind.XNNPACK:
        raise UsageError(
            "a delegate's graph does not run alone",
            where=path,
            hint="run the program (.pte) that holds it",
        )
    if kind in _BUNDLES:
        data = bytes(bundled.read_bundle(data, path=path).program)
    elif kind is not FileKind.PROGRAM:
        raise no_reader(kind, path)
    _refuse("a program", {"--arithmetic": options.arithmetic}, path)
    options.device.refuse(path)
    file = executorch.read_program(data, path=path)
    method = _method(file.methods, options.method, path)
    plan = file.plan(method)
    assert plan is not None
    how, runtime = _runtime(options, path, stack)
    session = stack.enter_context(runtime.load(data, path))
    info = next(info for info in session.methods if info.name == method)
    inputs, outputs = (
        tuple(
            Port(port.name, port.type if type is None else type)
            for port, type in zip(ports, types, strict=True)
        )
        for ports, types in zip((info.inputs, info.outputs), method_types(file, plan), strict=True)
    )
    return Runner(how, inputs, outputs, lambda values: session.run(values, method))


def _method(methods: Sequence[str], wanted: str | None, path: str) -> str:
    if wanted is None:
        return "forward" if "forward" in methods else methods[0]
    if wanted not in methods:
        known = ", ".join(map(repr, methods))
        raise UsageError(f"no method {wanted!r}", reason=f"the program has {known}", where=path)
    return wanted


def _runtime(options: Options, path: str, stack: ExitStack) -> tuple[str, Runtime]:
    """The runtime that the options ask for, and its name for people."""
    from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime, available

    if options.runtime is RuntimeChoice.LITERT:
        _refuse("a program", {"--runtime": options.runtime}, path)
    choice, text = options.runtime, _ORACLE
    if choice is RuntimeChoice.AUTO:
        choice = RuntimeChoice.EXECUTORCH if available() else RuntimeChoice.ORACLE
        if choice is RuntimeChoice.ORACLE:
            text += f" ({_MISSING}: {install_extra('executorch')})"
    if choice is RuntimeChoice.EXECUTORCH:
        return _EXECUTORCH, stack.enter_context(ExecuTorchRuntime(threads=options.threads))
    _refuse("the numpy oracle", {"--threads": options.threads}, path)
    return text, stack.enter_context(OracleRuntime())


def _fixed(specs: Sequence[str]) -> tuple[dict[str, GivenValue], list[str]]:
    """Inputs that are given as numbers, as in sr=16000, and what else is given."""
    found, rest = {}, []
    for spec in specs:
        name, _, said = spec.partition("=")
        value = given_value(said)
        if name and value is not None and not os.path.exists(spec):
            found[name] = value
        else:
            rest.append(spec)
    return found, rest


def _shapes(specs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of arrays that are given, by the name or the number of the input.

    Only an ONNX model, which may leave extents open, asks for them.
    """
    found = {}
    for number, spec in enumerate(specs):
        name, equals, path = spec.partition("=")
        if not equals or os.path.exists(spec):
            name, path = str(number), spec
        if path.endswith(".npy") and os.path.isfile(path):
            found[name] = read_npy(read_file(path), path).shape
    return found


# --- real numbers for quantized ones ---


def _real(port: Port) -> Port:
    """An input or output as real numbers, if it is quantized."""
    return Port(port.name, port.type.real()) if port.type.is_quantized else port


def _stored(port: Port, real: Array, path: str) -> Array:
    """What stands for real numbers in an input.

    Raises:
        UsageError: some are no numbers.
    """
    if not port.type.is_quantized:
        return real
    if np.isnan(real).any():
        raise UsageError(
            f"input {port.name!r} has {int(np.isnan(real).sum())} elements that are no numbers",
            reason=f"it is {port.type}, which has nothing for them",
            where=path,
        )
    return arrays.stored_values(real, port.type)


def _meant(port: Port, stored: Array) -> Array:
    """The real numbers of an output."""
    if not port.type.is_quantized:
        return stored
    return arrays.real_values(stored, port.type).astype(np.float32)


# --- inputs and outputs --------------------------------------------------------------------------


def describe_output(
    port: Port, result: Array, top: int, names: dict[int, str] | None
) -> dict[str, Any]:
    """What to say of an output, for JSON."""
    from fitzroy.cli.describe import tensor

    real = arrays.real_values(result, port.type)
    type = port.type.with_shape(result.shape)
    report: dict[str, Any] = {
        **tensor(port.name, type),
        "type": str(type),
        "sha256": arrays.digest(result),
    }
    if arrays.is_vector(result.shape):
        report["top"] = [
            {
                "index": index,
                **({"label": names.get(index, "")} if names is not None else {}),
                "score": float(real.reshape(-1)[index]),
                "stored": result.reshape(-1)[index].item(),
            }
            for index in arrays.top(real, top)
        ]
    elif result.size <= _FEW:
        report["values"] = real.reshape(-1).tolist()
    if result.size:
        finite = real[np.isfinite(real)]
        for name, value in (("min", finite.min), ("mean", finite.mean), ("max", finite.max)):
            report[name] = float(value()) if finite.size else None
        report["not_finite"] = int(real.size - finite.size)
    return report


def show_outputs(terminal: Terminal, document: dict[str, Any]) -> None:
    """Print what `describe_output` says of all outputs."""
    terminal.note(f"ran on {document['ran_on']} in {seconds(document['seconds'])}")
    parts = document.get("parts", ())
    for part in parts if len(parts) > 1 else ():
        terminal.note(f"{part['on']}: {part['what']} in {seconds(part['seconds'])}")
    for number, report in enumerate(document["outputs"]):
        name = report["name"] or f"output {number}"
        terminal.line(f"{name}: {report['type']}", style="bold")
        if "top" in report:
            _show_top(terminal, report["top"])
            continue
        if "values" in report:
            terminal.line("  " + " ".join(f"{value:.6g}" for value in report["values"]))
        elif report.get("mean") is not None:
            figures = (f"{key} {report[key]:.6g}" for key in ("min", "mean", "max"))
            terminal.line("  " + ", ".join(figures))
        if report.get("not_finite"):
            terminal.line(f"  {report['not_finite']} elements are not finite")
    if "objects" in document:
        from fitzroy.cli.objects import show_objects

        show_objects(terminal, document["objects"])
    for path in document["written"]:
        terminal.note(f"wrote {path}")


def _show_top(terminal: Terminal, entries: Sequence[dict[str, Any]]) -> None:
    labelled = any("label" in entry for entry in entries)
    columns = [Column("class", right=True), Column("score", right=True), Column("label")]
    rows = [
        [str(entry["index"]), f"{entry['score']:.6g}", entry.get("label", "")] for entry in entries
    ]
    terminal.table(columns if labelled else columns[:2], [r if labelled else r[:2] for r in rows])


def _judge_labels(terminal: Terminal, names: dict[int, str], ports: Sequence[Port]) -> None:
    """Warn of labels that cannot belong to the outputs."""
    vectors = [port for port in ports if arrays.is_vector(port.type.shape)]
    if not vectors:
        terminal.warn("the labels have no use: no output is a vector of scores")
    for port in vectors:
        if max(names, default=-1) >= port.type.size:
            terminal.warn(
                f"{len(names)} labels for {port.type.size} scores",
                ["the classes may be shifted or of another data set"],
            )


# --- bundled programs ----------------------------------------------------------------------------


def _verify(terminal: Terminal, data: bytes, path: str, options: Options) -> None:
    """Run every test case of a bundled program and compare the outputs.

    Raises:
        typer.Exit: with the exit code of the runtime's kind of error, if a case fails.
    """
    from fitzroy.formats import bundled

    _refuse("a program", {"--arithmetic": options.arithmetic}, path)
    bundle = bundled.read_bundle(data, path=path)
    suites = [s for s in bundle.suites if options.method in (None, s.method)]
    if options.method is not None and not suites:
        known = ", ".join(repr(suite.method) for suite in bundle.suites) or "none"
        raise UsageError(
            f"no test cases for {options.method!r}",
            reason=f"there are some for {known}",
            where=path,
        )
    cases: list[dict[str, Any]] = []
    with ExitStack() as stack:
        how, runtime = _runtime(options, path, stack)
        session = stack.enter_context(runtime.load(bytes(bundle.program), path))
        progress = stack.enter_context(terminal.working(f"running on {how}"))
        for suite in suites:
            for number, case in enumerate(suite.cases):
                progress(counted("case", number + 1, len(suite.cases), f" for {suite.method}"))
                difference = _check(session, suite.method, case)
                if not difference and bundle.identifier == bundled.IDENTIFIER:
                    difference = _verdict(runtime, data, suite.method, number)
                entry = {"method": suite.method, "case": number, "passed": not difference}
                cases.append(entry | ({"difference": difference} if difference else {}))
    failed = [case for case in cases if not case["passed"]]
    kind: type[FitzroyError] = DeviceError if how == _EXECUTORCH else SimulationError
    error = kind(
        f"{len(failed)} of {count(len(cases), 'test case')} failed",
        reason=f"the outputs of {how} differ from the expected ones",
        where=path,
    )
    if terminal.json:
        document: dict[str, Any] = {"file": path, "ran_on": how, "cases": cases}
        terminal.document(
            "run-bundle", document | ({"error": error_document(error)} if failed else {})
        )
    else:
        terminal.note(f"ran on {how}")
        columns = (Column("method"), Column("case", right=True), Column("result"))
        rows = [
            [case["method"], str(case["case"]), case.get("difference") or "as expected"]
            for case in cases
        ]
        if rows:
            terminal.table(columns, rows)
        else:
            terminal.warn("the bundle has no test cases")
        if failed:
            terminal.error(error)
    if failed:
        raise typer.Exit(error.exit_code)


def _check(session: Session, method: str, case: Case) -> str:
    """How the outputs of a case differ from the expected ones; empty if they do not.

    Floating-point numbers may differ by as much as the runtime's own check allows; everything
    else must be equal.
    """
    results = session.run([np.asarray(item) for item in case.inputs], method)
    if len(results) != len(case.outputs):
        return f"{len(results)} outputs, {len(case.outputs)} expected"
    for number, (found, item) in enumerate(zip(results, case.outputs, strict=True)):
        wanted = np.asarray(item)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            kinds = [f"{a.dtype}{list(a.shape)}" for a in (found, wanted)]
            return f"output {number} is {kinds[0]}, {kinds[1]} expected"
        if wanted.dtype.kind == "f":
            same = np.isclose(found, wanted, rtol=_RTOL, atol=_ATOL, equal_nan=True)
        else:
            same = found == wanted
        if not same.all():
            error = np.abs(found.astype(np.float64) - wanted.astype(np.float64))[~same]
            return (
                f"output {number}: {error.size} of {same.size} elements differ,"
                f" by at most {error.max():.6g}"
            )
    return ""


def _verdict(runtime: Runtime, data: bytes, method: str, number: int) -> str:
    """What ExecuTorch's own check of a bundled program objects to; empty without objection."""
    from fitzroy.driver.runtime import ExecuTorchRuntime

    if not isinstance(runtime, ExecuTorchRuntime):
        return ""
    try:
        runtime.verify_bundle(data, method, number, rtol=_RTOL, atol=_ATOL)
    except DeviceError as error:
        return error.reason.partition("\n")[0]
    return ""


run_command = Verb(
    run,
    (
        "fitzroy run model.pte --input photo.png --labels labels.txt",
        "fitzroy run model.pte --input left=a.npy --input right=b.npy -o y.npz",
        "fitzroy run model.tflite -i photo.png --mean 127.5 --std 127.5 --top 3",
        "fitzroy run model_quant.tflite -i x.npy -o y.npy --float",
        "fitzroy run model.bpte",
        "fitzroy run model_edgetpu.tflite --device usb -i photo.png --top 3",
        "fitzroy run yolo_edgetpu.tflite -i a.jpg --labels coco.txt --draw out.png",
        "fitzroy run model_edgetpu.tflite --device sim -i x.npy --record s.jsonl",
        "fitzroy run model_edgetpu.tflite --device usb -i images/ -o outputs/",
        "fitzroy run m_edgetpu.tflite --device usb -i in/ --expect out/ --max-us 3000",
    ),
)

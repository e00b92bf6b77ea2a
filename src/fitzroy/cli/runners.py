"""What runs a file: a runtime, the reference semantics, devices, or a virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.base.options import given as names_given
from fitzroy.base.types import Array
from fitzroy.cli.compiled import DeviceChoice, is_compiled
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.passes.heads.options import PLAIN_OUTPUTS, HeadOptions
from fitzroy.execution.inputs import Port
from fitzroy.formats.detect import FileKind

if TYPE_CHECKING:
    from fitzroy.compiler.ir import Graph
    from fitzroy.driver.runtime import Runtime

BUNDLES = (FileKind.BUNDLED_PROGRAM, FileKind.BUNDLED_PROGRAM_BP04)
EXECUTORCH = "ExecuTorch's runtime"
_ORACLE = "the numpy oracle"
_LITERT = "LiteRT"
_MISSING = "ExecuTorch's runtime is not installed"


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
        graph: the model, or its last segment; None for programs.
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


@dataclass(frozen=True, slots=True)
class Options:
    """How to run; what does not fit the file is refused.

    Attributes:
        runtime: what runs a program.
        arithmetic: whose rounding.
        threads: threads of the runtime.
        method: method of a program, or function of a module.
        device: what the user said of devices.
        heads: what a detector is to give.
        how: what is said of a model's inputs; of a compiled one, of those of the source.
        arrays: shapes of arrays that are given, by the name or the number of the input.
    """

    runtime: RuntimeChoice
    arithmetic: ArithmeticChoice | None
    threads: int | None
    method: str | None
    device: DeviceChoice
    heads: HeadOptions = PLAIN_OUTPUTS
    how: Reading = PLAINLY
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def runner_of(data: bytes, file: str, kind: FileKind, options: Options, stack: ExitStack) -> Runner:
    """What runs a file."""
    if kind not in (FileKind.TFLITE, FileKind.ONNX, FileKind.GRAPH_TEXT):
        refuse("a program", {"--detections": options.heads.detections or None}, file)
        refuse("a program", _said(options), file)
    compiled = kind is FileKind.TFLITE and is_compiled(data, file)
    if compiled:
        chosen = {f"--{name}": True for name in names_given(options.heads)}
        refuse("a compiled model", chosen, file, hint=_WHEN_COMPILED)
    options.heads.check()
    if compiled and options.device.several is not None:
        return _pipeline_runner(file, options, stack)
    if compiled or (kind is FileKind.TFLITE and options.runtime is RuntimeChoice.LITERT):
        refuse("a model that LiteRT runs", {"--detections": options.heads.detections or None}, file)
        return _interpreter_runner(file, options, compiled, stack)
    if kind in (FileKind.TFLITE, FileKind.ONNX, FileKind.GRAPH_TEXT):
        return _model_runner(file, kind, options, stack)
    if kind is FileKind.MODULE:
        return _module_runner(file, options, stack)
    return _program_runner(data, file, kind, options, stack)


_WHEN_COMPILED = "give it when the model is compiled: fitzroy compile MODEL --detections"


def refuse(what: str, given: Mapping[str, object], path: str, *, hint: str = "") -> None:
    """Refuse options that would have no effect.

    Raises:
        UsageError: one was given.
    """
    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} has no meaning for {what}", where=path, hint=hint)


def _said(options: Options) -> dict[str, object]:
    """What is said of inputs, as an option that `refuse` takes."""
    names = [*options.how.shapes, *options.how.values]
    return {f"a shape or a value of input {name!r}": name for name in names[:1]}


def _model_runner(path: str, kind: FileKind, options: Options, stack: ExitStack) -> Runner:
    """A model by its reference semantics; LiteRT computes operators that have none."""
    import fitzroy
    from fitzroy.compiler.ops.opaque import opaque_nodes
    from fitzroy.compiler.passes.heads.rewriting import with_detections
    from fitzroy.hw_models.numerics import Arithmetic

    given = {
        "--runtime": None if options.runtime is RuntimeChoice.AUTO else options.runtime,
        "--threads": options.threads,
        "--method": options.method,
    }
    refuse("a model, which is computed by its reference semantics", given, path)
    options.device.refuse(path)
    choice = options.arithmetic or ArithmeticChoice.XNNPACK
    arithmetic = Arithmetic[choice.name]
    how = replace(
        options.how,
        arrays=options.arrays,
        keep_layout=True,
        before_choice=options.heads.detections,
    )
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
    refuse("a model", given, path)
    host = Host.LITERT if options.runtime is RuntimeChoice.LITERT else Host.REFERENCE
    choice = options.arithmetic or ArithmeticChoice.XNNPACK
    how, device, simulated = _LITERT, None, False
    if compiled:
        device = stack.enter_context(options.device.open(options.how))
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
    refuse("a model in segments", given, path)
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
        pipeline.last,
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
    refuse("a module, which says itself what runs where", given, path)
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
    if kind in BUNDLES:
        data = bytes(bundled.read_bundle(data, path=path).program)
    elif kind is not FileKind.PROGRAM:
        raise no_reader(kind, path)
    refuse("a program", {"--arithmetic": options.arithmetic}, path)
    options.device.refuse(path)
    file = executorch.read_program(data, path=path)
    method = _method(file.methods, options.method, path)
    plan = file.plan(method)
    assert plan is not None
    how, runtime = runtime_of(options, path, stack)
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


def runtime_of(options: Options, path: str, stack: ExitStack) -> tuple[str, Runtime]:
    """The runtime that the options ask for, and its name for people."""
    from fitzroy.driver.runtime import ExecuTorchRuntime, OracleRuntime, available

    if options.runtime is RuntimeChoice.LITERT:
        refuse("a program", {"--runtime": options.runtime}, path)
    choice, text = options.runtime, _ORACLE
    if choice is RuntimeChoice.AUTO:
        choice = RuntimeChoice.EXECUTORCH if available() else RuntimeChoice.ORACLE
        if choice is RuntimeChoice.ORACLE:
            text += f" ({_MISSING}: {install_extra('executorch')})"
    if choice is RuntimeChoice.EXECUTORCH:
        return EXECUTORCH, stack.enter_context(ExecuTorchRuntime(threads=options.threads))
    refuse("the numpy oracle", {"--threads": options.threads}, path)
    return text, stack.enter_context(OracleRuntime())

"""The public functions: from a model to a program, and from a program to answers."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from fitzroy.base.errors import (
    FormatError,
    InternalError,
    SimulationError,
    UnsupportedError,
    UsageError,
)
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.frontend import frontend_for
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Stage, run_passes
from fitzroy.compiler.reference import evaluate, verify
from fitzroy.compiler.targets.edgetpu.operands import STATE_SUFFIX
from fitzroy.compiler.targets.edgetpu.patch import ModelReport, patch_model
from fitzroy.compiler.targets.executorch.lower import Lowered
from fitzroy.compiler.targets.target import TARGETS
from fitzroy.driver.runtime.simulator import PackageOutputs, PackageRun, SimulatedDevice
from fitzroy.estimate import CLOCK, HOST, Conditions, timed
from fitzroy.formats import bundled, custom_op, tflite
from fitzroy.formats.darwinn import Layer, PackageFile
from fitzroy.hosts import Profile
from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.hw_models.edgetpu.latitude import NONE, Latitude
from fitzroy.linker.packages.container import Container, read_container
from fitzroy.linker.packages.executorch import link_program
from fitzroy.report.run import Run

Model = str | os.PathLike[str] | Graph


def load(path: str | os.PathLike[str], *, subgraph: int = 0) -> Graph:
    """The graph of a model, whose format is told by its content.

    Args:
        path: a ``.tflite`` model, a graph in text form, or what another frontend reads.
        subgraph: which subgraph of a TFLite model; 0 is its main one.

    Raises:
        UsageError: the file cannot be read, or is a program rather than a model.
        FormatError: the file is malformed.
        UnsupportedError: the model has operators without counterpart.
    """
    name, data = os.fspath(path), read_file(path)
    graph = frontend_for(data, name).read(data, name, subgraph=subgraph)
    try:
        verify(graph)
    except InternalError as error:
        raise FormatError(f"the graph is inconsistent: {error}", path=name) from None
    return graph


@dataclass(frozen=True)
class Compilation:
    """A compiled program and how it came about.

    Attributes:
        data: the program (``.pte``).
        graphs: the imported graph of each method, cut to the chosen outputs.
        legalized: the graph of each method as it was lowered.
        placements: groups of nodes of each method and what runs them.
        lowered: methods and subgraphs before linking.
        stages: what each pass and step did, in order.
    """

    data: bytes
    graphs: Mapping[str, Graph]
    legalized: Mapping[str, Graph]
    placements: Mapping[str, tuple[Placement, ...]]
    lowered: Mapping[str, Lowered]
    stages: tuple[Stage, ...]

    @property
    def inputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Names and types of the first method's inputs."""
        graph = next(iter(self.graphs.values()))
        return tuple((name, graph.type(name)) for name in graph.inputs)

    @property
    def outputs(self) -> tuple[tuple[str, TensorType], ...]:
        """Names and types of the first method's outputs."""
        graph = next(iter(self.graphs.values()))
        return tuple((name, graph.type(name)) for name in graph.outputs)

    def summary(self) -> dict[str, object]:
        """Figures of the compilation, fit for JSON."""
        methods = {}
        for name, placements in self.placements.items():
            placed: dict[str, int] = {}
            for placement in placements:
                placed[placement.target] = placed.get(placement.target, 0) + len(placement.nodes)
            subgraphs = self.lowered[name].subgraphs
            methods[name] = {
                "operators": len(self.graphs[name].nodes()),
                "nodes": placed,
                "delegates": len(subgraphs),
                "delegate_nodes": sum(subgraph.nodes for subgraph in subgraphs),
                "delegate_bytes": sum(len(subgraph.blob) for subgraph in subgraphs),
            }
        return {
            "methods": methods,
            "program_bytes": len(self.data),
            "stages": [
                {"name": s.name, "seconds": s.seconds, "nodes": s.after} for s in self.stages
            ],
            "seconds": sum(stage.seconds for stage in self.stages),
        }


@dataclass
class _Log:
    """Times the steps of a compilation, tells of them, and dumps what they made."""

    dump: Path | None
    progress: Callable[[str], None]
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.perf_counter()
        yield
        self.stages.append(Stage(name, time.perf_counter() - started, 0, 0))

    def observe(self, stage: Stage, graph: Graph) -> None:
        self.stages.append(stage)
        self.progress(stage.name)
        self.write(f"{stage.name}.ir", lambda: print_graph(graph))

    def write(self, name: str, text: Callable[[], str | bytes]) -> None:
        if self.dump is None:
            return
        path = self.dump / f"{len(self.stages):02}-{name}"
        try:
            self.dump.mkdir(parents=True, exist_ok=True)
            content = text()
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise UsageError(f"cannot write {path}", reason=error.strerror or str(error)) from None


def compile(
    model: Model | Mapping[str, Model],
    *,
    target: str = "xnnpack",
    outputs: Sequence[str] = (),
    dump: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **settings: object,
) -> Compilation:
    """Compile a model to an ExecuTorch program.

    Args:
        model: a path, a graph, or several of them by method name; one alone becomes ``forward``.
        target: what to compile for.
        outputs: names of values to compute instead of the model's outputs.
        dump: folder for the graph after every pass, the partition and the delegates.
        progress: called with the name of each step as it begins or ends.
        settings: options of the target by name; for XNNPACK, ``uint8`` says how uint8 models are
            computed: ``exact``, or ``fast`` with int8 kernels.

    Raises:
        UnsupportedError: with every reason why some operator cannot be placed.
        UsageError: an unknown target or output, or an unreadable file.
        FormatError: a malformed model.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    log = _Log(None if dump is None else Path(dump), progress)
    models = model if isinstance(model, Mapping) else {"forward": model}
    graphs, legalized, placements, lowered = {}, {}, {}, {}
    for name, source in models.items():
        with log.step("import"):
            graph = source if isinstance(source, Graph) else load(source)
            if outputs:
                graph = graph.cut(outputs)
        if not graph.outputs:
            raise UnsupportedError(
                "the model has no outputs, so there is nothing to run", where=graph.name
            )
        graphs[name] = graph
        log.write("import.ir", partial(print_graph, graph))
        legalized[name] = run_passes(graph, chosen.passes(options), log.observe)
        with log.step("partition"):
            placements[name] = tuple(chosen.place(legalized[name], options))
        log.write("partition.txt", partial(_partition_text, placements[name]))
        where = graph.name if isinstance(source, Graph) else os.fspath(source)
        _demand_placed(where, placements[name])
        with log.step("lower"):
            lowered[name] = chosen.lower(legalized[name], placements[name], name)
        for index, subgraph in enumerate(lowered[name].subgraphs):
            log.write(f"{name}-{index}.xnnpack", partial(bytes, subgraph.blob))
    with log.step("link"):
        data = link_program([item.method for item in lowered.values()])
    return Compilation(data, graphs, legalized, placements, lowered, tuple(log.stages))


def _partition_text(placements: Sequence[Placement]) -> str:
    lines = []
    for placement in placements:
        lines.append(f"{placement.target or 'refused'}:")
        lines += [f"  {node.op} {node.name}" for node in placement.nodes]
        lines += [f"  {reject}" for reject in placement.rejects]
    return "\n".join(lines) + "\n"


def _demand_placed(where: str, placements: Sequence[Placement]) -> None:
    refused = [placement for placement in placements if not placement.target]
    if refused:
        count = sum(len(placement.nodes) for placement in refused)
        raise UnsupportedError(
            f"{count} operator{'s' if count > 1 else ''} cannot be placed on any target",
            rejects=[reject for placement in refused for reject in placement.rejects],
            where=where,
        )


def explain(
    model: Model,
    *,
    target: str = "xnnpack",
    outputs: Sequence[str] = (),
    **settings: object,
) -> tuple[Graph, tuple[Placement, ...]]:
    """The legalized graph of a model and where each of its nodes would run.

    Unlike `compile`, this does not fail when some operator cannot be placed. For the target
    ``edgetpu``, the graph is as it was, and the rest runs on the ``host``.
    """
    chosen = TARGETS.get(target)
    options = chosen.chosen(settings)
    graph = model if isinstance(model, Graph) else load(model)
    if outputs:
        graph = graph.cut(outputs)
    legalized = run_passes(graph, chosen.passes(options))
    return legalized, tuple(chosen.place(legalized, options))


def bundle(compilation: Compilation, cases: Mapping[str, Sequence[Sequence[Array]]]) -> bytes:
    """A bundled program (``BP08``) with expected outputs by reference semantics.

    Args:
        compilation: what to bundle.
        cases: test cases of each method: one array per input.

    Raises:
        UsageError: arrays that do not fit a method's inputs.
    """
    suites = []
    for method, inputs in cases.items():
        if method not in compilation.legalized:
            known = ", ".join(compilation.legalized)
            raise UsageError(f"no method {method!r}", hint=f"methods: {known}")
        graph = compilation.legalized[method]
        suite = []
        for arrays in inputs:
            if len(arrays) != len(graph.inputs):
                raise UsageError(f"{len(arrays)} arrays for {len(graph.inputs)} inputs")
            results = evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))
            expected = tuple(results[name] for name in graph.outputs)
            suite.append(bundled.Case(tuple(arrays), expected))
        suites.append(bundled.Suite(method, tuple(suite)))
    return bundled.write_bundle(compilation.data, suites)


def patch_weights(
    compiled: str | os.PathLike[str],
    retrained: str | os.PathLike[str],
    *,
    original: str | os.PathLike[str] | None = None,
) -> tuple[bytes, ModelReport]:
    """A compiled Edge TPU model with the weights of its source after training.

    Args:
        compiled: a ``*_edgetpu.tflite`` model.
        retrained: its source with other weights, and activations quantized as before.
        original: the source that it was compiled from; without it, weights are found by their
            order and sizes, which is refused where that leaves a choice.

    Returns:
        The bytes of the model, and what was changed.

    Raises:
        LinkError: the sources do not belong to the model, or leave a choice.
        UnsupportedError: the retrained source needs another program; one diagnostic per operator.
        UsageError: a file cannot be read.
        FormatError: a malformed file.
    """
    paths = [os.fspath(path) for path in (compiled, retrained, original) if path is not None]
    files = [read_file(path) for path in paths]
    models = [tflite.read_model(data, path) for data, path in zip(files, paths, strict=True)]
    model, report = patch_model(
        models[0],
        models[1],
        models[2] if original is not None else None,
        path=paths[0],
        retrained_path=paths[1],
        original_path=paths[-1],
    )
    return tflite.write_model(model) if report.changed else files[0], report


@dataclass(frozen=True)
class Simulation:
    """What the simulated chip computed.

    Attributes:
        outputs: every output tensor by name.
        device: the bytes of every output as the device sends them, and all bytes it sent.
    """

    outputs: Mapping[str, Array]
    device: PackageOutputs


@dataclass(frozen=True)
class EdgeTpuProgram:
    """A package with the tensors that it takes and gives.

    Attributes:
        path: its file, for errors.
        number: which package of the file, counted from 0.
        package: the package.
        inputs: types of the inputs by name, in order.
        outputs: types of the outputs by name, in order.
        states: types of the inputs that the model itself keeps from inference to inference.
        siblings: how many packages the file has.
        others: operators of the model that the package does not compute.
    """

    path: str
    number: int
    package: PackageFile
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    states: Mapping[str, TensorType] = field(default_factory=dict)
    siblings: int = 1
    others: int = 0

    @classmethod
    def load(cls, path: str | os.PathLike[str], package: int | None = None) -> EdgeTpuProgram:
        """Read a compiled model, a DarwiNN package or an executable.

        Args:
            path: the file.
            package: which package; may be left out if there is only one.

        Raises:
            UsageError: the file cannot be read, holds no such package, or several to choose from.
            FormatError: the file is malformed.
            UnsupportedError: a package for a later runtime, or for several chips.
        """
        name = os.fspath(path)
        container = read_container(read_file(path), name)
        count = len(container.packages)
        if package is None and count > 1:
            raise UsageError(
                f"the model has {count} packages", where=name, hint="choose one, counted from 0"
            )
        number = package or 0
        if not 0 <= number < count:
            raise UsageError(
                f"there is no package {number}",
                reason=f"the file has {count}, counted from 0",
                where=name,
            )
        return cls.of(container, number)

    @classmethod
    def of(cls, container: Container, number: int) -> EdgeTpuProgram:
        """A package of a file that has been read.

        Args:
            container: the file.
            number: which of its packages.

        Raises:
            FormatError: the layers of the package are others than the tensors of its operator.
        """
        name, count = container.path, len(container.packages)
        main = container.packages[number].main
        inputs, outputs = [*main.inputs.values()], [*main.outputs.values()]
        tensors: dict[str, tflite.Tensor] = {}
        others = 0
        if container.model is not None:
            operator = custom_op.extract(container.model, name)[number]
            inputs, outputs = operator.layers(main)
            subgraphs = container.model.subgraphs or []
            tensors = {item.name or "": item for item in subgraphs[operator.subgraph].tensors or ()}
            others = sum(len(subgraph.operators or ()) for subgraph in subgraphs) - 1
        types = {
            layer.name or "": _tensor_type(layer, tensors.get(layer.name or ""))
            for layer in (*inputs, *outputs)
        }
        names = [layer.name or "" for layer in inputs]
        states = {item for item in names if item in tensors and tensors[item].is_variable}
        return cls(
            path=name,
            number=number,
            package=container.packages[number],
            inputs={item: types[item] for item in names if item not in states},
            outputs={layer.name or "": types[layer.name or ""] for layer in outputs},
            states={item: types[item] for item in names if item in states},
            siblings=count,
            others=others,
        )

    def simulate(
        self,
        inputs: Mapping[str, Array],
        *,
        seed: int | None = None,
        latitude: Latitude = NONE,
    ) -> Simulation:
        """Execute the package on a chip that has just been powered up.

        Args:
            inputs: one array per input, of its shape and element type; states that are left out
                are zero.
            seed: randomize the order of engines and what memories hold at first.
            latitude: how late, how short and how irregular units are; random delays need a seed.

        Raises:
            UsageError: an array is missing or unknown, or of another type than the input; delays
                without a seed.
            SimulationError: the program deadlocks, depends on what nothing has written, or leaves
                something over.
            UnsupportedError: the program computes a batch.
        """
        run = self.start(inputs, seed=seed, latitude=latitude)
        with self.located():
            return self.finished(run.finish())

    def start(
        self,
        inputs: Mapping[str, Array],
        *,
        seed: int | None = None,
        latitude: Latitude = NONE,
        record: bool = False,
    ) -> PackageRun:
        """A run on a chip that has just been powered up, for the caller to advance.

        Args:
            inputs: as for `simulate`.
            seed: as for `simulate`.
            latitude: as for `simulate`.
            record: whether to take down what the scalar core does, as the timing model needs it.

        Raises:
            UsageError: an array is missing or unknown, or of another type than the input.
            UnsupportedError: the program computes a batch.
        """
        device = SimulatedDevice(seed=seed, latitude=latitude)
        return device.start(self.package, self.encoded(inputs), record=record)

    def encoded(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Elements of all inputs as bytes by layer name, as devices take them.

        Args:
            inputs: as for `simulate`.

        Raises:
            UsageError: an array of another type than the input.
        """
        values = {name: _zeros(type) for name, type in self.states.items()} | dict(inputs)
        types = {**self.inputs, **self.states}
        data = {}
        for name, array in values.items():
            type = types.get(name)
            if type is not None:
                if array.dtype != type.dtype.numpy or array.shape != type.shape:
                    raise UsageError(
                        f"input {name!r} is {type}",
                        reason=f"the array is {array.dtype}{list(array.shape)}",
                        where=self.path,
                    )
                array = array.astype(type.dtype.numpy.newbyteorder("<"))
            data[name] = np.frombuffer(array.tobytes(), np.uint8)
        return data

    def finished(self, outputs: PackageOutputs) -> Simulation:
        """What a run computed, with outputs as tensors."""
        return Simulation(self.decoded(outputs.tensors), outputs)

    def decoded(self, data: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs as tensors, from bytes of them by layer name, as devices give them."""
        return {name: _decoded(data[name], type) for name, type in self.outputs.items()}

    def carried(self, data: Mapping[str, Array]) -> dict[str, Array]:
        """States as inputs of the next run, from what `decoded` takes; changed ones only."""
        return {
            name: _decoded(data[name + STATE_SUFFIX], type)
            for name, type in self.states.items()
            if name + STATE_SUFFIX in data
        }

    def timed(
        self,
        outputs: PackageOutputs,
        *,
        clock: str = CLOCK,
        host: str | Profile = HOST,
        driver: str = LIBEDGETPU,
    ) -> Run:
        """When everything in an inference happened, with what reports are made of.

        Args:
            outputs: what a run gave that was recorded.
            clock: performance level, a key of `BEAGLE.clocks`.
            host: host and link: a key of `BEAGLE.hosts`, a file with a profile, or a profile.
            driver: a key of `BEAGLE.drivers`.

        Raises:
            UsageError: an unknown clock, host or driver, or the run was not recorded.
            SimulationError: the program relies on queues that the chip may not have.
        """
        conditions = Conditions(clock, host, driver)
        conditions.check()
        remark = "Other operators of the model, which run on the CPU, are left out."
        with self.located():
            return timed(
                outputs.stages,
                os.path.basename(self.path),
                {name: len(data) for name, data in outputs.buffers.items()},
                conditions,
                (remark,) if self.others else (),
            )

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let faults of the program name its file.

        Raises:
            SimulationError: as raised inside, with the file in front of the place.
        """
        try:
            yield
        except SimulationError as error:
            raise SimulationError(
                error.what,
                reason=error.reason,
                where=", ".join(filter(None, (self.path, error.where))),
                hint=error.hint,
            ) from None


def _tensor_type(layer: Layer, tensor: tflite.Tensor | None) -> TensorType:
    """The type of a layer, in the shape of its tensor; without tensor, executions come first."""
    type, executions = custom_op.layer_type(layer), layer.execution_count_per_inference
    if tensor is not None and tensor.shape is not None:
        shape = tuple(int(extent) for extent in tensor.shape)
        if math.prod(shape) == executions * type.size:
            return type.with_shape(shape)
    return type if executions == 1 else type.with_shape((executions, *type.shape))


def _decoded(data: Array, type: TensorType) -> Array:
    """Bytes of a device as a tensor."""
    elements = np.frombuffer(data.tobytes(), type.dtype.numpy.newbyteorder("<"))
    return elements.reshape(type.shape).astype(type.dtype.numpy)


def _zeros(type: TensorType) -> Array:
    """A tensor of real zeros."""
    zero = 0 if type.quantization is None else type.quantization.zero_point[0]
    return np.full(type.shape, zero, type.dtype.numpy)


def simulate(
    path: str | os.PathLike[str],
    inputs: Mapping[str, Array] | Sequence[Array],
    *,
    seed: int | None = None,
    latitude: Latitude = NONE,
    package: int | None = None,
) -> dict[str, Array]:
    """What the Edge TPU computes, on a simulated one; other operators of a model are not run.

    Args:
        path: a compiled model (``*_edgetpu.tflite``), a DarwiNN package or an executable.
        inputs: arrays by name, or in order, of the types that the model has.
        seed: randomize the order of engines and what memories hold at first.
        latitude: how late, how short and how irregular units are; random delays need a seed.
        package: which package of a model with several, counted from 0.

    Returns:
        The outputs by name.

    Raises:
        UsageError: a file that cannot be read, or arrays that do not fit the inputs.
        FormatError: a malformed file.
        SimulationError: the program deadlocks, depends on what nothing has written, or leaves
            something over.
        UnsupportedError: a package for a later runtime, for several chips, or for a batch.
    """
    program = EdgeTpuProgram.load(path, package)
    if not isinstance(inputs, Mapping):
        if len(inputs) != len(program.inputs):
            raise UsageError(
                f"{len(inputs)} arrays for {len(program.inputs)} inputs", where=program.path
            )
        inputs = dict(zip(program.inputs, inputs, strict=True))
    return dict(program.simulate(inputs, seed=seed, latitude=latitude).outputs)

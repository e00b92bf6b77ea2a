"""Programs of the Edge TPU with the tensors that they take and give."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, SimulationError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.targets.edgetpu.parameters.operands import STATE_SUFFIX
from fitzroy.driver.runtime.simulator import (
    MOST_IMAGES,
    Lockstep,
    PackageOutputs,
    PackageRun,
    SimulatedDevice,
)
from fitzroy.execution.estimate import CLOCK, HOST, Conditions, timed
from fitzroy.execution.hosts import Profile
from fitzroy.execution.source_names import steps_of_source
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.compilation_record import Step
from fitzroy.formats.darwinn import Layer, PackageFile
from fitzroy.formats.flat import ints
from fitzroy.formats.labels import labels_of
from fitzroy.hw_models.chips.hosts import LIBEDGETPU
from fitzroy.hw_models.edgetpu.latitude import NONE, Latitude
from fitzroy.linker.packages.container import Container, read_container
from fitzroy.report.elements import file_name
from fitzroy.report.notebook import facts, tensors
from fitzroy.report.run import Run


@dataclass(frozen=True, repr=False)
class Simulation:
    """What the simulated chip computed.

    Attributes:
        outputs: every output tensor by name.
        device: the bytes of every output as the device sends them, and all bytes it sent.
    """

    outputs: Mapping[str, Array]
    device: PackageOutputs

    def _repr_html_(self) -> str:
        """The outputs, for notebooks."""
        return tensors(self.outputs)

    def __repr__(self) -> str:
        outputs = (f"{name}: {x.dtype}{list(x.shape)}" for name, x in self.outputs.items())
        return f"<Simulation {', '.join(outputs)}>"


@dataclass(frozen=True, repr=False)
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
        steps: where the steps of the source's layers begin, if the model has a record of that.
        labels: names of classes that the model has.
    """

    path: str
    number: int
    package: PackageFile
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    states: Mapping[str, TensorType] = field(default_factory=dict)
    siblings: int = 1
    others: int = 0
    steps: tuple[Step, ...] = ()
    labels: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        inputs, outputs = (
            ", ".join(f"{name}: {type}" for name, type in side.items())
            for side in (self.inputs, self.outputs)
        )
        return f"<EdgeTpuProgram {self.number} of {self.path}: {inputs} -> {outputs}>"

    def _repr_html_(self) -> str:
        """Inputs and outputs, for notebooks."""
        rows = [(f"input {name}", str(type)) for name, type in self.inputs.items()]
        rows += [(f"output {name}", str(type)) for name, type in self.outputs.items()]
        return facts(f"Edge TPU program {self.number} of {file_name(self.path)}", rows)

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
                f"the model has {count} packages",
                where=name,
                hint="choose one, counted from 0: --package N",
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
        given: set[str] = set()
        others, labels = 0, dict[int, str]()
        if container.model is not None:
            labels = labels_of(container.model).labels
            operator = custom_op.extract(container.model, name)[number]
            inputs, outputs = operator.layers(main)
            subgraphs = container.model.subgraphs or []
            subgraph = subgraphs[operator.subgraph]
            found = subgraph.tensors or []
            tensors = {item.name or "": item for item in found}
            given = {found[index].name or "" for index in ints(subgraph.inputs)}
            others = sum(len(subgraph.operators or ()) for subgraph in subgraphs) - 1
        types = {
            layer.name or "": _tensor_type(layer, tensors.get(layer.name or ""))
            for layer in (*inputs, *outputs)
        }
        names = [layer.name or "" for layer in inputs]
        # What the caller of the model gives is no state, whatever its tensor says of itself.
        states = {item for item in names if item in tensors and tensors[item].is_variable} - given
        return cls(
            path=name,
            number=number,
            package=container.packages[number],
            inputs={item: types[item] for item in names if item not in states},
            outputs={layer.name or "": types[layer.name or ""] for layer in outputs},
            states={item: types[item] for item in names if item in states},
            siblings=count,
            others=others,
            steps=container.steps(number),
            labels=labels,
        )

    def named_by(self, path: str | os.PathLike[str]) -> EdgeTpuProgram:
        """The program with the names of its source's layers, told from their constants.

        Args:
            path: the model that it was compiled from.

        Raises:
            UsageError: the file cannot be read, or is no source of the program.
            LinkError: no instruction has the constants of an operator of it.
            FormatError: it is malformed.
        """
        name = os.fspath(path)
        source = import_model(tflite.read_model(read_file(name), name), path=name)
        with self.located():
            return replace(self, steps=steps_of_source(self.package, source))

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

    def simulate_images(
        self, inputs: Sequence[Mapping[str, Array]], *, seed: int | None = None
    ) -> Iterator[Simulation]:
        """Execute the package for several images, many at a time; each as on a chip of its own.

        Args:
            inputs: of each image, as for `simulate`.
            seed: as for `simulate`.

        Raises:
            UsageError: as `simulate`.
            SimulationError: as `simulate`.
            UnsupportedError: as `simulate`.
        """
        for first in range(0, len(inputs), MOST_IMAGES):
            with self.located():
                given = [self.encoded(image) for image in inputs[first : first + MOST_IMAGES]]
                answers = [*Lockstep(seed).run(self.package, given)]
            yield from map(self.finished, answers)

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
            FormatError: the script for the host is not that of the program.
            UnsupportedError: the program computes a batch.
        """
        device = SimulatedDevice(seed=seed, latitude=latitude)
        with self.located():
            return device.start(self.package, self.encoded(inputs), record=record)

    def encoded(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Elements of all inputs as bytes by layer name, as devices take them.

        Args:
            inputs: as for `simulate`.

        Raises:
            UsageError: an array of another type than the input.
        """
        values = {name: zeros(type) for name, type in self.states.items()} | dict(inputs)
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
            found = timed(
                outputs.stages,
                os.path.basename(self.path),
                {name: len(data) for name, data in outputs.buffers.items()},
                conditions,
                (remark,) if self.others else (),
            )
        return replace(found, steps=self.steps)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let faults of the program name its file.

        Raises:
            SimulationError: as raised inside, with the file in front of the place.
            FormatError: likewise.
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
        except FormatError as error:
            raise FormatError(
                error.what,
                path=error.path or self.path,
                offset=error.offset,
                table=error.table,
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


def zeros(type: TensorType) -> Array:
    """A tensor of real zeros."""
    zero = 0 if type.quantization is None else type.quantization.zero_point[0]
    budget.demand(type.nbytes, f"a state, which is {type},")
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

"""Packages on the simulator: what a driver does with a device, without a device."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, SimulationError, UnsupportedError, UsageError
from fitzroy.base.progress import counting
from fitzroy.base.types import Array
from fitzroy.driver.runtime.caching import ParameterCache
from fitzroy.driver.runtime.stage import Stage
from fitzroy.formats.darwinn import Description, Executable, ExecutableType, PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.course import Diverged
from fitzroy.hw_models.edgetpu.latitude import NONE, Latitude
from fitzroy.hw_models.edgetpu.machine import Doubt, Machine
from fitzroy.hw_models.edgetpu.memory import TILES
from fitzroy.hw_models.edgetpu.recording import Recording
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET, Descriptor, Event
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.linker.layouts import decode_output, encode_input
from fitzroy.linker.resolve.fields import SPACING, Buffer, buffer_addresses, patched
from fitzroy.linker.schedule.check import demand_script

_CONFIRMING_SEEDS = (1, 2, 3)
"""Contents of memories with which outputs must be the same that depend on unknown values."""

_IMAGE_BYTES = TILES * (BEAGLE.memories.narrow.size + BEAGLE.memories.wide.size)
"""Bytes of the chip's memories that every image of a lockstep has for itself."""

MOST_IMAGES = 32
"""Images that the simulated chip computes at a time."""

_WRITABLE = (Description.BASE_ADDRESS_OUTPUT_ACTIVATION, Description.BASE_ADDRESS_SCRATCH)


@dataclass(frozen=True)
class PackageOutputs:
    """What a package computed.

    Attributes:
        tensors: bytes of every output in the order of its elements, by layer name.
        buffers: bytes of every output as the device sends them, in the order of tiles.
        stream: all bytes that left the device, in order.
        instructions: bundles that the scalar core executed, as often as it did, parameter caching
            included; those that it hands to tiles count once.
        stages: the executables that ran, in order.
        doubt: what the program reads although nothing has written it, if by its flow of data, but
            not by its values, outputs depend on that; empty if they do not.
    """

    tensors: Mapping[str, Array]
    buffers: Mapping[str, Array]
    stream: bytes
    instructions: int
    stages: tuple[Stage, ...]
    doubt: str = ""


class SimulatedDevice:
    """A chip from power-up on, with the parameters that it caches.

    Args:
        seed: randomize the order of engines and what memories hold at first.
        latitude: how late, how short and how irregular its units are.
        steps: most steps of the scalar core in an executable, and as many to follow it before.
        images: how many images it computes in lockstep.

    Raises:
        UsageError: the latitude has delays, and there is no seed; or there are late sums and
            several images.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        latitude: Latitude = NONE,
        steps: int = STEP_BUDGET,
        images: int = 1,
    ) -> None:
        several = f" for {images} images" if images > 1 else ""
        budget.demand(images * _IMAGE_BYTES, f"the memories of the chip{several}")
        self._steps, self._latitude, self._images = steps, latitude, images
        self._seed = seed
        self.machine = self._powered()
        self._repeats = True
        self._cache = ParameterCache()
        # By identity: tables are compared by their fields.
        self._followed = WeakValueDictionary[int, Executable]()
        self._confirms = True

    def _powered(self) -> Machine:
        """The chip after power-up."""
        machine = Machine(seed=self._seed, latitude=self._latitude, images=self._images)
        machine.core.budget = self._steps
        return machine

    def run(self, package: PackageFile, inputs: Mapping[str, Array]) -> PackageOutputs:
        """Execute a package; its parameters are loaded first unless the chip has them.

        Args:
            package: the package.
            inputs: elements of every input tensor as bytes, by layer name.

        Raises:
            UsageError: an input is missing or unknown.
            FormatError: an input has another size than its layer, malformed instructions, or a
                script for the host that is not that of the program.
            CapacityError: the program wants a buffer of more than the budget has.
            UnsupportedError: the program computes a batch.
            SimulationError: the program fails, or ends before its outputs are complete.
        """
        return self.start(package, inputs).finish()

    def run_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> tuple[PackageOutputs, ...]:
        """Execute a package once for several images, each with the results that `run` has.

        The course of the program is the same for all images, so that it is followed once. At most
        as many images as the device has; less take as long.

        Args:
            package: the package.
            inputs: of each image, elements of every input tensor as bytes, by layer name.

        Raises:
            UsageError: as `run`, or no image, or too many.
            FormatError: as `run`.
            CapacityError: as `run`.
            UnsupportedError: as `run`.
            SimulationError: as `run`, or something that the chip has once differs between images.
        """
        most = self.machine.images
        if not 1 <= len(inputs) <= most:
            raise UsageError(f"there are {len(inputs)} images", reason=f"1 to {most} can be run")
        rest = [inputs[-1]] * (most - len(inputs))
        images = [*inputs, *rest]
        run = self._start(package, images, record=False, repeats=self._repeats)
        try:
            run.finish()
        except Diverged:
            # The chip is in the middle of a program, and must not meet the next one.
            self.machine, self._cache, self._repeats = self._powered(), ParameterCache(), False
            run = self._start(package, images, record=False)
            run.finish()
        return run.images[: len(inputs)]

    def start(
        self, package: PackageFile, inputs: Mapping[str, Array], *, record: bool = False
    ) -> PackageRun:
        """A run of a package that its caller advances; one at a time.

        Args:
            package: the package.
            inputs: elements of every input tensor as bytes, by layer name.
            record: whether stages get recordings.

        Raises:
            UsageError: as `run`.
            FormatError: as `run`.
            CapacityError: as `run`.
            UnsupportedError: as `run`.
        """
        if self.machine.images > 1:
            raise UsageError(f"the device computes {self.machine.images} images in lockstep")
        return self._start(package, [inputs], record=record)

    def _start(
        self,
        package: PackageFile,
        inputs: Sequence[Mapping[str, Array]],
        *,
        record: bool,
        repeats: bool = False,
    ) -> PackageRun:
        main = package.main
        if main.batch_size > 1:
            raise UnsupportedError(f"a program for a batch of {main.batch_size} is not simulated")
        for image in inputs:
            _demand_inputs(main, image)
        buffers = {
            name: np.stack([encode_input(layer, image[name]) for image in inputs])
            for name, layer in main.inputs.items()
        }
        caching = package.caching
        self._demand_scripts(executable for executable in (caching, main) if executable is not None)
        stages = []
        if caching is not None and self._cache.lacks(main, caching):
            stages.append(_stage(caching, "caching", record))
        stages.append(_stage(main, "main", record))
        pauses = self._pauses(package, stages, inputs, buffers, repeats=repeats)
        return PackageRun(self.machine, tuple(stages), pauses)

    def _demand_scripts(self, executables: Iterable[Executable]) -> None:
        """Refuse hints that are not those of the program, once per executable: it takes a while."""
        for executable in executables:
            if id(executable) not in self._followed:
                demand_script(executable, self._steps)
                self._followed[id(executable)] = executable

    def _pauses(
        self,
        package: PackageFile,
        stages: Sequence[Stage],
        inputs: Sequence[Mapping[str, Array]],
        buffers: Mapping[str, Array],
        *,
        repeats: bool,
    ) -> Generator[tuple[Stage, Event], None, tuple[PackageOutputs, ...]]:
        before = self.machine.core.steps
        self.machine.doubts = []
        main = stages[-1].executable
        self._cache.enter(main)
        for stage in stages[:-1]:
            yield from self._stage_pauses(stage, _Host.of(stage.executable, {}, len(inputs)))
            self._cache.add(stage.executable)
        host = _Host.of(main, buffers, len(inputs))
        try:
            yield from self._stage_pauses(stages[-1], host, main if repeats else None)
            host.demand_complete()
            doubts = self.machine.doubts
            if doubts and self._confirms:
                for number, image in enumerate(inputs):
                    self._confirm(package, image, host.sent(number), doubts[0])
        except SimulationError as error:
            if main.kind is not ExecutableType.EXECUTION_ONLY or package.caching is not None:
                raise
            raise SimulationError(
                error.what,
                reason=error.reason,
                where=error.where,
                hint="the executable relies on parameters that another one loads, and that one "
                "is not in the file",
            ) from None
        return tuple(
            PackageOutputs(
                {
                    name: decode_output(layer, host.outputs[name][number])
                    for name, layer in main.outputs.items()
                },
                {name: data[number] for name, data in host.outputs.items()},
                host.sent(number),
                self.machine.core.steps - before,
                tuple(stages),
                str(doubts[0].origin) if doubts else "",
            )
            for number in range(len(inputs))
        )

    def _confirm(
        self, package: PackageFile, inputs: Mapping[str, Array], stream: bytes, doubt: Doubt
    ) -> None:
        """Refuse outputs that change with what memories hold at first.

        Flow of data says that they may; a rectifier, for example, hides it from them.

        Raises:
            SimulationError: outputs differ.
        """
        for seed in _CONFIRMING_SEEDS:
            if seed == self._seed:
                continue
            other = SimulatedDevice(seed=seed, steps=self._steps)
            other._confirms = False
            other.machine.memory.trust()
            if other.run(package, inputs).stream != stream:
                raise doubt.error(f"; with --seed {seed}, the outputs are others")

    def _stage_pauses(
        self, stage: Stage, host: _Host, program: Executable | None = None
    ) -> Iterator[tuple[Stage, Event]]:
        self.machine.recording = stage.recording
        try:
            with counting(stage.executable.bundles) if stage.name == "main" else nullcontext():
                for pause in self.machine.serve(stage.chunks, host, program):
                    yield stage, pause.event
        finally:
            self.machine.recording = None


class Lockstep:
    """Simulated chips that execute packages for many images at a time, with what they cache.

    Programs in which the data of an image decides on more than data are executed for one image
    after the other.

    Args:
        seed: randomize the order of engines and what memories hold at first.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._devices: dict[int, SimulatedDevice] = {}

    def run(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> Iterator[PackageOutputs]:
        """Execute a package for each image.

        Args:
            package: the package.
            inputs: of each image, elements of every input tensor as bytes, by layer name.

        Raises:
            UsageError: as `SimulatedDevice.run`.
            FormatError: as `SimulatedDevice.run`.
            CapacityError: as `SimulatedDevice.run`.
            UnsupportedError: as `SimulatedDevice.run`.
            SimulationError: as `SimulatedDevice.run`.
        """
        for first in range(0, len(inputs), MOST_IMAGES):
            images = inputs[first : first + MOST_IMAGES]
            try:
                yield from self._together(package, images)
            except SimulationError:
                if len(images) == 1:
                    raise
                # If the fault is the program's, one image alone shows it.
                for image in images:
                    yield from self._together(package, [image])

    def _together(
        self, package: PackageFile, images: Sequence[Mapping[str, Array]]
    ) -> tuple[PackageOutputs, ...]:
        # A chip that was left in the middle of a program must not meet the next one.
        count = 1 if len(images) == 1 else max([len(images), *self._devices])
        device = self._devices.pop(count, None) or SimulatedDevice(seed=self._seed, images=count)
        outputs = device.run_images(package, images)
        # One chip for single images, and one for many.
        self._devices = {size: one for size, one in self._devices.items() if 1 in (size, count)}
        self._devices[count] = device
        return outputs


class PackageRun:
    """A package under way.

    Attributes:
        machine: the chip.
        stages: executables that run, in order.
        stage: the one under way; the first before the start, the last after the end.
        event: what the scalar core is about to do, None before the start and after the end.
        images: what came out for each image, empty before the end.
    """

    def __init__(
        self,
        machine: Machine,
        stages: tuple[Stage, ...],
        pauses: Generator[tuple[Stage, Event], None, tuple[PackageOutputs, ...]],
    ) -> None:
        self.machine = machine
        self.stages = stages
        self.stage = stages[0]
        self.event: Event | None = None
        self.images: tuple[PackageOutputs, ...] = ()
        self._pauses = pauses

    @property
    def outputs(self) -> PackageOutputs | None:
        """What came out for the first image, None before the end."""
        return self.images[0] if self.images else None

    def advance(self) -> bool:
        """Go on to the next thing that the scalar core asks of another unit or of the host.

        Returns:
            whether there is one; otherwise `outputs` are there.

        Raises:
            FormatError: malformed instructions.
            CapacityError: the program wants a buffer of more than the budget has.
            SimulationError: the program fails, or ends before its outputs are complete.
        """
        return self._next(stepping=True)

    def finish(self) -> PackageOutputs:
        """Go on to the end; returns the outputs of the first image.

        Raises:
            FormatError: as `advance`.
            CapacityError: as `advance`.
            SimulationError: as `advance`.
        """
        while self._next(stepping=False):
            pass
        if self.outputs is None:
            raise UsageError("the run has ended without outputs")
        return self.outputs

    def _next(self, *, stepping: bool) -> bool:
        self.event = None
        self.machine.stepping = stepping
        try:
            self.stage, self.event = next(self._pauses)
        except StopIteration as stop:
            # A run that is over, or that failed, stays so.
            self.images = self.images or stop.value or ()
            self.stage = self.stages[-1] if self.images else self.stage
            return False
        finally:
            self.machine.stepping = False
        return True


def _stage(executable: Executable, name: str, record: bool) -> Stage:
    addresses = buffer_addresses(executable)
    chunks = [
        disassemble(
            patched(
                b"" if stream.bitstream is None else stream.bitstream.tobytes(),
                stream.field_offsets or (),
                addresses,
            )
        )
        for stream in executable.instruction_bitstreams or ()
    ]
    return Stage(executable, name, chunks, Recording() if record else None)


@dataclass
class _Host:
    """Answers descriptors from buffers in memory.

    Attributes:
        executable: the executable.
        buffers: its buffers, in the order of their addresses.
        inputs: uint8[images, bytes] by layer name.
        images: how many there are.
        outputs: uint8[images, bytes] by layer name.
        stream: what the chip sent, uint8[images or 1, bytes] each.
        scratch: uint8[images, bytes].
        written: bool[bytes], which bytes of an output the chip sent.
    """

    executable: Executable
    buffers: tuple[Buffer, ...]
    inputs: Mapping[str, Array]
    images: int
    outputs: dict[str, Array] = field(default_factory=dict)
    stream: list[Array] = field(default_factory=list)
    scratch: Array = field(default_factory=lambda: np.zeros((1, 0), np.uint8))
    written: dict[str, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, executable: Executable, inputs: Mapping[str, Array], images: int) -> _Host:
        """The host of an executable."""
        return cls(executable, tuple(buffer_addresses(executable)), inputs, images)

    def __post_init__(self) -> None:
        scratch = self.executable.scratch_size_bytes
        self.scratch = _zeros(self.images, scratch, "the scratch buffer")
        for name, layer in self.executable.outputs.items():
            size = layer.size_bytes * layer.execution_count_per_inference
            self.outputs[name] = _zeros(self.images, size, f"the buffer of output {name!r}")
            self.written[name] = np.zeros(size, bool)

    def sent(self, image: int) -> bytes:
        """All bytes that left the device for an image, in order."""
        return b"".join([data[min(image, len(data) - 1)].tobytes() for data in self.stream])

    def demand_complete(self) -> None:
        """Refuse outputs that the program did not send.

        Raises:
            SimulationError: some byte is missing.
        """
        for name, written in self.written.items():
            if not written.all():
                raise SimulationError(
                    f"output {name!r} is not complete when the program ends",
                    reason=f"{int(written.sum())} of {len(written)} bytes were sent",
                )

    def _place(self, descriptor: Descriptor) -> tuple[Buffer, slice]:
        number, offset = descriptor.address >> SPACING, descriptor.address & (1 << SPACING) - 1
        if not 1 <= number <= len(self.buffers):
            raise SimulationError(
                f"the program asks for {descriptor.size} bytes at {descriptor.address:#x}",
                reason="no buffer is there",
                where=_where(descriptor),
            )
        return self.buffers[number - 1], slice(offset, offset + descriptor.size)

    def _buffer(self, buffer: Buffer, descriptor: Descriptor) -> Array:
        """uint8[images or 1, bytes]."""
        found: Array | None
        match buffer.desc:
            case Description.BASE_ADDRESS_INPUT_ACTIVATION:
                found = self.inputs.get(buffer.name)
            case Description.BASE_ADDRESS_OUTPUT_ACTIVATION:
                found = self.outputs.get(buffer.name)
            case Description.BASE_ADDRESS_SCRATCH:
                found = self.scratch
            case Description.BASE_ADDRESS_PARAMETER:
                parameters = self.executable.parameters
                found = None if parameters is None else parameters[None]
        if found is None:
            raise SimulationError(
                f"the program uses {buffer}",
                reason="the package has no such buffer",
                where=_where(descriptor),
            )
        return found

    def send(self, descriptor: Descriptor) -> Array:
        """Bytes of an input, of parameters or of the scratch buffer."""
        buffer, place = self._place(descriptor)
        held = self._buffer(buffer, descriptor)
        data = held[:, place]
        if data.shape[1] < descriptor.size:
            raise SimulationError(
                f"the program asks for {descriptor.size} bytes of {buffer} from byte {place.start}",
                reason=f"it has {held.shape[1]}",
                where=_where(descriptor),
            )
        return data.copy()

    def receive(self, descriptor: Descriptor, data: Array) -> None:
        """Take bytes of an output or of the scratch buffer."""
        buffer, place = self._place(descriptor)
        data = np.atleast_2d(data)
        if buffer.desc not in _WRITABLE:
            raise SimulationError(
                f"the program writes {data.shape[1]} bytes to {buffer}",
                reason="the host gives that buffer only to be read",
                where=_where(descriptor),
            )
        target = self._buffer(buffer, descriptor)
        if target[:, place].shape[1] < data.shape[1]:
            raise SimulationError(
                f"the program sends {data.shape[1]} bytes of {buffer} from byte {place.start}",
                reason=f"it has {target.shape[1]}",
                where=_where(descriptor),
            )
        target[:, place] = data
        if buffer.desc is Description.BASE_ADDRESS_OUTPUT_ACTIVATION:
            self.written[buffer.name][place] = True
        self.stream.append(data)

    def interrupt(self, number: int) -> None:
        """Take an interrupt: nothing waits for it here."""


def _demand_inputs(main: Executable, inputs: Mapping[str, Array]) -> None:
    """Refuse inputs that are not those of a program.

    Raises:
        UsageError: one is missing, or unknown.
    """
    layers = main.inputs
    unknown = sorted(set(inputs) - set(layers))
    missing = sorted(set(layers) - set(inputs))
    if unknown or missing:
        raise UsageError(
            f"no input {unknown[0]!r}" if unknown else f"input {missing[0]!r} is missing",
            reason=f"the package has {', '.join(map(repr, layers))}",
        )


def _zeros(images: int, count: int, what: str) -> Array:
    """A buffer that is made for a program: uint8[images, count]; no file has to hold it.

    Raises:
        FormatError: its size is negative.
        CapacityError: with what is noted of it, it is more than the budget has.
    """
    if count < 0:
        raise FormatError(f"{count} bytes for {what}")
    budget.demand((images + 1) * count, what)
    return np.zeros((images, count), np.uint8)


def _where(descriptor: Descriptor) -> str:
    return f"bundle {descriptor.bundle} of chunk {descriptor.chunk}"

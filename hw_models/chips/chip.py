"""What describes a chip of the Edge TPU family."""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.hw_models.chips.facts import Part, Quantity
from fitzroy.hw_models.chips.hosts import Driver, Host
from fitzroy.hw_models.chips.usb import UsbPort


@dataclass(frozen=True)
class TileGrid(Part):
    """Tiles: id = columns * row + column; row 0 is north, column 0 is west."""

    rows: Quantity[int] = Quantity("rows of tiles")
    columns: Quantity[int] = Quantity("columns of tiles")

    @property
    def count(self) -> int:
        """Number of tiles."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Compute(Part):
    """Arithmetic of a tile."""

    lanes: Quantity[int] = Quantity("output channels computed at the same time")
    multipliers: Quantity[int] = Quantity("8 x 8 bit multipliers of a lane")
    nlu_segments: Quantity[int] = Quantity("segments of the table of the non-linear unit")


@dataclass(frozen=True)
class Memory(Part):
    """A memory of equal elements; addresses count elements."""

    elements: Quantity[int] = Quantity("number of elements", "element")
    element_bytes: Quantity[int] = Quantity("size of an element", "byte")

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class Memories(Part):
    """Memories of every tile, then those that exist once.

    Attributes:
        narrow: activations, in words of 32 bits.
        wide: weights, staging and partial sums, in rows of 4 bytes per lane.
        scaling: scales and biases of two output blocks, in entries of 2 lanes.
        scalar: memory of the scalar core, in words.
        parameter_buffer: stream buffer of parameters.
        activation_buffer: stream buffer of input activations.
        instruction: instruction memory, in bundles.
    """

    narrow: Memory
    wide: Memory
    scaling: Memory
    scalar: Memory
    parameter_buffer: Memory
    activation_buffer: Memory
    instruction: Memory


@dataclass(frozen=True)
class ScalarCore(Part):
    """The scalar core."""

    registers: Quantity[int] = Quantity("registers of 32 bits")
    predicates: Quantity[int] = Quantity("predicate registers")
    fifo_words: Quantity[int] = Quantity(
        "words of scalar memory, from 0, that serve infeeds and outfeeds as a fifo", "word"
    )


@dataclass(frozen=True)
class Limits(Part):
    """What a program must respect beyond the widths of fields."""

    loop_iterations: Quantity[int] = Quantity("most iterations of a loop of a tensor operation")
    chunk_bundles: Quantity[int] = Quantity(
        "longest chunk of instructions, start and end included", "bundle"
    )
    parameter_alignment: Quantity[int] = Quantity(
        "operands in the parameter blob start at multiples of this", "byte"
    )
    host_output_unit: Quantity[int] = Quantity("unit of an outfeed to the host", "byte")
    address_alignment: Quantity[int] = Quantity(
        "alignment of buffers that the device addresses", "byte"
    )
    ring_channels: Quantity[int] = Quantity("channels of the ring bus")


@dataclass(frozen=True)
class Clocks(Part):
    """Frequencies of one performance level."""

    core_mhz: Quantity[float] = Quantity("clock of scalar core and tiles", "MHz")
    axi_mhz: Quantity[float] = Quantity("clock of the on-chip bus", "MHz")
    mcu_mhz: Quantity[float] = Quantity("clock of the USB microcontroller", "MHz")


@dataclass(frozen=True)
class Thermometer(Part):
    """The temperature sensor, whose readings fall as the chip becomes hot."""

    zero: Quantity[int] = Quantity("reading at the offset")
    offset: Quantity[float] = Quantity("temperature at that reading", "degree Celsius")
    step: Quantity[float] = Quantity("temperature between two readings", "degree Celsius")

    def celsius(self, reading: int) -> float:
        """The temperature of a reading."""
        return self.offset + (self.zero - reading) * self.step

    def reading(self, celsius: float) -> int:
        """The nearest reading of a temperature, which may be beyond those of the register."""
        return round(self.zero - (celsius - self.offset) / self.step)


@dataclass(frozen=True)
class Timing(Part):
    """How long things take on the chip, in cycles of its core clock."""

    op_step: Quantity[float] = Quantity("step of a tensor operation", "cycle")
    resize_step: Quantity[float] = Quantity("step of a resize", "cycle")
    ring_row: Quantity[float] = Quantity("row on the ring", "cycle")
    mesh_word: Quantity[float] = Quantity("word on a mesh link", "cycle")
    mesh_fill_word: Quantity[float] = Quantity("word of a mesh fill", "cycle")
    parameter_unit: Quantity[float] = Quantity("64 bytes through a parameter infeed", "cycle")
    activation_unit: Quantity[float] = Quantity(
        "8 bytes through an activation infeed, or an outfeed to the host", "cycle"
    )
    fifo_word: Quantity[float] = Quantity("word through an infeed of scalar memory", "cycle")
    conversion_word: Quantity[float] = Quantity(
        "word between narrow and wide memory, either way", "cycle"
    )
    scalar_bundle: Quantity[float] = Quantity("bundle of the scalar core", "cycle")
    chunk_latency: Quantity[float] = Quantity(
        "from weights on the ring to the first step that uses them", "cycle"
    )
    phase: Quantity[float] = Quantity("fence of all tiles between two phases", "cycle")
    first_output: Quantity[float] = Quantity(
        "from the last input accepted to the first output of a trivial program", "us"
    )
    completion: Quantity[float] = Quantity("from the last output to the completion event", "us")
    parameters_loaded: Quantity[float] = Quantity(
        "from the last parameter byte to the completion event", "us"
    )
    host_fifo: Quantity[int] = Quantity("data in transit between host and chip", "byte")
    long_chunk: Quantity[int] = Quantity(
        "size of instructions above which the USB port pauses", "byte"
    )
    long_chunk_pause: Quantity[float] = Quantity("duration of this pause", "us")
    csr_access: Quantity[float] = Quantity("access to a register over USB", "us")
    open: Quantity[float] = Quantity("all register accesses of opening", "ms")
    close: Quantity[float] = Quantity("all register accesses of closing", "ms")
    dfu_block: Quantity[float] = Quantity("block of a firmware download", "ms")


@dataclass(frozen=True)
class Chip(Part):
    """A chip.

    Attributes:
        name: name in packages and on the command line.
        tiles: the grid.
        compute: arithmetic of a tile.
        memories: sizes of memories.
        scalar: the scalar core.
        limits: limits of programs.
        clocks: performance levels, fastest first.
        thermometer: its temperature sensor.
        timing: durations on the chip.
        hosts: measured hosts.
        drivers: drivers of hosts.
        usb: the USB port.
    """

    name: str
    tiles: TileGrid
    compute: Compute
    memories: Memories
    scalar: ScalarCore
    limits: Limits
    clocks: dict[str, Clocks]
    thermometer: Thermometer
    timing: Timing
    hosts: dict[str, Host]
    drivers: dict[str, Driver]
    usb: UsbPort

"""What a report is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from fitzroy.base.display import Displayed
from fitzroy.formats.compilation_record import Step
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.chip import Chip
from fitzroy.hw_models.edgetpu.occupancy import Occupancy
from fitzroy.hw_models.edgetpu.timeline import Timeline


@dataclass(frozen=True, repr=False)
class Run(Displayed):
    """One inference of a compiled model on the simulated chip.

    Attributes:
        name: name of the model, as the user gave it; not trusted.
        timeline: when everything happened.
        occupied: finds out what the tiles' memories held, which takes a while.
        instructions: bytes of instructions that the host sends for the inference.
        streamed: bytes of parameters that the host sends for the inference.
        cached: bytes of parameters that stay on the chip from inference to inference.
        inputs: bytes that the host sends for each input, by name.
        outputs: bytes that the chip sends for each output, by name.
        chip: the chip.
        notes: remarks that belong beside the figures.
        positions: positions in y and x of all outputs, which the host puts in order.
        steps: where the steps of layers begin, if that is known.
    """

    DISPLAY: ClassVar[str] = "fitzroy.report.html:displayed"

    name: str
    timeline: Timeline
    occupied: Callable[[], Occupancy]
    instructions: int
    streamed: int
    cached: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    chip: Chip = BEAGLE
    notes: tuple[str, ...] = field(default=())
    positions: int = 0
    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Run of {self.name}: {self.timeline.total:,.1f} µs on {self.timeline.host}, "
            f"{self.timeline.cycles:,.0f} cycles>"
        )

    @property
    def occupancy(self) -> Occupancy:
        """What the tiles' memories held."""
        return self.occupied()

    @property
    def chip_time(self) -> float:
        """Microseconds from the start of the program to its end."""
        return self.timeline.cycles / self.timeline.core_mhz

    @property
    def host_time(self) -> float:
        """Microseconds in which the program does not run."""
        return self.timeline.total - self.chip_time

    @property
    def peak_macs(self) -> int:
        """Products per cycle of the whole chip."""
        return self.chip.tiles.count * self.chip.compute.lanes * self.chip.compute.multipliers

    @property
    def ring_rate(self) -> float:
        """Bytes per cycle that the ring moves at most."""
        return self.chip.memories.wide.element_bytes / self.chip.timing.ring_row

    @property
    def link_rate(self) -> float | None:
        """Bytes per microsecond from host to chip, None if no transfer of the run tells."""
        if self.timeline.link is not None:
            return self.timeline.link
        rates = [
            transfer.size / (transfer.end - transfer.begin)
            for transfer in self.timeline.transfers
            if transfer.kind in ("parameters", "input") and transfer.end > transfer.begin
        ]
        return max(rates, default=None)

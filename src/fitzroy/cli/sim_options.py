"""Options of ``fitzroy sim``: what is simulated, what is said of time, where it stops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli import chip_state, timing
from fitzroy.cli.help import LatitudeOption, PackageNumber, Seed, SourceFile, Written

if TYPE_CHECKING:
    from fitzroy.hw_models.edgetpu.latitude import Latitude


@dataclass(frozen=True)
class SimOutputs(Written):
    """Where outputs of a simulated chip go.

    Attributes:
        raw_output: file for all bytes that leave the device.
    """

    panel: ClassVar[str] = "Outputs"

    raw_output: Annotated[
        Path | None,
        typer.Option(
            "--raw-output",
            metavar="Y.raw",
            help="Write all bytes that leave the device, in order.",
            show_default=False,
        ),
    ] = None

    @property
    def files(self) -> dict[str, Path | None]:
        """Files of outputs by option."""
        return {"--output": self.output, "--raw-output": self.raw_output}


@dataclass(frozen=True)
class Chip:
    """What is simulated, and how.

    Attributes:
        package: number of the package.
        seed: what randomizes.
        latitude: how late and how irregular units are.
        source: the model that the program was compiled from.
    """

    panel: ClassVar[str] = "Simulated chip"

    package: PackageNumber = None
    seed: Seed = None
    latitude: LatitudeOption = None
    source: SourceFile = None

    def freedom(self) -> Latitude:
        """How late and how irregular units are.

        Raises:
            UsageError: the text says nothing that is known, or delays without a seed.
        """
        from fitzroy.hw_models.edgetpu.latitude import Latitude

        found = Latitude.parse(self.latitude or "none")
        if found.delays and self.seed is None:
            raise UsageError("--latitude with delays goes with --seed", reason="delays are random")
        return found


@dataclass(frozen=True)
class Times:
    """What is said of time.

    Attributes:
        functional: whether to leave time out.
        clock: performance level.
        usb: generation of the host's link.
        host: the host.
        driver: what moves the data.
        trace: file for a trace.
        report: file for a report.
    """

    functional: timing.Functional = False
    clock: timing.Clock = None
    usb: timing.Usb = None
    host: timing.HostName = None
    driver: timing.DriverName = None
    trace: timing.TraceFile = None
    report: timing.ReportFile = None

    @property
    def files(self) -> dict[str, Path | None]:
        """Files by option."""
        return {"--trace": self.trace, "--report": self.report}

    @property
    def given(self) -> dict[str, object]:
        """All values by option."""
        speed = {"--clock": self.clock, "--usb": self.usb, "--host": self.host}
        return {**speed, "--driver": self.driver, **self.files}


@dataclass(frozen=True)
class Stops:
    """Where the program stops, and what is shown of memories.

    Attributes:
        stop_at: the place.
        dump: memories and their files.
        tile: the only tile to show.
    """

    panel: ClassVar[str] = "Stops and memories"

    stop_at: Annotated[
        str | None,
        typer.Option(
            "--stop-at",
            metavar="PLACE",
            help="Stop before CHUNK:BUNDLE, BUNDLE of chunk 0, or the last fence of phase:N, and "
            "show the state of all units. The prefix caching: means the executable that loads "
            "parameters.",
            show_default=False,
        ),
    ] = None
    dump: Annotated[
        list[str] | None,
        typer.Option(
            "--dump",
            metavar="MEMORY=FILE",
            help="Write narrow, wide, scaling or scalar memory at the stop or the end to FILE.npy, "
            "and a mask of written words to FILE_written.npy; or both to FILE.npz. May be given "
            "several times.",
            show_default=False,
        ),
    ] = None
    tile: Annotated[
        int | None,
        typer.Option(
            "--tile",
            metavar="N",
            min=0,
            help="Show and dump only this tile.",
            show_default=False,
        ),
    ] = None

    def dumps(self) -> list[chip_state.Dump]:
        """Memories to write.

        Raises:
            UsageError: no such memory, place or tile, or a tile without anything to show.
        """
        from fitzroy.driver.runtime.debugger import Breakpoint, check_tile

        found = [chip_state.Dump.parse(item) for item in self.dump or ()]
        if self.stop_at is not None:
            Breakpoint.parse(self.stop_at)
        if self.tile is not None:
            check_tile(self.tile)
        if self.tile is not None and self.stop_at is None and not found:
            raise UsageError("--tile goes with --stop-at or --dump")
        return found

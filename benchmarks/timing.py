"""What the timing model says, beside published measurements of real devices.

The measurements are those of ``beagle/calibration.json`` next to the corpus, and which of them
constants may be fitted to, and which judge the model, is what ``calibration.md`` beside it says.
A row counts where its program is in the corpus, byte by byte, and a model of its host exists.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path, PurePath
from typing import Any

from tests.support import corpus_path

from benchmarks.support import write_results
from fitzroy.base.errors import UsageError
from fitzroy.driver.runtime.stage import Stage
from fitzroy.execution.estimate import recorded
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.timeline import Timeline
from fitzroy.hw_models.edgetpu.timing import simulate

MEAN_ERROR, LARGEST_ERROR = 5.0, 15.0
"""Bounds over the rows that judge, in percent."""

JUDGE = re.compile(
    r"model_conv_\w+x(10|25|75)_edgetpu|model_dense_|model_stride_|model_padding_(?!stride)"
    r"|posenet_mobilenet_v1_075_481_641|deeplabv3_mnv2_pascal|edgetpu \(git blob.*mobilenet_v2"
    r"|_20_20_3_1_|_40_40_1_1_"
)
CALIBRATE = re.compile(r"model_conv_\w+x50_edgetpu|model_mobilenet_v2_|model_padding_stride_")
DIFFERENCE = re.compile(r"_20_20_3_1_|_40_40_1_1_")
"""Programs of an unknown host: only the difference between a large and a small one counts."""

HOSTS = {
    ("Jetson Nano, 10W mode", "USB3", 500): ("jetson_nano_10w_usb3", "max"),
    ("Jetson Nano, 10W mode", "USB2", 500): ("jetson_nano_10w_usb2", "max"),
    ("Jetson Nano, 5W mode", "USB3", 500): ("jetson_nano_5w_usb3", "max"),
    ("Dev Board (i.MX8M)", "PCIe", 500): ("dev_board_pcie", "max"),
    # The host is not named; its rows are compared with one that has the same link.
    ("not stated; pyusb/libusb driver", "USB3", 250): ("jetson_nano_10w_usb3", "high"),
}
"""Host model and performance level by host, link and clock of a measurement."""

TRACED = {("Jetson Nano 10W", "USB3", 500): ("jetson_nano_10w_usb3", "max")}
"""The same for USB traces."""

_UNKNOWN_HOST = ("high", "jetson_nano_10w_usb3")
"""Clock of the programs of an unknown host, and a host whose overhead goes into no difference."""

_INFERENCE, _TRACE = "inference_ms", "last_bulk_out_complete_to_first_bulk_in"
_FAST = ("low", "dev_board_pcie")
"""Clock and host with which the chip never waits for the host."""


@dataclass(frozen=True)
class Row:
    """A measurement, and what the model says.

    Attributes:
        part: ``judge``, ``calibrate`` or ``other``.
        model: name of the program.
        host: host model.
        clock: performance level.
        measured: milliseconds.
        modelled: milliseconds.
    """

    part: str
    model: str
    host: str
    clock: str
    measured: float
    modelled: float

    @property
    def error(self) -> float:
        """Difference in percent of the measurement."""
        return 100 * (self.modelled / self.measured - 1)


class Program:
    """A compiled model of the corpus; its course does not depend on data.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """Its name."""
        return short(self.path.name)

    @cached_property
    def stage(self) -> Stage:
        """Its main executable with a recording."""
        return recorded(EdgeTpuProgram.load(self.path).package.main)

    def time(self, clock: str, host: str) -> Timeline:
        """One inference."""
        recording = self.stage.recording
        if recording is None:
            raise UsageError("the run was not recorded", where=str(self.path))
        return simulate(
            recording,
            self.stage.chunk_sizes,
            clock=clock,
            host=host,
            pieces=self.stage.positions,
        )


def calibration_path() -> Path:
    """Where the measurements should be."""
    return corpus_path().parent / "beagle" / "calibration.json"


def calibration() -> dict[str, Any]:
    """The measurements.

    Raises:
        UsageError: they are not next to the corpus.
    """
    path = calibration_path()
    if not path.is_file():
        raise UsageError(
            f"no measurements at {path}",
            hint="they belong into the folder beagle next to the corpus (FITZROY_CORPUS)",
        )
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def part_of(file: str) -> str:
    """Whether rows of a program judge the model, calibrate it, or neither."""
    if JUDGE.search(file):
        return "judge"
    return "calibrate" if CALIBRATE.search(file) else "other"


def programs(content: Mapping[str, Any]) -> dict[int, Program]:
    """Programs of the measurements that are in the corpus, by their index among the files."""
    sums = {
        hashlib.md5(path.read_bytes()).hexdigest(): path
        for path in sorted(corpus_path().glob("**/*edgetpu*.tflite"))
    }
    return {
        number: Program(sums[file["md5"]])
        for number, file in enumerate(content["files"])
        if file["md5"] in sums
    }


def short(file: str) -> str:
    """The name of a program, from that of its file."""
    return PurePath(file.split()[-1].strip("()")).name.removesuffix("_edgetpu.tflite")


def place(content: Mapping[str, Any], number: int) -> tuple[str, str, int]:
    """Host, link and clock in MHz of a host of the measurements."""
    _, host, link, mhz = content["hosts"][number]
    return host, link.split()[0], mhz


def measurements(content: Mapping[str, Any]) -> Iterator[tuple[int, int, float]]:
    """File, host and milliseconds of each inference whose program has a name."""
    for row in content["rows"]:
        if row[1] is not None and content["quantities"][row[3]] == [_INFERENCE, "ms"]:
            yield row[1], row[2], row[4]


def compare(
    content: Mapping[str, Any],
    known: Mapping[int, Program],
    parts: Sequence[str] = ("judge", "calibrate", "other"),
    progress: Callable[[str], None] = lambda step: None,
) -> list[Row]:
    """Every measurement of some parts that can be compared, and what the model says."""
    rows = []
    for file, host, measured in measurements(content):
        name = content["files"][file]["file"]
        part, where = part_of(name), HOSTS.get(place(content, host))
        if file not in known or where is None or part not in parts or DIFFERENCE.search(name):
            continue
        progress(f"{short(name)}, {where[0]}")
        modelled = known[file].time(where[1], where[0]).total / 1000
        rows.append(Row(part, short(name), *where, measured, modelled))
    return rows


def differences(
    content: Mapping[str, Any], known: Mapping[int, Program]
) -> list[dict[str, object]]:
    """Programs on one host that nothing is known of: how much longer one takes than the other."""
    rows = sorted(
        (host, -measured, file)
        for file, host, measured in measurements(content)
        if file in known and DIFFERENCE.search(content["files"][file]["file"])
    )
    found: list[dict[str, object]] = []
    for (host, slow, larger), (other, fast, smaller) in pairwise(rows):
        if host == other:
            modelled = [known[file].time(*_UNKNOWN_HOST).total / 1000 for file in (larger, smaller)]
            found.append(
                {
                    "larger": known[larger].name,
                    "smaller": known[smaller].name,
                    "measured": fast - slow,
                    "modelled": modelled[0] - modelled[1],
                }
            )
    return found


def missing(content: Mapping[str, Any], known: Mapping[int, Program]) -> dict[str, Any]:
    """Rows that judge and cannot be compared: programs, and rows by hosts that have no model."""
    absent: set[str] = set()
    hosts: Counter[str] = Counter()
    for file, host, _ in measurements(content):
        name = content["files"][file]["file"]
        if part_of(name) != "judge":
            continue
        if file not in known:
            absent.add(short(name))
        elif place(content, host) not in HOSTS:
            hosts["{}, {}, {} MHz".format(*place(content, host))] += 1
    return {"programs": sorted(absent), "hosts": dict(hosts)}


def traces(content: Mapping[str, Any], known: Mapping[int, Program]) -> list[dict[str, object]]:
    """Time on the chip from the last input to the first output, where it was traced, in us."""
    rows = sorted(
        (row[1], row[2], row[4])
        for row in content["rows"]
        if row[1] in known and content["quantities"][row[3]][0] == _TRACE
    )
    found: list[dict[str, object]] = []
    base = BEAGLE.timing.first_output
    for (file, host), group in groupby(rows, key=lambda row: row[:2]):
        where = TRACED.get(place(content, host))
        if where is None:
            continue
        measured = [value - base for _, _, value in group]
        timeline = known[file].time(where[1], where[0])
        sent = max(t.end for t in timeline.transfers if t.kind in ("instructions", "input"))
        first = min(t.begin for t in timeline.transfers if t.kind == "output")
        found.append(
            {
                "model": known[file].name,
                "lowest": min(measured),
                "highest": max(measured),
                "modelled": first - sent,
            }
        )
    return found


def phase_model(content: Mapping[str, Any]) -> list[dict[str, object]]:
    """Cycles on the chip alone, beside those of the phase model of ``calibration.md``."""
    fields = re.search(r"work: \[([^\]]+)\]", content["about"])
    if fields is None:
        raise UsageError("the measurements do not say what they are", where=str(calibration_path()))
    columns = [name.strip() for name in fields.group(1).split(",")]
    files = {path.name: path for path in sorted(corpus_path().glob("**/*edgetpu*.tflite"))}
    found = []
    for values in content["work"]:
        work = dict(zip(columns, values, strict=True))
        path = files.get(PurePath(work["file"]).name)
        if path is None or work["pkg"] or work["model_cycles_all"] is None:
            continue
        program = Program(path)
        # A program of the same name may be another build.
        if sum(program.stage.chunk_sizes) == work["instr_bytes"]:
            found.append(
                {
                    "model": program.name,
                    "phases": work["model_cycles_all"],
                    "cycles": program.time(*_FAST).cycles,
                }
            )
    return found


def summary(rows: Iterable[Row]) -> dict[str, float]:
    """Number of rows, mean and largest error."""
    errors = [abs(row.error) for row in rows]
    return {"rows": len(errors), "mean": statistics.mean(errors), "largest": max(errors)}


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/timing.json``.

    Args:
        progress: called with the name of each row.
        repeats: of no effect, the model has no noise.

    Returns:
        bounds that were exceeded.

    Raises:
        UsageError: there is no corpus, or there are no measurements.
    """
    del repeats
    content = calibration()
    known = programs(content)
    rows = compare(content, known, progress=progress)
    judged = summary(row for row in rows if row.part == "judge")
    progress("traces and the phase model")
    write_results(
        "timing",
        {
            "bounds": {"mean": MEAN_ERROR, "largest": LARGEST_ERROR},
            "judged": judged,
            "rows": [asdict(row) | {"error": row.error} for row in rows],
            "missing": missing(content, known),
            "differences": differences(content, known),
            "traces": traces(content, known),
            "phase_model": phase_model(content),
        },
    )
    faults = []
    if judged["mean"] > MEAN_ERROR:
        faults.append(f"timing: mean error {judged['mean']:.1f} %, bound {MEAN_ERROR:g} %")
    if judged["largest"] > LARGEST_ERROR:
        faults.append(f"timing: error of {judged['largest']:.1f} %, bound {LARGEST_ERROR:g} %")
    return faults

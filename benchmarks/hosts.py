"""What the timing model says of hosts, beside published times; and the constants that they give.

The times are those of google-coral/cts in ``study/timing/rows.csv`` next to the corpus, with the
packages that were measured beside them, and rows of ``beagle/calibration.json`` of hosts and
programs that `benchmarks.timing` does not cover. Folders with more packages may be given in the
environment, ``FITZROY_PACKAGES``; programs are known by their bytes.

Of models with operators that the host executes, its CPU time beyond the least of its rows is taken
off, so that constants of transfers are told from those of operators. Such models are then predicted
as a whole (`Whole`).
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import corpus_path

from benchmarks import timing
from benchmarks.support import write_results
from benchmarks.timing import Program, calibration, part_of
from fitzroy.base.errors import UsageError
from fitzroy.compiler.frontends.loading import load
from fitzroy.execution.host_operators import host_time
from fitzroy.execution.programs import EdgeTpuProgram
from fitzroy.formats.custom_op import CUSTOM_CODE
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.hosts import LARGE_TRANSFER
from fitzroy.measurement.calibration import Sample, fit, least_changes, terms

PACKAGES = "FITZROY_PACKAGES"
"""Environment variable with more folders of packages."""

MEAN_ERROR, LARGEST_ERROR = 3.0, 10.0
"""Aims over rows that are predicted without having been fitted, in percent."""

NAMES = {
    "Coral Dev Board (i.MX 8M, PCIe)": "dev_board_pcie",
    "Coral Dev Board Mini (MT8167S, USB 2.0 480M)": "dev_board_mini_usb2",
    "MacOS laptop 4x2500 MHz (USB Accelerator)": "mac_usb3",
    "Windows desktop 12x3696 MHz (USB and 2 PCIe TPUs present)": "windows_desktop",
    "Linux x86_64 workstation 72x3700 MHz (USB stick, 5000M)": "x86_workstation_usb3",
}
"""Host by its name in the rows."""

FITTED = {
    "dev_board_pcie": ("fixed", "output_byte"),
    "dev_board_mini_usb2": ("fixed", "link", "output_byte"),
    "mac_usb3": ("fixed", "large", "output_byte"),
    "windows_desktop": ("fixed", "large", "output_byte"),
    "x86_workstation_usb3": ("fixed", "large", "output_byte"),
}
"""Constants that the rows of a host are fitted to; its rate of parameters is one more."""

SUBSTITUTES = {
    "ssd_mobilenet_v2_coco_quant_no_nms": (
        "ssd_mobilenet_v2_coco_segment_0_of_2",
        "ssd_mobilenet_v2_coco_segment_1_of_2",
    ),
}
"""Programs one after the other that do what a model does whose package is not at hand."""

OLDER = {
    ("Xeon E5-1650 v3", "USB3", 500): ("x86_xeon_e5_usb3", "max"),
    ("Dev Board (i.MX8M)", "PCIe", 500): ("dev_board_pcie", "max"),
    ("Raspberry Pi 3B", "USB2", 250): ("raspberry_pi_3_usb2", "high"),
    ("Raspberry Pi 3B+", "USB2", 250): ("raspberry_pi_3_usb2", "high"),
    ("Raspberry Pi 4B", "USB3", 250): ("raspberry_pi_4_usb3", "high"),
    ("Raspberry Pi 5, rusb replay", "USB3", 250): ("raspberry_pi_5_usb3", "high"),
}
"""Host and performance level by host, link and clock of older rows."""

TUNED_HOSTS = ("jetson_nano_5w_usb3", "raspberry_pi_3_usb2", "raspberry_pi_4_usb3")
"""Hosts all older rows of which constants were chosen with in view: none of them judges."""

TUNED_MODELS = re.compile(r"model_dense_")
"""Models that the limit of `long_chunk`, and what instructions cost, were chosen with."""

_SUFFIX = "_edgetpu.tflite"


@dataclass(frozen=True)
class Row:
    """A published time, and what the model says.

    Attributes:
        part: ``fitted``, ``held out`` or ``other``.
        model: the model.
        host: the host.
        clock: performance level.
        measured: milliseconds, of operators on the Edge TPU.
        modelled: milliseconds; None if the package is not at hand.
        left_out: milliseconds with constants fitted to the other rows of the host, or None.
        note: what else is to be said.
    """

    part: str
    model: str
    host: str
    clock: str
    measured: float
    modelled: float | None = None
    left_out: float | None = None
    note: str = ""

    @property
    def judging(self) -> float | None:
        """Error in percent of a prediction that the row had no part in; None if there is none."""
        predicted = self.left_out if self.part == "fitted" else self.modelled
        if self.part == "other" or predicted is None:
            return None
        return 100 * (predicted / self.measured - 1)


@dataclass(frozen=True)
class Whole:
    """A published time of a model with operators on the host, and the estimate of all of it.

    Attributes:
        part: ``fitted`` if the constants for operators were made with the row, else ``held out``.
        model: the model.
        host: the host.
        measured: milliseconds.
        chip: milliseconds of the parts on the Edge TPU, transfers included, as modelled.
        operators: milliseconds of operators on the host, as modelled.
        from_other: milliseconds of them if their constants are those of the workstation, scaled to
            fit the other model of the host, or None.
    """

    part: str
    model: str
    host: str
    measured: float
    chip: float
    operators: float
    from_other: float | None = None

    @property
    def error(self) -> float:
        """Error of the estimate in percent."""
        return 100 * ((self.chip + self.operators) / self.measured - 1)

    @property
    def judging(self) -> float | None:
        """Error in percent of an estimate that the row had no part in; None if there is none."""
        if self.part == "held out":
            return self.error
        if self.from_other is None:
            return None
        return 100 * ((self.chip + self.from_other) / self.measured - 1)


WORKSTATION = "x86_workstation_usb3"
"""Host whose constants for operators are scaled to others, to see how far that carries."""

WITH_NMS = {
    "x86_xeon_e5_usb3": (10.61, "fitted"),
    "dev_board_pcie": (16.92, "held out"),
    "raspberry_pi_3_usb2": (71.03, "fitted"),
    "raspberry_pi_4_usb3": (18.18, "fitted"),
}
"""Milliseconds of SSD MobileNet v2 with NMS, by google-coral/edgetpu, and what they are."""

_NMS = "detection_post_process"
_WITH_NMS = "ssd_mobilenet_v2_coco_quant_postprocess"


def whole(progress: Callable[[str], None]) -> Iterator[Whole]:
    """Models with operators on the host, as a whole."""
    for host in NAMES.values():
        mine = [row for row in published() if NAMES[row["host"]] == host]
        least = min(float(row["host_cpu_ms"]) for row in mine)
        found = [
            (row, float(row["host_cpu_ms"]) - least, parts)
            for row in mine
            if (parts := programs(row["model"])) and _has_operators(parts)
        ]
        scales = [spent / _operators(parts, WORKSTATION) for _, spent, parts in found]
        for number, (row, _, parts) in enumerate(found):
            progress(f"{row['model']} as a whole, {host}")
            other = None
            if host != WORKSTATION and len(found) == 2:
                other = scales[1 - number] * _operators(parts, WORKSTATION)
            yield Whole(
                "fitted",
                row["model"],
                host,
                float(row["ms"]),
                sample(row["model"], parts, "max", host, float(row["ms"])).modelled / 1000,
                _operators(parts, host),
                other,
            )
    ssd = programs(next(iter(SUBSTITUTES)))
    for host, (measured, part) in WITH_NMS.items() if ssd else ():
        progress(f"SSD with NMS as a whole, {host}")
        clock = next((level for name, level in OLDER.values() if name == host), "max")
        modelled = sample("ssd", ssd, clock, host, measured).modelled / 1000
        operators = _operators(ssd, host, nms=True)
        yield Whole(part, _WITH_NMS, host, measured, modelled, operators)


def _has_operators(parts: Sequence[Program]) -> bool:
    return any(EdgeTpuProgram.load(part.path).others for part in parts)


def _operators(parts: Sequence[Program], host: str, *, nms: bool = False) -> float:
    """Milliseconds of the operators of models that stay on a host, those for NMS or without."""
    total = 0.0
    for part in parts:
        graph = load(part.path)
        nodes = [
            node
            for node in graph.nodes()
            if getattr(node.attributes, "code", None) != CUSTOM_CODE and (nms or node.op != _NMS)
        ]
        total += host_time(graph, nodes, BEAGLE.hosts[host]) / 1000
    return total


def rows_path() -> Path:
    """Where the published times should be."""
    return corpus_path().parent / "study" / "timing" / "rows.csv"


def published() -> list[dict[str, str]]:
    """The rows of google-coral/cts.

    Raises:
        UsageError: they are not next to the corpus.
    """
    path = rows_path()
    if not path.is_file():
        raise UsageError(f"no published times at {path}")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@cache
def packages() -> dict[str, Path]:
    """All packages at hand, by the MD5 sum of their file."""
    folders = [corpus_path(), rows_path().parent, rows_path().parent.parent / "models"]
    folders += [Path(name) for name in os.environ.get(PACKAGES, "").split(os.pathsep) if name]
    files = [path for folder in folders for path in sorted(folder.glob(f"**/*{_SUFFIX}"))]
    return {hashlib.md5(path.read_bytes()).hexdigest(): path for path in reversed(files)}


@cache
def program(path: Path) -> Program:
    """The program of a package, recorded once."""
    return Program(path)


def programs(model: str) -> list[Program]:
    """The programs that were measured for a model, in order; empty if they are not at hand."""
    names = SUBSTITUTES.get(model, (model,))
    paths = [rows_path().parent / f"{name}{_SUFFIX}" for name in names]
    return [program(path) for path in paths] if all(path.is_file() for path in paths) else []


def sample(model: str, parts: Sequence[Program], clock: str, host: str, measured: float) -> Sample:
    """What the model says of programs one after the other, which hand data on at no cost.

    Args:
        model: name of the model.
        parts: its programs.
        clock: performance level.
        host: host.
        measured: microseconds.
    """
    constants = BEAGLE.hosts[host]
    total, sums = 0.0, dict[str, float]()
    for number, part in enumerate(parts):
        timeline = part.time(clock, host)
        found = terms(timeline, part.stage.positions)
        total += timeline.total
        saved = dict.fromkeys(found, 0.0)
        if number:
            sizes = [item.size for item in timeline.transfers if item.kind == "input"]
            saved |= {"fixed": found["fixed"], "link": sum(sizes) / 1000}
            saved["large"] = float(sum(size > LARGE_TRANSFER for size in sizes))
        if number < len(parts) - 1:
            saved |= {name: found[name] for name in ("output_byte", "output_piece")}
        for name, value in saved.items():
            constant = 1000 / constants.link if name == "link" else getattr(constants, name)
            total -= value * constant
            sums[name] = sums.get(name, 0.0) + found[name] - value
    return Sample(model, measured, total, sums)


def _on_chip(row: Mapping[str, str], parts: Sequence[Program], least: float) -> tuple[float, str]:
    """Milliseconds of a row without operators of the host, and a note on that."""
    measured, spent = float(row["ms"]), float(row["host_cpu_ms"])
    if not parts or not any(EdgeTpuProgram.load(part.path).others for part in parts):
        return measured, ""
    more = spent - least
    return measured - more, f"{measured:.3f} ms less {more:.3f} ms of operators on the host"


def compare(host: str, progress: Callable[[str], None]) -> tuple[list[Row], dict[str, float]]:
    """The rows of a host of google-coral/cts, and the constants that they give."""
    mine = [row for row in published() if NAMES[row["host"]] == host]
    least = min(float(row["host_cpu_ms"]) for row in mine)
    found, samples, missing = [], [], []
    for row in mine:
        parts = programs(row["model"])
        measured, note = _on_chip(row, parts, least)
        if not parts:
            missing.append(Row("other", row["model"], host, "max", measured))
            continue
        progress(f"{row['model']}, {host}")
        if len(parts) > 1:
            note = f"segments of the model; {note}"
        samples.append(sample(row["model"], parts, "max", host, measured * 1000))
        found.append(Row("fitted", row["model"], host, "max", measured, None, None, note))
    best = fit(samples, FITTED[host], least_changes(BEAGLE.hosts[host]))
    rows = []
    for one, item, alone in zip(found, samples, best.left_out, strict=True):
        left_out = None if alone is None else one.measured * (1 + alone / 100)
        rows.append(replace(one, modelled=item.modelled / 1000, left_out=left_out))
    return [*rows, *missing], _constants(host, best.changes)


def _constants(host: str, changes: Mapping[str, float]) -> dict[str, float]:
    """Constants of a host after changes."""
    now = BEAGLE.hosts[host]
    return {
        name: 1000 / (1000 / now.link + by) if name == "link" else getattr(now, name) + by
        for name, by in changes.items()
    }


def older(progress: Callable[[str], None]) -> Iterator[Row]:
    """Rows of the older measurements that `benchmarks.timing` has no program or no host for."""
    content = calibration()
    seen = set()
    for file, host, measured in timing.measurements(content):
        name, place = content["files"][file]["file"], timing.place(content, host)
        where = OLDER.get(place) or timing.HOSTS.get(place)
        covered = place in timing.HOSTS and place not in OLDER and _in_corpus(content, file)
        key = (name, host, measured)
        if where is None or covered or timing.DIFFERENCE.search(name) or key in seen:
            continue
        seen.add(key)
        path = packages().get(content["files"][file]["md5"])
        modelled = None
        if path is not None:
            progress(f"{timing.short(name)}, {where[0]}")
            modelled = program(path).time(where[1], where[0]).total / 1000
        part = older_part(name, where[0])
        yield Row(part, timing.short(name), *where, measured, modelled, None, place[0])


def older_part(file: str, host: str) -> str:
    """What an older row is, by the file of its program and its host."""
    if host in TUNED_HOSTS or TUNED_MODELS.search(file):
        return "fitted"
    return {"judge": "held out", "calibrate": "fitted"}.get(part_of(file), "other")


def _in_corpus(content: Mapping[str, Any], file: int) -> bool:
    path = packages().get(content["files"][file]["md5"])
    return path is not None and path.is_relative_to(corpus_path())


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/hosts.json``.

    Args:
        progress: called with the name of each row.
        repeats: of no effect, the model has no noise.

    Returns:
        aims that were missed.

    Raises:
        UsageError: there is no corpus, or there are no measurements.
    """
    del repeats
    rows: list[Row] = []
    constants = {}
    for host in NAMES.values():
        more, constants[host] = compare(host, progress)
        rows += more
    rows += older(progress)
    return write(rows, constants, list(whole(progress)))


def write(
    rows: Sequence[Row], constants: Mapping[str, Mapping[str, float]], models: Sequence[Whole]
) -> list[str]:
    """Write ``results/hosts.json``; returns the aims that were missed."""
    judged = summary(rows)
    write_results(
        "hosts",
        {
            "aims": {"mean": MEAN_ERROR, "largest": LARGEST_ERROR},
            "judged": judged,
            "rows": [asdict(row) | {"judging": row.judging} for row in rows],
            "constants": constants,
            "whole": [
                asdict(item) | {"error": item.error, "judging": item.judging} for item in models
            ],
        },
    )
    faults = []
    if judged["all"]["mean"] > MEAN_ERROR:
        faults.append(f"hosts: mean error {judged['all']['mean']:.1f} %, aim {MEAN_ERROR:g} %")
    if judged["all"]["largest"] > LARGEST_ERROR:
        faults.append(f"hosts: error {judged['all']['largest']:.1f} %, aim {LARGEST_ERROR:g} %")
    return faults


def summary(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Number of rows, mean and largest error of what was predicted, by host and of ``all``."""
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        error = row.judging
        if error is not None:
            errors[row.host].append(abs(error))
            errors["all"].append(abs(error))
    return {
        host: {"rows": len(found), "mean": statistics.mean(found), "largest": max(found)}
        for host, found in sorted(errors.items())
    }


if __name__ == "__main__":
    import sys

    for fault in measure(lambda step: print(step, file=sys.stderr)):
        print(fault)

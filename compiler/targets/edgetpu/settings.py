"""Options of programs for the Edge TPU, as the code generator takes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fitzroy.base.files import read_file
from fitzroy.compiler.targets.edgetpu.layers.options import ALTERNATIVES, QUICK, Options, Search
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions, Optimize, Partition
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs

if TYPE_CHECKING:
    from fitzroy.formats.probe_report import Report


def report_of(options: EdgeTpuOptions) -> Report | None:
    """The report of probes that says what is confirmed, if there is one.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no report of probes.
    """
    if options.confirmed is None:
        return None
    from fitzroy.formats.probe_report import read_report

    return read_report(read_file(options.confirmed), os.fspath(options.confirmed))


def generator_options(options: EdgeTpuOptions) -> Options:
    """How programs are generated.

    Raises:
        UsageError: the report of probes cannot be read.
        FormatError: it is none.
    """
    report = report_of(options)
    return Options(
        conservative=options.conservative,
        confirmed=None if report is None else report.confirmed,
        reduced=options.reduce_outputs,
        search=QUICK if options.optimize is Optimize.QUICK else Search(),
        alternatives=ALTERNATIVES if options.optimize is Optimize.TIMED else (),
    )


def costs_of(options: EdgeTpuOptions) -> Costs | None:
    """What decides which operators go to the chip; None to map all that can be mapped."""
    return COSTS if options.partition is Partition.COST else None

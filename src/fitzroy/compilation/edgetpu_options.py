"""Options of programs for the Edge TPU, as the code generator and the linker take them."""

from __future__ import annotations

import os

from fitzroy.base.files import read_file
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions, Partition
from fitzroy.compiler.targets.edgetpu.partition.costs import COSTS, Costs
from fitzroy.formats.probe_report import Report, read_report
from fitzroy.linker.packages.darwinn import LinkOptions
from fitzroy.linker.resolve.caching import Generation


def report_of(options: EdgeTpuOptions) -> Report | None:
    """The report of probes that says what is confirmed, if there is one.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no report of probes.
    """
    if options.confirmed is None:
        return None
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
    )


def link_options(options: EdgeTpuOptions) -> LinkOptions:
    """How packages are linked.

    Raises:
        UsageError: there is no such runtime version.
    """
    return LinkOptions(generation=Generation.for_runtime(options.min_runtime_version))


def costs_of(options: EdgeTpuOptions) -> Costs | None:
    """What decides which operators go to the chip; None to map all that can be mapped."""
    return COSTS if options.partition is Partition.COST else None

"""Measure FitzRoy against its peers: ``python -m benchmarks [--only NAME] [--repeats N]``.

compile
    time from a ``.tflite`` model to a program, against ExecuTorch's own exporter
compile_cost
    what compiling for the Edge TPU costs, by step: large models, long ones, and as a command
run
    time of an inference, against LiteRT with XNNPACK
memory
    peak of memory of a compilation
edgetpu
    time of the tools for compiled Edge TPU models: listings, scripts, objects
simulator
    time of the functional simulator of the Edge TPU
twin
    time of the twin of the chip, against LiteRT and the simulator
cuts
    models cut for several chips: predicted gains, and the time to find cuts
evaluation
    10,000 pictures, evaluated by processes and a cluster
driver
    CPU time of the driver for the Edge TPU alone, per transfer
faults
    sessions with several faults, malicious devices, reset storms and rivals; repeats are sessions
timing
    the timing model of the Edge TPU, against published measurements of devices
hosts
    hosts of the timing model, against published measurements; fits their constants
edgetpu_compiler
    programs of the compiler for the Edge TPU: right, and how fast beside those of Google's
forms
    forms of instructions of our programs that no published program has; repeats are random models
envelope
    properties of our programs, against those of published programs
modules
    bytecode modules: the interpreter, and what host programs add to inferences
conformance
    differences between programs and LiteRT, oracle and reference semantics
simulator_conformance
    differences between compiled models on the simulator and their sources
detections
    objects of a quantized detector beside those of float32; repeats are crops to evaluate
trained
    trained detectors and readers of text on the chip beside float32; repeats likewise
floors
    what quantized weights, activations and heads cost a detector; repeats likewise
quantization
    quantized models beside those of other quantizers; repeats are samples to judge on
first_minutes
    the commands of the README in a fresh clone of the last commit; needs the network
html_pages
    reports and explorer of a large model in a browser; needs chromium and chromedriver

Each writes ``benchmarks/results/<name>.json`` with the machine and the versions; in the end
``docs/benchmarks.md``, ``docs/conformance.md``, ``docs/simulator_conformance.md`` and the figures
of ``docs/timing.md``, ``docs/hosts.md``, ``docs/edgetpu_compiler.md``,
``docs/instruction_forms.md``, ``docs/driver.md``, ``docs/fault_campaign.md``, ``docs/modules.md``,
``docs/simulator.md``, ``docs/pipelines.md``, ``docs/evaluate.md``, ``docs/quantization.md``,
``docs/detections.md``, ``docs/first_minutes.md``, ``docs/reports.md`` and, from what
``python -m tests.fuzz`` keeps, ``docs/robustness.md`` are made from these files if all are there.
Needed are the extras ``executorch``, ``litert``, ``images`` and ``dev``, and a corpus of models
(FITZROY_CORPUS). The exit code is 1 if a target is missed or a difference has no explanation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

from fitzroy.base.errors import FitzroyError

NAMES = (
    "compile",
    "compile_cost",
    "run",
    "memory",
    "edgetpu",
    "simulator",
    "twin",
    "cuts",
    "evaluation",
    "driver",
    "faults",
    "timing",
    "hosts",
    "edgetpu_compiler",
    "forms",
    "envelope",
    "modules",
    "conformance",
    "simulator_conformance",
    "detections",
    "trained",
    "floors",
    "quantization",
    "first_minutes",
    "html_pages",
)


def main() -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=NAMES, action="append", help="may be repeated")
    parser.add_argument("--repeats", type=int, default=0, help="instead of each one's own number")
    parser.add_argument("--report", action="store_true", help="only write the pages")
    options = parser.parse_args()
    faults: list[str] = []
    try:
        for name in () if options.report else options.only or NAMES:
            measure: Callable[..., list[str]] = import_module(f"benchmarks.{name}").measure
            faults += measure(_progress, options.repeats)
        for path in import_module("benchmarks.report").write_pages():
            _progress(f"wrote {path}")
    except FitzroyError as error:
        print(error, file=sys.stderr)
        return 2
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _progress(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Bytecode modules: speed of the interpreter, and what a host program adds to an inference.

The interpreter runs a loop of the assembly below, without and with calls of an import. A host
program is the module of a compiled model on the simulated chip; its share is the time that the
virtual machine takes without what it calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import numpy as np

from benchmarks.support import ROOT, write_results
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.modules import compiled_entry, write_entries
from fitzroy.driver.runtime.devices import open_device
from fitzroy.execution.modules import ModuleProgram
from fitzroy.hw_models.vm.context import Context, NativeModule
from fitzroy.hw_models.vm.interpreter import invoke_native
from fitzroy.hw_models.vm.text import assemble

LEAST_RATE = 1e6
"""Instructions a second that the interpreter has to reach."""

MOST_SHARE = 0.01
"""Of the time of a simulated inference that its host program may take."""

_ROUNDS = 200_000
_LOOP = """
.module "loop"
.type "i32"
.import "host.same" (type#0) -> (type#0)
.function "main" (type#0) -> (type#0) i32=6 ref=0
    const.i32.zero %i1
    const.i32 1 %i2
    const.i32 3 %i3
loop:
    add.i32 %i1 %i2 %i1
    mul.i32 %i3 %i1 %i3
    xor.i32 %i3 %i1 %i3
{call}
    cmp.lt.i32.s %i1 %i0 %i4
    cond_br %i4 loop() done()
done:
    return (%i3)
.export "main" function#0 (type#0) -> (type#0)
"""
_CALL = "    call import#0 (%i3) -> (%i3)"
_DIGITS = ROOT / "examples" / "models" / "digits.tflite"


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/modules.json``.

    Args:
        progress: called with the name of each step.
        repeats: runs of each kind, 0 for the usual number; the median counts.

    Returns:
        targets that were missed.
    """
    repeats = repeats or 7
    loops = {}
    for name, call in (("arithmetic and branches", ""), ("one import call in six", _CALL)):
        progress(f"interpreter: {name}")
        loops[name] = median(_rate(call) for _ in range(repeats))
    progress("host program of the digits model")
    share, seconds, steps = _share(repeats)
    write_results(
        "modules",
        {
            "repeats": repeats,
            "instructions_per_second": loops,
            "inference": {"seconds": seconds, "share": share, "instructions": steps},
            "bounds": {"instructions_per_second": LEAST_RATE, "share": MOST_SHARE},
        },
    )
    faults = [
        f"the interpreter executes {rate:,.0f} instructions a second ({name})"
        for name, rate in loops.items()
        if rate < LEAST_RATE
    ]
    if share > MOST_SHARE:
        faults.append(f"host programs take {share:.1%} of an inference")
    return faults


def _rate(call: str) -> float:
    """Instructions a second."""
    module, _ = assemble(_LOOP.format(call=call))
    host = NativeModule("host", {"same": lambda call: call.arguments})
    with Context([host, module]) as context:
        start = time.perf_counter()
        context.invoke("main", [_ROUNDS])
        return context.steps / (time.perf_counter() - start)


def _share(repeats: int) -> tuple[float, float, int]:
    """Share of the virtual machine, seconds of an inference, and instructions."""
    data = compile_edgetpu(_DIGITS).data
    shares, times = [], []
    inside = 0.0

    def timed(*arguments: object) -> object:
        nonlocal inside
        start = time.perf_counter()
        try:
            return invoke_native(*arguments)  # type: ignore[arg-type]
        finally:
            inside += time.perf_counter() - start

    with (
        open_device("sim:direct") as device,
        ModuleProgram(write_entries("digits", [compiled_entry(data)]), device=device) as program,
        patch("fitzroy.hw_models.vm.interpreter.invoke_native", timed),
    ):
        inputs = {"image": np.zeros((1, 8, 8, 1), np.int8)}
        program.run(inputs)
        for _ in range(repeats):
            inside, start = 0.0, time.perf_counter()
            program.run(inputs)
            times.append(time.perf_counter() - start)
            shares.append((times[-1] - inside) / times[-1])
        return median(shares), median(times), program.steps

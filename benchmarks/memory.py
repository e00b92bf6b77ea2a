"""Memory that a compilation takes, relative to the size of the model.

Two processes compile the model after a small one has warmed them: one reads the kernel's peak
of resident memory (Linux), the other traces Python's and numpy's allocations, which slows it.
``python -m benchmarks.memory WARM_UP MODEL rss|traced`` is such a process.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import fitzroy
from benchmarks.support import INT8_MODEL, ROOT, corpus_model, run_python, write_results
from fitzroy.base.errors import UnsupportedError

WARM_UP = ROOT / "examples" / "models" / "digits.tflite"
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def measure(progress: Callable[[str], None], repeats: int = 0) -> list[str]:
    """Write ``results/memory.json``.

    Args:
        progress: called with the name of each step.
        repeats: number of processes of each kind, 0 for the usual number; the largest counts.

    Returns:
        targets that were missed; there are none.

    Raises:
        UnsupportedError: the system does not tell of peaks.
    """
    if not _CLEAR.exists():
        raise UnsupportedError("the peak of resident memory cannot be read on this system")
    path = corpus_model(INT8_MODEL)
    peaks: dict[str, list[int]] = {"rss": [], "traced": []}
    for kind, values in peaks.items():
        progress(f"memory of compile ({kind})")
        for _ in range(repeats or 3):
            printed = run_python(["-m", "benchmarks.memory", str(WARM_UP), str(path), kind])
            values.append(json.loads(printed)["bytes"])
    size = path.stat().st_size
    resident, traced = max(peaks["rss"]), max(peaks["traced"])
    write_results(
        "memory",
        {
            "model": INT8_MODEL,
            "model_bytes": size,
            "resident_bytes": resident,
            "traced_bytes": traced,
            "resident_ratio": resident / size,
            "traced_ratio": traced / size,
        },
    )
    return []


def status(field: str) -> int:
    """A size in bytes from the kernel's description of this process."""
    for line in _STATUS.read_text().splitlines():
        name, _, content = line.partition(":")
        if name == field:
            return 1024 * int(content.split()[0])
    raise UnsupportedError(f"the system does not tell {field} of a process")


def _probe(warm_up: str, model: str, kind: str) -> int:
    """Bytes in use at the peak of a compilation beyond those before it."""
    fitzroy.compile(warm_up)
    gc.collect()
    if kind == "traced":
        tracemalloc.start()
        fitzroy.compile(model)
        return tracemalloc.get_traced_memory()[1]
    _CLEAR.write_text(_RESET_PEAK)
    before = status("VmRSS")
    fitzroy.compile(model)
    return status("VmHWM") - before


if __name__ == "__main__":
    print(json.dumps({"bytes": _probe(*sys.argv[1:4])}))

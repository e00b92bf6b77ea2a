"""Recordings of sessions, and what replays them."""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from tests.driver.edgetpu_programs import SIZE, echo
from tests.fuzz import hostile

from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, open_device, virtual_device
from fitzroy.driver.transports.replay import ReplayBus

_LIMITS = replace(
    SIMULATED,
    request=2.0,
    slice=0.02,
    silence=0.1,
    control=0.05,
    poll=0.01,
    enumerate=0.01,
    replug=0.01,
)
_ROW = np.arange(SIZE).astype(np.uint8)


@cache
def files() -> list[bytes]:
    """A recorded session of two inferences, and the beginning of one."""
    with tempfile.TemporaryDirectory() as home:
        path = Path(home, "session.jsonl")
        with virtual_device(DeviceOptions(record=path, limits=_LIMITS)) as device:
            for _ in range(2):
                device.run(echo(), {"x": _ROW})
        whole = path.read_bytes()
    return [whole, b"".join(whole.splitlines(keepends=True)[:40])]


def session_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A recording after one to four changes of lines."""
    lines = seed.splitlines()
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines)) if rng.random() < 0.7 else rng.randrange(min(8, len(lines)))
        kind = rng.random()
        if kind < 0.6:
            lines[at] = _changed(rng, lines[at])
        elif kind < 0.7:
            del lines[at : at + rng.choice((1, 1, 2, 50))]
        elif kind < 0.8:
            lines[at:at] = lines[at : at + 1] * rng.choice((1, 2, 1000))
        elif kind < 0.9:
            other = rng.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            lines[at:at] = [hostile.text(rng).encode("utf-8", "surrogatepass")]
        if not lines:
            break
    return b"\n".join(lines)


def _changed(rng: random.Random, line: bytes) -> bytes:
    try:
        return hostile.document_mutant(rng, line)
    except (ValueError, RecursionError):
        # An earlier change made it unreadable.
        return line


def read(data: bytes) -> ReplayBus:
    """The bus of a recording.

    Raises:
        FormatError: it is no recording.
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        return ReplayBus(file.name)


def target(data: bytes) -> None:
    """Replay a recording to a driver that does what was recorded.

    Raises:
        FormatError: it is no recording.
        DeviceError: it goes another way, or failed as recorded.
    """
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(data)
        file.flush()
        spec = f"replay:{os.fspath(file.name)}"
        with open_device(spec, DeviceOptions(limits=_LIMITS)) as device:
            for _ in range(2):
                device.run(echo(), {"x": _ROW})

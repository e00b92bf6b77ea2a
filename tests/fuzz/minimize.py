"""Shortens a file as long as it shows the same failure."""

from __future__ import annotations

import time

from tests.fuzz.harness import attempt

_SECONDS = 10.0
"""Processor time for a file."""


def shortened(name: str, data: bytes, cause: str) -> bytes:
    """A file without parts that its failure does not need; the file itself if none is found.

    Args:
        name: the target.
        data: the file.
        cause: of the failure.
    """
    end = time.process_time() + _SECONDS
    part = len(data) // 2
    while part >= 1 and time.process_time() < end:
        at = 0
        while at < len(data) and time.process_time() < end:
            shorter = data[:at] + data[at + part :]
            if attempt(name, shorter).cause == cause:
                data = shorter
            else:
                at += part
        part //= 2
    return data

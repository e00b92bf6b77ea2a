"""Virtual accelerators as they are served: hosts with the patience of a chip get on with them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from fitzroy.hw_models.chips.usb import Speed
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.hw_models.usb_device.faults import Fault

T = TypeVar("T")

AHEAD_BYTES = 64 << 20
"""What a served device takes ahead of its chip while that computes.

Google's driver ends its process when a transfer takes 6 s; the chip takes what follows in
milliseconds, and its simulation may need minutes to get there.
"""


class Threads(Executor):
    """A thread for each task, none of which keeps the process from ending."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Start a task."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)
                # Nobody asks for the result: the hook of threads tells of the failure.
                raise

        threading.Thread(target=run, name="edgetpu-chip", daemon=True).start()
        return future


def served_device(
    speed: Speed = Speed.SUPER,
    seed: int | None = None,
    booted: bool = False,
    faults: Iterable[Fault] = (),
) -> VirtualDevice:
    """A device whose endpoints take transfers while its chip computes.

    Args:
        speed: speed of its port.
        seed: as `VirtualDevice`.
        booted: as `VirtualDevice`.
        faults: as `VirtualDevice`.
    """
    return VirtualDevice(speed, seed, booted, faults, executor=Threads(), ahead=AHEAD_BYTES)

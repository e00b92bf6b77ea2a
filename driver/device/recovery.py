"""What to do about a device on which something went wrong: a ladder, from gentle to patient.

After an error nobody knows how far the streams of the device have come. So every rung ends with a
chip that was opened anew; parameters that it had cached are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fitzroy.base.errors import DeviceError
from fitzroy.driver.device.connection import Connection
from fitzroy.driver.device.firmware import FirmwareError
from fitzroy.driver.device.limits import ENDED, Watch
from fitzroy.driver.transports.transport import (
    AccessError,
    BusyError,
    LostError,
    ReplayError,
)


@dataclass(frozen=True, slots=True)
class Rung:
    """A way to get a device back.

    Attributes:
        name: what it is, for people.
        climb: takes it, in the time that a watch leaves.
    """

    name: str
    climb: Callable[[Connection, Watch], None]


def _chip(connection: Connection, watch: Watch) -> None:
    connection.restart(watch)


def _port(connection: Connection, watch: Watch) -> None:
    connection.open(watch)


def _plug(connection: Connection, watch: Watch) -> None:
    connection.drop()
    connection.await_plug(watch)
    connection.open(watch)


CHIP = Rung("the chip was put to sleep and opened", _chip)
PORT = Rung("the port was reset", _port)
PLUG = Rung("the device was plugged in again", _plug)

LADDER = (CHIP, PORT, PLUG)
"""All ways, from gentle to patient."""

HOPELESS = (AccessError, BusyError, FirmwareError, ReplayError)
"""Errors that only a person can do something about."""


def ladder(connection: Connection, error: DeviceError) -> tuple[Rung, ...]:
    """The ways that make sense after an error."""
    if isinstance(error, HOPELESS):
        return ()
    if isinstance(error, LostError):
        return (PLUG,)
    return LADDER if connection.opened else LADDER[1:]


def recover(connection: Connection, error: DeviceError, watch: Watch) -> Rung:
    """Get a device back: the way that did it.

    Args:
        connection: the device.
        error: what went wrong.
        watch: ends the attempts, and the waits for a device that comes back.

    Raises:
        DeviceError: none did; the error says what to do.
    """
    failure = error
    for rung in ladder(connection, error):
        watch.check("the recovery of the device")
        try:
            rung.climb(connection, watch)
        except (*HOPELESS, *ENDED):
            raise
        except DeviceError as found:
            failure = found
        else:
            return rung
    connection.drop()
    failure.hint = failure.hint or "unplug the device, plug it in again, and repeat the request"
    raise failure

"""Faults on purpose: what goes wrong, and at which transfer.

A script is JSON: a list of faults, or an object with that list as its only member ``faults``::

    [
      {"at": {"transfer": 3, "endpoint": "0x82"}, "do": "corrupt", "data": "ff"},
      {"at": {"transfer": 2, "register": "scu_ctrl_3"}, "do": "stall"},
      {"at": {"transfer": 400}, "do": "replug", "seconds": 0.5}
    ]

``at`` counts transfers from 1, from the moment the device exists: of an endpoint, accesses to a
register, or all of them. Transfers that a host controller or an operating system submits of its
own accord count as well. Each fault happens once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fitzroy.base.errors import FormatError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import CsrRequest, RequestType
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import HibError
from fitzroy.hw_models.usb_device.transfer import Transfer

_CONTROL = 0
_MOST = 10_000
"""Most faults of a script."""

_ERROR = "csr_parity"
"""What FATAL is without `error`."""

_VENDOR = (RequestType.VENDOR_IN, RequestType.VENDOR_OUT)


class FaultKind(Enum):
    """What goes wrong; the value is its name in scripts."""

    STALL = "stall"
    TIMEOUT = "timeout"
    SHORT = "short"
    BABBLE = "babble"
    ERROR = "error"
    CORRUPT = "corrupt"
    LOSE = "lose"
    UNPLUG = "unplug"
    REPLUG = "replug"
    FATAL = "fatal"
    TEMPERATURE = "temperature"
    THERMAL_WARNING = "thermal_warning"
    THERMAL_SHUTDOWN = "thermal_shutdown"


FAULTS: dict[FaultKind, str] = {
    FaultKind.STALL: "the transfer stalls; a bulk endpoint does until the halt is cleared",
    FaultKind.TIMEOUT: "the transfer, and all after it on its endpoint, stay under way until the "
    "host cancels it",
    FaultKind.SHORT: "only `length` bytes of the data arrive; a bulk transfer to the device ends "
    "with a transaction error",
    FaultKind.BABBLE: "the device sends more than the host allows: overflow, and the data is lost",
    FaultKind.ERROR: "the transfer ends with a transaction error",
    FaultKind.CORRUPT: "`data`, in hexadecimal, replaces the first bytes; without it, every bit is "
    "inverted",
    FaultKind.LOSE: "the data for the transfer is lost; the transfer waits for what comes next",
    FaultKind.UNPLUG: "the device is unplugged before the transfer",
    FaultKind.REPLUG: "the same, and is plugged in again, in boot mode, after `seconds`",
    FaultKind.FATAL: "the chip is stuck with the error `error` of `hib_error_status`",
    FaultKind.TEMPERATURE: "the chip has `celsius` degrees",
    FaultKind.THERMAL_WARNING: "the chip is hot",
    FaultKind.THERMAL_SHUTDOWN: "the chip is too hot, and its core stops",
}
"""What each kind does."""

_OF_TRANSFERS = (
    FaultKind.STALL,
    FaultKind.TIMEOUT,
    FaultKind.SHORT,
    FaultKind.BABBLE,
    FaultKind.ERROR,
    FaultKind.CORRUPT,
    FaultKind.LOSE,
)
"""Kinds that change what becomes of the transfer; the others happen before it."""

_INWARD = (FaultKind.BABBLE, FaultKind.CORRUPT, FaultKind.LOSE)
"""Kinds that need data from the device."""

_MEMBERS: dict[FaultKind, tuple[str, ...]] = {
    FaultKind.SHORT: ("length",),
    FaultKind.CORRUPT: ("data",),
    FaultKind.REPLUG: ("seconds",),
    FaultKind.FATAL: ("error",),
    FaultKind.TEMPERATURE: ("celsius",),
}
"""Further members of a fault in a script."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        kind: what goes wrong.
        transfer: number of the transfer, from 1.
        endpoint: endpoint whose transfers count; None for all.
        register: address of the register whose accesses count; None for all.
        length: bytes that arrive, of SHORT.
        data: bytes that replace others, of CORRUPT; empty to invert them.
        seconds: time until the device is back, of REPLUG.
        error: name of a bit of `hib_error_status`, of FATAL.
        celsius: temperature, of TEMPERATURE.
    """

    kind: FaultKind
    transfer: int
    endpoint: int | None = None
    register: int | None = None
    length: int = 0
    data: bytes = b""
    seconds: float = 0.0
    error: str = _ERROR
    celsius: float = 0.0

    @property
    def of_transfer(self) -> bool:
        """Whether it changes what becomes of the transfer."""
        return self.kind in _OF_TRANSFERS

    def spoiled(self, data: bytes) -> bytes:
        """Data from the device as it arrives."""
        if self.kind is FaultKind.SHORT:
            return data[: self.length]
        if self.kind is FaultKind.CORRUPT:
            if self.data:
                return (self.data + data[len(self.data) :])[: len(data)]
            return bytes(byte ^ 0xFF for byte in data)
        return data


class FaultScript:
    """Faults that are still to come.

    Args:
        faults: in any order.
    """

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = list(faults)
        self._counts: dict[tuple[int | None, int | None], int] = dict.fromkeys(
            ((fault.endpoint, fault.register) for fault in self._faults), 0
        )

    def take(self, transfer: Transfer) -> list[Fault]:
        """Count a transfer; the faults that are due, in the order of the script."""
        if not self._faults:
            return []
        due = []
        address = _register(transfer)
        for (endpoint, register), count in self._counts.items():
            if endpoint not in (None, transfer.endpoint) or register not in (None, address):
                continue
            self._counts[endpoint, register] = count + 1
            due += [
                fault
                for fault in self._faults
                if (fault.endpoint, fault.register) == (endpoint, register)
                and fault.transfer == count + 1
            ]
        if due:
            self._faults = [fault for fault in self._faults if fault not in due]
        return due


def _register(transfer: Transfer) -> int | None:
    """Address of the register that a transfer reads or writes."""
    setup = transfer.setup
    if setup is None or setup.request_type not in _VENDOR or setup.request not in tuple(CsrRequest):
        return None
    return setup.index << 16 | setup.value


# --- scripts -------------------------------------------------------------------------------------


def read_script(text: str | bytes, path: str = "") -> tuple[Fault, ...]:
    """Faults of a script.

    Args:
        text: JSON.
        path: name of the file, for errors.

    Raises:
        FormatError: not JSON, an unknown member, or a value that makes no sense.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", path=path) from None
    if isinstance(content, dict):
        _known(content, ("faults",), "script", path)
        content = content.get("faults", [])
    if not isinstance(content, list):
        raise FormatError("a script is a list of faults", path=path)
    if len(content) > _MOST:
        raise FormatError(f"{len(content)} faults; at most {_MOST} are allowed", path=path)
    return tuple(_fault(item, f"fault {n}", path) for n, item in enumerate(content, start=1))


def _fault(item: Any, place: str, path: str) -> Fault:
    if not isinstance(item, dict):
        raise FormatError("a fault is an object", path=path, table=place)
    kinds = {kind.value: kind for kind in FaultKind}
    name = item.get("do")
    kind = kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise FormatError(
            f"do is {name!r}", path=path, table=place, hint=f"known are {', '.join(kinds)}"
        )
    _known(item, ("at", "do", *_MEMBERS.get(kind, ())), place, path)
    at = item.get("at")
    if not isinstance(at, dict):
        raise FormatError("at is missing", path=path, table=place)
    _known(at, ("transfer", "endpoint", "register"), f"{place}, at", path)
    transfer = _integer(at.get("transfer"), "transfer", place, path)
    if transfer < 1:
        raise FormatError("transfers count from 1", path=path, table=place)
    endpoint, register = _endpoint(at, place, path), _address(at, place, path)
    if register is not None and endpoint not in (None, _CONTROL):
        raise FormatError("registers are read at endpoint 0", path=path, table=place)
    fault = Fault(
        kind,
        transfer,
        endpoint,
        register,
        length=_integer(item.get("length", 0), "length", place, path),
        data=_bytes(item.get("data", ""), place, path),
        seconds=_real(item.get("seconds", 0), "seconds", place, path),
        error=_error(item.get("error", _ERROR), place, path),
        celsius=_real(item.get("celsius", 0), "celsius", place, path),
    )
    if kind in _INWARD or kind is FaultKind.SHORT:
        where = _CONTROL if register is not None else endpoint
        if where is None:
            raise FormatError(f"{kind.value} needs an endpoint", path=path, table=place)
        if kind in _INWARD and where != _CONTROL and not where & 0x80:
            raise FormatError(f"{kind.value} needs data from the device", path=path, table=place)
        if kind is FaultKind.LOSE and where == _CONTROL:
            raise FormatError("what control transfers carry cannot be lost", path=path, table=place)
    if fault.length < 0 or fault.seconds < 0:
        raise FormatError("a length or a time is negative", path=path, table=place)
    return fault


def _known(item: Mapping[str, Any], names: tuple[str, ...], place: str, path: str) -> None:
    for name in item:
        if name not in names:
            raise FormatError(
                f"unknown member {name[:40]!r}",
                path=path,
                table=place,
                hint=f"known are {', '.join(names)}",
            )


def _integer(value: Any, name: str, place: str, path: str) -> int:
    if type(value) is not int:
        raise FormatError(f"{name} is not a whole number", path=path, table=place)
    return value


def _real(value: Any, name: str, place: str, path: str) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 1e6:
        raise FormatError(f"{name} is not a number up to 1000000", path=path, table=place)
    return float(value)


def _endpoint(at: Mapping[str, Any], place: str, path: str) -> int | None:
    value = at.get("endpoint")
    if value is None:
        return None
    known = {_CONTROL} | {endpoint.address for endpoint in BEAGLE.usb.endpoints.values()}
    try:
        number = int(value, 0) if isinstance(value, str) and len(value) < 8 else value
    except ValueError:
        number = None
    if type(number) is not int or number not in known:
        raise FormatError(
            f"there is no endpoint {str(value)[:20]}",
            path=path,
            table=place,
            hint=f"there are {', '.join(map(hex, sorted(known)))}",
        )
    return number


def _address(at: Mapping[str, Any], place: str, path: str) -> int | None:
    name = at.get("register")
    if name is None:
        return None
    if not isinstance(name, str) or name not in csr.BY_NAME:
        raise FormatError(f"there is no register {str(name)[:40]!r}", path=path, table=place)
    return csr.BY_NAME[name].address


def _bytes(value: Any, place: str, path: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise FormatError("data is not hexadecimal", path=path, table=place) from None


def _error(value: Any, place: str, path: str) -> str:
    names = [field.name for field in HibError.fields()]
    if value not in names:
        raise FormatError(
            f"there is no error {str(value)[:40]!r}",
            path=path,
            table=place,
            hint=f"known are {', '.join(names)}",
        )
    return str(value)

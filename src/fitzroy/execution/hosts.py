"""Hosts by name or file: those that come with the chip, and those that a user has measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.evidence import Evidence
from fitzroy.base.files import read_file
from fitzroy.formats.json_document import read_json
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.facts import Fact
from fitzroy.hw_models.chips.hosts import PCIE, USB2, USB3, Host

FORMAT, VERSION = "fitzroy host profile", 2
"""What a profile file says it is."""

SUFFIX = ".json"
"""How names of profile files end."""

_MOST_BYTES = 1 << 20
_MOST = 1e9
_NUMBERS = tuple(field.name for field in fields(Host) if field.name not in ("bus", "read"))
_RATES = ("link", "stream")
_BUSES = (USB2, USB3, PCIE)


@dataclass(frozen=True, slots=True)
class Profile:
    """A host.

    Attributes:
        name: its name, or that of its file.
        host: its constants.
    """

    name: str
    host: Host


def values(host: Host) -> dict[str, Any]:
    """The constants of a host, for a file."""
    return {field.name: getattr(host, field.name) for field in fields(Host)}


def made(constants: Mapping[str, Any], evidence: Evidence, source: str) -> Host:
    """A host of constants that have one source."""
    return Host(**{name: Fact(value, evidence, source) for name, value in constants.items()})


def at_once(profile: Profile) -> Profile:
    """A host on the same bus that takes no time itself: what is left is the time of the chip."""
    constants = values(profile.host)
    constants |= {name: _MOST if name in _RATES else 0.0 for name in _NUMBERS}
    host = made(constants, Evidence.ASSUMED, "a host that nobody waits for")
    return Profile(f"{profile.name}, at once", host)


def find(name: str) -> Profile:
    """A host by its name, or by the file that has its profile.

    Raises:
        UsageError: there is none of that name, or the file cannot be read.
        FormatError: the file is no profile.
    """
    if name in BEAGLE.hosts:
        return Profile(name, BEAGLE.hosts[name])
    if name.endswith(SUFFIX):
        return Profile(name, parse(read_file(name), name))
    raise UsageError(
        f"there is no host {name[:80]!r}",
        reason=f"there are {', '.join(BEAGLE.hosts)}",
        hint=f"a file that fitzroy calibrate-host wrote ends in {SUFFIX}",
    )


def parse(data: bytes, path: str) -> Host:
    """The host of a profile file.

    Raises:
        FormatError: it is no profile, or a constant is missing or out of range.
    """
    document = read_json(data, path, "a profile", _MOST_BYTES)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"it is no {FORMAT}", path=path)
    if document.get("version") != VERSION:
        found = str(document.get("version"))[:20]
        raise FormatError(
            f"version {found} of a profile, not {VERSION}",
            path=path,
            hint="measure the host again: fitzroy calibrate-host",
        )
    constants = document.get("constants")
    wanted = {field.name for field in fields(Host)}
    if not isinstance(constants, dict) or set(constants) != wanted:
        raise FormatError(f"constants are to be {', '.join(sorted(wanted))}", path=path)
    for name in _NUMBERS:
        _check_number(name, constants[name], path)
    if constants["bus"] not in _BUSES:
        raise FormatError(
            f"a bus {str(constants['bus'])[:20]!r}, not {', '.join(_BUSES)}", path=path
        )
    read = constants["read"]
    if not isinstance(read, int) or isinstance(read, bool) or not 1 <= read <= _MOST_BYTES:
        raise FormatError(f"reads of {str(read)[:20]} bytes, not 1 to {_MOST_BYTES}", path=path)
    return made(constants, Evidence.MEASURED, path)


def _check_number(name: str, value: object, path: str) -> None:
    """Refuse what is no number in the range of a constant.

    Raises:
        FormatError: names the constant.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    least = 1e-3 if name in _RATES else 0.0
    if (
        not number
        or not math.isfinite(float(str(value)))
        or not least <= float(str(value)) <= _MOST
    ):
        raise FormatError(f"{name} is {str(value)[:20]}, not {least:g} to {_MOST:g}", path=path)

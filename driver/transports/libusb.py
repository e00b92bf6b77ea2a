"""Finding libusb 1.0 and opening a context of it: in the system, else in a wheel.

What goes wrong has an error of its own each: no library, a library that is another one or cannot be
loaded, and a context that cannot be opened.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import usb.core
import usb.libloader
from usb.backend import libusb1

from fitzroy.base.errors import DeviceError
from fitzroy.base.installing import install_extra
from fitzroy.driver.transports.outgoing import declare

WHEEL = "libusb_package"
"""Module of the wheel that brings libusb."""

_NAMES = ("usb-1.0", "libusb-1.0", "usb")
"""Names of the library; the last one is that of FreeBSD, and of libusb 0.1 elsewhere."""


def _install() -> str:
    return f"install libusb-1.0-0 with the system's packages, or {install_extra('usb')}"


Finder = Callable[[str], "str | None"]
"""Gives the file of a library by its name, None if there is none."""


class LibusbError(DeviceError):
    """There is no access to USB by libusb."""


class NoLibusbError(LibusbError):
    """There is no libusb, neither in the system nor in a wheel."""


class LibusbSymbolsError(LibusbError):
    """A library was found that is not libusb 1.0, or cannot be loaded."""


class LibusbInitError(LibusbError):
    """libusb is there, and cannot open a context."""


def open_backend() -> Any:
    """A backend of pyusb with a context of its own.

    pyusb's `get_backend` keeps one context for the whole process, and answers all failures alike.

    Raises:
        NoLibusbError: there is no libusb.
        LibusbSymbolsError: there is no other library than one that does not fit.
        LibusbInitError: no context can be opened.
    """
    finders: tuple[Finder | None, ...] = (None, _in_wheel)
    unfit: LibusbSymbolsError | None = None
    for finder in finders:
        path = usb.libloader.locate_library(_NAMES, finder)
        if path is None:
            continue
        try:
            library = _loaded(str(path))
        except LibusbSymbolsError as error:
            unfit = unfit or error
            continue
        return _context(library, str(path))
    raise unfit or NoLibusbError(
        "there is no libusb 1.0",
        reason="the system has none, and no wheel brings one",
        hint=_install(),
    )


def name_of(backend: Any) -> str:
    """Which libusb a backend uses, for people."""
    path = getattr(backend.lib, "_name", "libusb-1.0")
    return f"{path} {'from the wheel ' + WHEEL if WHEEL in path else 'of the system'}"


def _loaded(path: str) -> Any:
    loader = getattr(ctypes, "WinDLL", None) if sys.platform == "win32" else ctypes.CDLL
    try:
        library = (loader or ctypes.CDLL)(path)
    except OSError as error:
        raise LibusbSymbolsError(
            "libusb cannot be loaded", reason=str(error), where=path, hint=_install()
        ) from error
    try:
        libusb1._setup_prototypes(library)
        declare(library)
    except AttributeError as error:
        raise LibusbSymbolsError(
            "the library is not libusb 1.0, or too old",
            reason=f"it lacks a function: {error}",
            where=path,
            hint=_install(),
        ) from error
    return library


def _context(library: Any, path: str) -> Any:
    # Devices and lists of pyusb go to this library, whatever backend they belong to.
    libusb1._lib = library
    try:
        return libusb1._LibUSB(library)
    except usb.core.USBError as error:
        raise LibusbInitError(
            "libusb cannot be initialized",
            reason=f"libusb_init says {error.backend_error_code}: {error.strerror}",
            where=path,
            hint="in a container or a virtual machine, pass USB on (docker: -v /dev/bus/usb:"
            "/dev/bus/usb); elsewhere see whether /dev and /sys are mounted. Simulators need no "
            "USB: --device sim",
        ) from error


def _in_wheel(name: str) -> str | None:
    if importlib.util.find_spec(WHEEL) is None:
        return None
    try:
        path = importlib.import_module(WHEEL).find_library(name)
    except ImportError as error:
        raise LibusbSymbolsError(
            "the wheel that brings libusb cannot be imported",
            reason=str(error),
            where=WHEEL,
            hint=f"install it with what it needs: {install_extra('usb')}",
        ) from error
    return None if path is None else str(path)

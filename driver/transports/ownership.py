"""Whose device is it: a lock file per port with the pid of its owner, and who has its node open.

The claim of the interface keeps others out while a device is open. It does not while the device
comes back from a reset, and it does not say who has it. So processes of FitzRoy also lock a file.
Such locks are advisory, end with their process, and hold on one machine or in one container.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fitzroy.driver.transports.transport import Attached, BusyError, Reservation, Unreserved

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where the claim of the interface has to do
    fcntl = None  # type: ignore[assignment]

_FOLDERS = ("run/lock", "var/lock", "tmp")
"""Folders for lock files, below the root; the first that everybody may write to."""

_MOST_TEXT = 64
"""Most bytes of a lock file that are read."""


class FileLock:
    """A lock file that this process holds.

    Args:
        descriptor: the open file, locked.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let others have it. The file stays: without it, two processes could lock two files."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.ftruncate(descriptor, 0)
            # A child of this process may have inherited the file; the lock ends all the same.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a device.

    Attributes:
        pid: the process; 0 if it is not known, or not a process.
        name: its command; empty if it is not known.
        driver: the driver of the kernel that is bound to the interface; empty for none.
    """

    pid: int = 0
    name: str = ""
    driver: str = ""

    def error(self, where: str) -> BusyError:
        """The error of somebody else who wants the device."""
        if self.driver:
            reason = f"the kernel's driver {self.driver} is bound to it"
            hint = f"as root: echo -n {where}:1.0 > /sys/bus/usb/drivers/{self.driver}/unbind"
        elif self.pid == os.getpid():
            reason = f"process {self.pid} is this one"
            hint = "close the device before it is opened again, or share it"
        elif self.pid:
            command = f" ({self.name})" if self.name else ""
            reason = f"process {self.pid}{command} has it"
            hint = "wait for that process, or end it; fitzroy devices lists other devices"
        else:
            reason = "which one is not to be seen: another user's, or one in another container"
            hint = "end it; root sees which it is: lsof /dev/bus/usb/*/*"
        by = f"process {self.pid}" if self.pid else self.driver or "another process"
        error = BusyError(f"the device is in use by {by}", reason=reason, where=where, hint=hint)
        error.owner, error.driver = self.pid, self.driver
        return error


class Ownership:
    """Locks and owners of the devices of this machine.

    Args:
        root: where ``proc``, ``sys``, ``dev`` and the folders for locks are.
    """

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self._root = Path(root)

    # --- locks -----------------------------------------------------------------------------------

    def reserve(self, path: str) -> Reservation:
        """Lock the device on a port.

        Args:
            path: bus and ports.

        Raises:
            BusyError: another process, or another part of this one, has locked it.
        """
        descriptor = self._opened(path)
        if descriptor is None:
            return Unreserved()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = os.pread(descriptor, _MOST_TEXT, 0)
            os.close(descriptor)
            pid = int(text) if text.strip().isdigit() else 0
            raise Holder(pid, self._command(pid)).error(path) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return FileLock(descriptor)

    def folder(self) -> Path | None:
        """Where lock files are, None if there is no place for them.

        All users must come to the same result, so it does not depend on who asks.
        """
        for name in _FOLDERS:
            folder = self._root / name
            try:
                mode = folder.stat().st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode) and mode & stat.S_IWOTH:
                return folder
        return None

    def _opened(self, path: str) -> int | None:
        """The lock file of a port, None where there can be none."""
        folder = self.folder()
        if fcntl is None or folder is None:
            return None
        file = folder / f"fitzroy-usb-{path}.lock"
        common = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            # Linux refuses O_CREAT for files of other users in such folders.
            return os.open(file, common)
        except FileNotFoundError:
            pass
        except OSError:
            return None
        try:
            descriptor = os.open(file, common | os.O_CREAT, 0o666)
            os.fchmod(descriptor, 0o666)
        except OSError:
            return None
        return descriptor

    # --- owners ----------------------------------------------------------------------------------

    def holder(self, attached: Attached) -> Holder:
        """Who has a device whose interface cannot be claimed, as far as this user may know."""
        driver = self.driver(attached.path)
        if driver not in ("", "usbfs"):
            return Holder(driver=driver)
        bus = attached.path.partition("-")[0]
        node = f"/dev/bus/usb/{int(bus):03d}/{attached.address:03d}" if bus.isdigit() else ""
        pid = next(self._users(node), 0)
        return Holder(pid, self._command(pid))

    def driver(self, path: str) -> str:
        """The kernel's driver of the first interface: empty for none, ``usbfs`` for a claim."""
        try:
            link = os.readlink(self._root / f"sys/bus/usb/devices/{path}:1.0/driver")
        except OSError:
            return ""
        return os.path.basename(link)

    def _users(self, node: str) -> Iterator[int]:
        """Processes that have a file open, other than this one; those of others are not seen."""
        folders = (self._root / "proc").glob("[0-9]*/fd") if node else ()
        for folder in folders:
            pid = int(folder.parent.name)
            if pid == os.getpid():
                continue
            try:
                found = any(os.readlink(entry) == node for entry in os.scandir(folder))
            except OSError:
                continue
            if found:
                yield pid

    def _command(self, pid: int) -> str:
        try:
            return (self._root / f"proc/{pid}/comm").read_text().strip() if pid else ""
        except OSError:
            return ""

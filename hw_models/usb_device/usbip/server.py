"""A USB/IP server for virtual devices.

One thread accepts connections, one watches whether devices are plugged in, and each connection is
served by a thread of its own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from fitzroy.base.errors import FitzroyError, UsageError
from fitzroy.hw_models.usb_device.transfer import UsbDevice
from fitzroy.hw_models.usb_device.usbip.messages import (
    PORT,
    DeviceEntry,
    ImportStatus,
    InterfaceEntry,
    OpCode,
    OpHeader,
    list_reply,
    read_op,
)
from fitzroy.hw_models.usb_device.usbip.session import Export, Report, Session
from fitzroy.hw_models.usb_device.usbip.stream import SocketStream
from fitzroy.hw_models.usb_device.usbip.watch import Kind, Occurrence, Watcher

MOST_CONNECTIONS = 64
"""Most connections at a time."""

_REQUEST_SECONDS = 10.0
"""How long a connection may take to say what it wants, however its bytes come."""

_WATCH_SECONDS = 0.05
"""How often devices are looked at."""

_ACCEPT_SECONDS = 0.5
"""How often the listener looks whether to stop."""

_CLOSE_SECONDS = 5.0
"""How long closing waits for a device that computes."""

_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Server:
    """Serves devices to clients on the network.

    Args:
        devices: what to serve; named 1-1, 1-2...
        report: called with all that happens, from any thread, one call at a time.
        renew: makes a device in place of one that a client has released, by its position; without
            it, devices stay as clients leave them.
    """

    def __init__(
        self,
        devices: Sequence[UsbDevice],
        report: Report = lambda _: None,
        renew: Callable[[int], UsbDevice] | None = None,
    ) -> None:
        self.exports = tuple(
            Export(number, device, generation=device.generation, connected=device.connected)
            for number, device in enumerate(devices, start=1)
        )
        self._renew = renew
        self._tell = report
        self._telling = threading.Lock()
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        # Those of them that have not said yet what they want, the oldest first.
        self._asking: dict[socket.socket, str] = {}
        self._closing = threading.Event()
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    def open(self, host: str = "127.0.0.1", port: int = PORT) -> tuple[str, int]:
        """Start to serve.

        Args:
            host: address or name of the interface to listen on.
            port: TCP port; 0 takes a free one.

        Returns:
            the address and the port.

        Raises:
            UsageError: the address is not one of this host, or the port is in use.
        """
        try:
            family, _, _, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._listener = socket.create_server(address[:2], family=family)
            # Not every system wakes up `accept` when the socket is closed.
            self._listener.settimeout(_ACCEPT_SECONDS)
        except OSError as error:
            raise UsageError(
                "cannot listen",
                reason=error.strerror or str(error),
                where=f"{host}:{port}",
                hint="is another server running, usbipd for example? --port 0 takes a free port; "
                "ports below 1024 need root; --host must be an address of this machine",
            ) from error
        for name, run in (("accept", self._accept), ("watch", self._watch)):
            thread = threading.Thread(target=run, name=f"usbip-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        bound = self._listener.getsockname()
        return bound[0], bound[1]

    def close(self) -> None:
        """End all connections and stop; waits a few seconds for devices that compute."""
        self._closing.set()
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for export in self.exports:
            if export.session is not None:
                export.session.end("the server stops")
        with self._lock:
            connections = dict(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in (*self._threads, *connections.values()):
            thread.join(_CLOSE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _report(self, occurrence: Occurrence) -> None:
        with self._telling:
            self._tell(occurrence)

    def _accept(self) -> None:
        listener = self._listener
        while listener is not None and not self._closing.is_set():
            try:
                connection, address = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # Out of files, for example: connections that end make room.
                self._closing.wait(_WATCH_SECONDS)
                continue
            peer = f"{address[0]}:{address[1]}"
            self._make_room()
            with self._lock:
                if len(self._connections) >= MOST_CONNECTIONS:
                    thread = None
                else:
                    thread = threading.Thread(
                        target=self._serve, args=(connection, peer), name="usbip", daemon=True
                    )
                    self._connections[connection] = thread
                    self._asking[connection] = peer
            if thread is None:
                connection.close()
                text = f"{peer}: there are {MOST_CONNECTIONS} connections already"
                self._report(Occurrence(Kind.REFUSE, "", text))
            else:
                thread.start()

    def _make_room(self) -> None:
        """Give up the connection that has asked for nothing for longest, if there are too many.

        Clients that say nothing, or a byte now and then, do not keep others out.
        """
        with self._lock:
            if len(self._connections) < MOST_CONNECTIONS or not self._asking:
                return
            silent = next(iter(self._asking))
            peer, thread = self._asking.pop(silent), self._connections[silent]
        with contextlib.suppress(OSError):
            silent.shutdown(socket.SHUT_RDWR)
        thread.join(_ACCEPT_SECONDS)
        text = f"{peer}: it asks for nothing, and others want its place"
        self._report(Occurrence(Kind.REFUSE, "", text))

    def _watch(self) -> None:
        """Notice devices that are unplugged or plugged in."""
        while not self._closing.wait(_WATCH_SECONDS):
            for export in self.exports:
                device, session = export.device, export.session
                if session is not None and session.stale():
                    session.end("the device was unplugged")
                connected = device.connected
                if connected != export.connected:
                    export.connected = connected
                    kind, text = (
                        (Kind.PLUG, "plugged in") if connected else (Kind.UNPLUG, "unplugged")
                    )
                    self._report(Occurrence(kind, export.busid, text))

    # --- one connection ---------------------------------------------------------------------------

    def _serve(self, connection: socket.socket, peer: str) -> None:
        busid = ""
        try:
            with connection, SocketStream(connection, _REQUEST_SECONDS) as stream:
                _configure(connection)
                request = read_op(stream)
                with self._lock:
                    self._asking.pop(connection, None)
                if request is not None:
                    header, body = request
                    if header.code is OpCode.REQUEST_LIST:
                        connection.sendall(list_reply(self._free()))
                    else:
                        busid = body.busid
                        self._import(connection, stream, busid, peer)
        except (FitzroyError, OSError) as error:
            if not self._closing.is_set():
                self._report(Occurrence(Kind.ERROR, busid, f"{peer}: {error}", {"peer": peer}))
        finally:
            with self._lock:
                del self._connections[connection]
                self._asking.pop(connection, None)

    def _free(self) -> list[tuple[DeviceEntry, list[InterfaceEntry]]]:
        """Devices that a client could import."""
        return [
            export.entry()
            for export in self.exports
            if export.session is None and export.device.connected
        ]

    def _import(
        self, connection: socket.socket, stream: SocketStream, busid: str, peer: str
    ) -> None:
        found = next((export for export in self.exports if export.busid == busid), None)
        session, reason = None, "there is no such device"
        if found is not None:
            session, reason = self._claim(found, connection)
        if found is None or session is None:
            header = OpHeader(code=OpCode.REPLY_IMPORT, status=ImportStatus.ERROR)
            connection.sendall(header.pack())
            figures: dict[str, Any] = {"peer": peer, "reason": reason}
            self._report(Occurrence(Kind.REFUSE, busid, f"{peer}: {reason}", figures))
            return
        try:
            entry, _ = found.entry()
            connection.sendall(OpHeader(code=OpCode.REPLY_IMPORT).pack() + entry.pack())
            connection.settimeout(None)
            text = f"by {peer} as {entry.vendor:04x}:{entry.product:04x}"
            figures = {"peer": peer, "vendor": entry.vendor, "product": entry.product}
            self._report(Occurrence(Kind.IMPORT, busid, text, figures))
            session.serve(stream, entry)
        finally:
            session.end("the client went away")
            self._release(found)
            figures = {"peer": peer, "reason": session.reason}
            self._report(Occurrence(Kind.RELEASE, busid, session.reason, figures))

    def _claim(self, export: Export, connection: socket.socket) -> tuple[Session | None, str]:
        """Give a device to a connection, or say why not."""
        busy = "another client has it"
        if export.session is not None:
            return None, busy
        # A device may answer late, so it is not asked while others wait for the lock.
        generation = export.device.generation
        if not export.device.connected:
            return None, "it is not plugged in"
        session = Session(export, connection, self._report)
        with self._lock:
            if export.session is not None:
                return None, busy
            export.generation, export.session = generation, session
        return session, ""

    def _release(self, export: Export) -> None:
        device, watcher = export.device, export.watcher
        if self._renew is not None and not self._closing.is_set():
            device, watcher = self._renew(export.number - 1), Watcher()
        export.device, export.watcher = device, watcher
        export.session = None


def _configure(connection: socket.socket) -> None:
    """Small messages go out at once, and a client that vanished is noticed."""
    connection.settimeout(_REQUEST_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

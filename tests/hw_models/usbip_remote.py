"""A device that another process or thread serves over USB/IP, as the kernel of a host sees it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from tests.hw_models.usbip_client import Client

from fitzroy.hw_models.chips.usb import SetupPacket, Speed
from fitzroy.hw_models.usb_device.transfer import Status, Transfer

_STATUS = {
    0: Status.OK,
    -32: Status.STALL,
    -75: Status.OVERFLOW,
    -71: Status.ERROR,
    -104: Status.CANCELLED,
    -108: Status.NO_DEVICE,
}
_SPEEDS = {3: Speed.HIGH, 5: Speed.SUPER}


class RemoteDevice:
    """A `UsbDevice` behind a client of USB/IP; what the driver does on it goes over a socket.

    Args:
        port: TCP port of the server.
        busid: the device.
    """

    def __init__(self, port: int, busid: str = "1-1") -> None:
        self.client = Client(port, busid)
        self.generation = 1
        self.connected = True
        self.speed = _SPEEDS[self.client.device.speed]
        self.idle = False
        self._lock = threading.Lock()
        self._under_way: dict[int, Transfer] = {}
        self._unlinks: dict[int, int] = {}
        self._known = self._read_descriptors(self._wait_before)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.client.connection.shutdown(2)
        self._reader.join(10)
        self.client.connection.close()

    def descriptors(self) -> tuple[bytes, bytes]:
        return self._known

    def submit(self, transfer: Transfer) -> None:
        setup = bytes(8)
        if transfer.setup is not None:
            setup = transfer.setup.pack().to_bytes(8, "little")
        with self._lock:
            seq = self.client.submit(
                transfer.endpoint,
                transfer.data,
                room=transfer.length if transfer.inward else 0,
                setup=setup,
                inward=transfer.inward,
            )
            self._under_way[seq] = transfer

    def cancel(self, transfer: Transfer) -> bool:
        with self._lock:
            for seq, found in self._under_way.items():
                if found is transfer:
                    self._unlinks[self.client.unlink(seq)] = seq
                    return True
        return False

    def reset(self) -> None:
        # As a kernel does: it resets the port, and reads the descriptors anew.
        found = self._read_descriptors(self._wait_after)
        if found != self._known:
            self._known = found
            self.generation += 1

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                reply = self.client.next()
                with self._lock:
                    if reply.command == 4:
                        victim = self._unlinks.pop(reply.seq)
                        transfer = self._under_way.pop(victim, None)
                        status = Status.CANCELLED
                    else:
                        transfer = self._under_way.pop(reply.seq, None)
                        status = _STATUS[reply.status]
                if transfer is not None:
                    transfer.sent = 0 if transfer.inward else reply.actual
                    transfer.received = reply.data
                    transfer.end(status)
        with self._lock:
            left, self._under_way = list(self._under_way.values()), {}
        self.connected = False
        for transfer in left:
            transfer.end(Status.NO_DEVICE)

    # --- descriptors -----------------------------------------------------------------------------

    def _read_descriptors(self, ask: Callable[[int, int], bytes]) -> tuple[bytes, bytes]:
        device = ask(1, 18)
        total = int.from_bytes(ask(2, 9)[2:4], "little")
        return device, ask(2, total)

    def _wait_before(self, kind: int, size: int) -> bytes:
        return self.client.read(0x80, 6, kind << 8, 0, size)

    def _wait_after(self, kind: int, size: int) -> bytes:
        ended = threading.Event()
        transfer = Transfer(
            0, SetupPacket(0x80, 6, kind << 8, 0, size), length=size, done=lambda _: ended.set()
        )
        self.submit(transfer)
        assert ended.wait(20)
        assert transfer.status is Status.OK
        return transfer.received

"""Several writes under way, on libusb's own interface: order, number, failures, recalls."""

from __future__ import annotations

import ctypes
import errno
import shutil
import subprocess
import sys
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, echo
from usb.backend import libusb1

from fitzroy.driver.device.limits import Limits
from fitzroy.driver.device.streams import Message, Streams
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, virtual_device
from fitzroy.driver.runtime.prepared import Pieces
from fitzroy.driver.transports import outgoing
from fitzroy.driver.transports.outgoing import LibusbOutgoing, address_of
from fitzroy.driver.transports.transport import (
    IN_FLIGHT,
    Attached,
    BabbleError,
    LostError,
    Payload,
    Room,
    StallError,
    TransactionError,
    TransferError,
    TransferTimeoutError,
)
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.hw_models.chips.usb import Tag
from fitzroy.hw_models.usb_device.device import VirtualDevice

OUT = 1
ROW = np.arange(SIZE).astype(np.uint8)

# The structure is that of libusb.h, written down anew: a mistake in the offsets that the driver
# uses would show.
LIBRARY = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

struct transfer {
    void *handle; unsigned char flags; unsigned char endpoint; unsigned char type;
    unsigned int timeout; int status; int length; int actual_length;
    void (*callback)(struct transfer *); void *user_data; unsigned char *buffer;
    int num_iso_packets;
};

static struct transfer *queue[64];
static int queued;
int allocated, freed, waits, cancelled, most_queued, submit_code;
int next_status, next_actual = -1, ends = 1;
unsigned char sent[1 << 22];
int sent_bytes, endpoints[256], transfers;

void *libusb_alloc_transfer(int packets) {
    allocated++;
    return calloc(1, sizeof(struct transfer));
}
void libusb_free_transfer(struct transfer *t) { freed++; free(t); }
int libusb_submit_transfer(struct transfer *t) {
    if (submit_code) return submit_code;
    if (t->type != 2 || t->timeout) return -2;
    queue[queued++] = t;
    if (queued > most_queued) most_queued = queued;
    return 0;
}
static void end(int place, int status, int actual) {
    struct transfer *t = queue[place];
    memmove(queue + place, queue + place + 1, (queued - place - 1) * sizeof *queue);
    queued--;
    t->status = status;
    t->actual_length = actual;
    if (status == 0) {
        memcpy(sent + sent_bytes, t->buffer, actual);
        sent_bytes += actual;
        endpoints[transfers++] = t->endpoint;
    }
    t->callback(t);
}
int libusb_bulk_transfer(
    void *handle, unsigned char endpoint, unsigned char *data, int length, int *went, unsigned ms
) {
    for (int i = 0; i < length - 5; i++) data[i] = i * 3 + endpoint;
    *went = length - 5;
    return 0;
}
int libusb_cancel_transfer(struct transfer *t) {
    for (int i = 0; i < queued; i++) {
        if (queue[i] == t) { cancelled = cancelled * 10 + i + 1; end(i, 3, 0); return 0; }
    }
    return -5;
}
int libusb_handle_events_timeout_completed(void *ctx, struct timeval *tv, int *completed) {
    waits++;
    if (queued && ends) {
        int actual = next_actual < 0 ? queue[0]->length : next_actual;
        end(0, next_status, next_status ? 0 : actual);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("libusb")
    (folder / "usb.c").write_text(LIBRARY)
    path = folder / "usb.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, folder / "usb.c"], check=True)
    return path


class Libusb:
    """A library that keeps what it is given, and ends a transfer per wait."""

    def __init__(self, path: Path, folder: Path) -> None:
        # Every test has variables of its own.
        own = folder / "own.so"
        shutil.copy(path, own)
        self.library = ctypes.CDLL(str(own))
        self.library.libusb_alloc_transfer.restype = ctypes.POINTER(libusb1._libusb_transfer)
        self.library.libusb_submit_transfer.argtypes = [ctypes.POINTER(libusb1._libusb_transfer)]
        self.library.libusb_free_transfer.argtypes = [ctypes.POINTER(libusb1._libusb_transfer)]
        outgoing.declare(self.library)
        backend = SimpleNamespace(lib=self.library, ctx=None)
        self.outgoing = LibusbOutgoing(backend, SimpleNamespace(handle=ctypes.c_void_p(1234)))

    def __getitem__(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, name).value

    def __setitem__(self, name: str, value: int) -> None:
        ctypes.c_int.in_dll(self.library, name).value = value

    @property
    def sent(self) -> bytes:
        return bytes((ctypes.c_ubyte * self["sent_bytes"]).in_dll(self.library, "sent"))


@pytest.fixture
def libusb(compiled: Path, tmp_path: Path) -> Libusb:
    return Libusb(compiled, tmp_path)


@pytest.mark.parametrize(
    "data", [b"bytes", array("B", b"array"), memoryview(b"view")[1:], ROW.data, ROW[7:90].data]
)
def test_bytes_are_not_copied(data: Payload, libusb: Libusb) -> None:
    place = address_of(data)
    assert ctypes.string_at(place, len(data)) == bytes(data)
    libusb.outgoing.post(OUT, data)
    libusb.outgoing.settle(1.0)
    assert libusb.sent == bytes(data)
    assert libusb.outgoing.under_way == 0


class Port:
    """A transport that has nothing but what goes out."""

    def __init__(self, libusb: Libusb) -> None:
        self.attached = Attached("1-1", 1, 0, 0, None)
        self.post = libusb.outgoing.post
        self.settle = libusb.outgoing.settle
        self.check = libusb.outgoing.check
        self._outgoing = libusb.outgoing

    @property
    def under_way(self) -> int:
        return self._outgoing.under_way


def test_three_at_a_time_in_order(libusb: Libusb) -> None:
    transport: Any = Port(libusb)
    streams = Streams(transport, Limits(), False, lambda: None)
    watch = Limits().watch(5.0)
    content = [bytes([n]) * (n * 1000 + 1) for n in range(9)]
    for part in content:
        streams.send(Message.of(Tag.INPUT, part), watch)
    assert libusb["most_queued"] == IN_FLIGHT == 3
    assert 0 < transport.under_way <= 3
    streams.settle(watch)
    assert transport.under_way == 0
    sent = b"".join(len(part).to_bytes(4, "little") + b"\1\0\0\0" + part for part in content)
    assert libusb.sent == sent
    # Transfers are made once, and used again; none is waited for that has ended.
    assert libusb["allocated"] == 3
    assert libusb["waits"] == libusb["transfers"] == 2 * len(content)
    libusb.outgoing.close()
    assert libusb["freed"] == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (1, TransactionError),
        (3, TransferError),
        (4, StallError),
        (5, LostError),
        (6, BabbleError),
        (9, TransferError),
    ],
)
def test_failures_have_types(libusb: Libusb, status: int, kind: type[TransferError]) -> None:
    for n in range(3):
        libusb.outgoing.post(OUT, bytes([n]))
    libusb["next_status"] = status
    with pytest.raises(TransferError) as caught:
        libusb.outgoing.settle(1.0)
    assert type(caught.value) is kind
    # Those after it do not go out: the last one was recalled first.
    assert libusb.outgoing.under_way == 0
    assert libusb["cancelled"] == 21
    assert libusb.sent == b""
    libusb["next_status"] = 0
    libusb.outgoing.post(OUT, b"again")
    libusb.outgoing.settle(1.0)
    assert libusb.sent == b"again"


def test_a_transfer_that_goes_in_part(libusb: Libusb) -> None:
    libusb["next_actual"] = 3
    libusb.outgoing.post(OUT, b"12345")
    with pytest.raises(TransactionError, match="3 of 5 bytes went"):
        libusb.outgoing.settle(1.0)


def test_time_limits_leave_transfers_under_way(libusb: Libusb) -> None:
    libusb["ends"] = 0
    libusb.outgoing.post(OUT, b"12345")
    for _ in range(3):
        with pytest.raises(TransferTimeoutError):
            libusb.outgoing.settle(0.001)
        libusb.outgoing.check()
        assert libusb.outgoing.under_way == 1
    assert libusb["cancelled"] == 0
    libusb["ends"] = 1
    libusb.outgoing.settle(1.0)
    assert libusb.sent == b"12345"


def test_another_thread_sees_failures_without_a_wait(libusb: Libusb) -> None:
    for _ in range(2):
        libusb.outgoing.post(OUT, b"12345")
    libusb["next_status"] = 4
    libusb.library.libusb_handle_events_timeout_completed(None, None, None)
    with pytest.raises(StallError):
        libusb.outgoing.check()
    assert libusb.outgoing.under_way == 2


def test_what_went_belongs_to_its_sender_again(libusb: Libusb) -> None:
    data = np.zeros(100_000, np.uint8)
    before = sys.getrefcount(data)
    for _ in range(3):
        libusb.outgoing.post(OUT, data.data)
    assert sys.getrefcount(data) > before
    while libusb.outgoing.under_way:
        libusb.outgoing.settle(1.0)
    assert sys.getrefcount(data) == before
    libusb.outgoing.post(OUT, data.data)
    libusb.outgoing.recall()
    assert sys.getrefcount(data) == before


def test_outputs_arrive_in_the_memory_that_is_given(libusb: Libusb) -> None:
    backend = object.__new__(libusb1._LibUSB)
    backend.lib = libusb.library
    backend._finalizer = lambda: None
    room = Room.of(300)
    room[:] = 255
    part = room[10:200].view(Room)
    count = backend.bulk_read(SimpleNamespace(handle=None), 0x81, 0, part, 100)
    assert count == 185
    assert room[10:195].tolist() == [(n * 3 + 0x81) & 0xFF for n in range(185)]
    assert (room[:10] == 255).all()
    assert (room[195:] == 255).all()


@pytest.mark.parametrize(("code", "kind"), [(-4, LostError), (-1, TransferError)])
def test_refusals(libusb: Libusb, code: int, kind: type[TransferError]) -> None:
    libusb["submit_code"] = code
    with pytest.raises(TransferError, match=f"says {code}") as caught:
        libusb.outgoing.post(OUT, b"12345")
    assert type(caught.value) is kind
    assert libusb.outgoing.under_way == 0


@pytest.mark.parametrize(("first", "end"), [(0, 2057), (0, 2048), (1024, 2057), (5, 2057), (3, 9)])
def test_bytes_in_two_places(first: int, end: int) -> None:
    content = bytes(n * 7 & 0xFF for n in range(2057))
    pieces = Pieces(memoryview(content)[:2048], memoryview(content)[2048:]).cut(first, end)
    assert b"".join(pieces) == content[first:end]
    assert all(len(piece) % 1024 == 0 for piece in pieces[:-1])


# --- on virtual devices --------------------------------------------------------------------------


def test_inputs_of_the_caller_are_sent_as_they_are() -> None:
    with virtual_device(DeviceOptions(limits=SIMULATED), VirtualDevice(booted=True)) as host:
        x = ROW.copy()
        assert (host.run(echo(), {"x": x}).tensors["y"] == ROW).all()
        # What runs in the background has a copy: the caller may go on with the array.
        request = host.submit(echo(), {"x": x})
        x[:] = 0
        assert (request.result(10).tensors["y"] == ROW).all()
        strided = np.repeat(ROW, 2)[::2]
        assert (host.run(echo(), {"x": strided}).tensors["y"] == ROW).all()


def test_writes_to_a_device_that_is_gone() -> None:
    device = VirtualDevice(booted=True)
    backend = VirtualBackend([device])
    (found,) = backend.enumerate_devices()
    handle = backend.open_device(found)
    queue = backend.outgoing(handle)
    with pytest.raises(TransferError):
        queue.post(OUT, b"not claimed")
    backend.claim_interface(handle, 0)
    device.unplug()
    with pytest.raises(LostError) as caught:
        queue.post(OUT, b"gone")
    assert str(errno.ENODEV) in str(caught.value)

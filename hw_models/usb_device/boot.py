"""The boot ROM: takes the firmware by DFU, and gives it back.

Source: USB DFU 1.1, appendix A, for states and what each accepts; published captures of real
devices for the size of a block and for the 32 KiB that an upload returns.
"""

from __future__ import annotations

from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.usb import (
    DfuError,
    DfuRequest,
    DfuState,
    DfuStatus,
    RequestType,
    SetupPacket,
    to_bytes,
)

MEMORY_BYTES = 32 << 10
"""Memory of the firmware: so much does an upload return."""

BLOCK_BYTES = BEAGLE.usb.dfu_block

_GIVES_UP = (
    DfuState.IDLE,
    DfuState.DOWNLOAD_SYNC,
    DfuState.DOWNLOAD_IDLE,
    DfuState.MANIFEST_SYNC,
    DfuState.UPLOAD_IDLE,
)
"""States in which ABORT is legal."""


class BootRom:
    """The boot ROM from power-up on.

    Attributes:
        state: where in the protocol it is.
        error: why it is in the state ERROR.
        firmware: bytes of the last finished download; empty without one.
    """

    def __init__(self) -> None:
        self.state = DfuState.IDLE
        self.error = DfuError.OK
        self.firmware = b""
        self._memory = bytearray(MEMORY_BYTES)
        self._size = 0

    def control(self, setup: SetupPacket, data: bytes) -> bytes | None:
        """A class request: the answer, empty for requests with data to the ROM; None to stall."""
        try:
            request = DfuRequest(setup.request)
        except ValueError:
            self._fail(DfuError.STALLED_PACKET)
            return None
        inward = setup.request_type == RequestType.CLASS_IN
        if inward is not (request in _ANSWERED) or setup.index:
            self._fail(DfuError.STALLED_PACKET)
            return None
        match request:
            case DfuRequest.GET_STATUS:
                return self._status()
            case DfuRequest.GET_STATE:
                return bytes([self.state])
            case DfuRequest.CLEAR_STATUS if self.state is DfuState.ERROR:
                self.state, self.error = DfuState.IDLE, DfuError.OK
                return b""
            case DfuRequest.ABORT if self.state in _GIVES_UP:
                self.state = DfuState.IDLE
                return b""
            case DfuRequest.DOWNLOAD:
                return self._download(setup.value, data)
            case DfuRequest.UPLOAD if self.state in (DfuState.IDLE, DfuState.UPLOAD_IDLE):
                return self._upload(setup.value, setup.length)
        self._fail(DfuError.STALLED_PACKET)
        return None

    def _fail(self, error: DfuError) -> None:
        # The first error stays until it is cleared.
        if self.state is not DfuState.ERROR:
            self.state, self.error = DfuState.ERROR, error

    def _status(self) -> bytes:
        if self.state is DfuState.DOWNLOAD_SYNC:
            self.state = DfuState.DOWNLOAD_IDLE
        elif self.state is DfuState.MANIFEST_SYNC:
            self.firmware = bytes(self._memory[: self._size])
            self.state = DfuState.IDLE
        return to_bytes(DfuStatus(status=self.error, state=self.state))

    def _download(self, block: int, data: bytes) -> bytes | None:
        at = block * BLOCK_BYTES
        match self.state:
            case DfuState.IDLE if data:
                self._memory = bytearray(MEMORY_BYTES)
                self._size = 0
                self.firmware = b""
            case DfuState.DOWNLOAD_IDLE:
                pass
            case _:
                self._fail(DfuError.STALLED_PACKET)
                return None
        if not data:
            self.state = DfuState.MANIFEST_SYNC
            return b""
        if len(data) > BLOCK_BYTES:
            self._fail(DfuError.UNKNOWN)
            return None
        if at + len(data) > MEMORY_BYTES:
            self._fail(DfuError.ADDRESS)
            return None
        self._memory[at : at + len(data)] = data
        self._size = max(self._size, at + len(data))
        self.state = DfuState.DOWNLOAD_SYNC
        return b""

    def _upload(self, block: int, length: int) -> bytes:
        at = block * BLOCK_BYTES
        data = bytes(self._memory[at : at + length])
        self.state = DfuState.UPLOAD_IDLE if len(data) == length else DfuState.IDLE
        return data


_ANSWERED = (DfuRequest.UPLOAD, DfuRequest.GET_STATUS, DfuRequest.GET_STATE)
"""Requests with data to the host."""

"""Objects that references point to, with counted references.

Numbers of references are kept by hand, as in the VM, because the time at which an object is
destroyed is visible to modules.
"""

from __future__ import annotations

from typing import ClassVar

BYTE_BUFFER = "iree.byte_buffer"
MUTABLE_BYTE_BUFFER = "iree.mutable_byte_buffer"


class Object:
    """Something that references point to; the one who makes it has the first reference."""

    type_name: ClassVar[str]

    def __init__(self) -> None:
        self.references = 1

    def retain(self) -> None:
        """One more reference."""
        self.references += 1

    def release(self) -> None:
        """One reference less; without any, the object is destroyed."""
        self.references -= 1
        if not self.references:
            self.destroyed()

    def destroyed(self) -> None:
        """The last reference is gone."""


class ByteBuffer(Object):
    """Bytes that do not change."""

    type_name = BYTE_BUFFER

    def __init__(self, data: bytes | memoryview) -> None:
        super().__init__()
        self.data = memoryview(data).toreadonly()


class MutableByteBuffer(Object):
    """Bytes that may change."""

    type_name = MUTABLE_BYTE_BUFFER

    def __init__(self, data: bytes | bytearray) -> None:
        super().__init__()
        self.data = memoryview(bytearray(data))


Buffer = ByteBuffer | MutableByteBuffer

Value = int | Object | None
"""An argument or result: 32 bits, or a reference, which may be null."""


def wrap(value: int) -> int:
    """The signed number of the low 32 bits."""
    return (value + 0x80000000 & 0xFFFFFFFF) - 0x80000000


def assign(
    bank: list[Object | None], register: int, source: list[Object | None], number: int, move: bool
) -> None:
    """Copy a reference to a register, or take it there.

    What the register held is released, unless it is the same object.
    """
    found, held = source[number], bank[register]
    if move:
        source[number] = None
    elif found is not None:
        found.retain()
    bank[register] = found
    if held is not None and held is not found:
        held.release()


def take(bank: list[Object | None], number: int, move: bool) -> Object | None:
    """A reference of a register, which its receiver has to release."""
    found = bank[number]
    if move:
        bank[number] = None
    elif found is not None:
        found.retain()
    return found


def give(bank: list[Object | None], register: int, found: Object | None) -> None:
    """Put a reference into a register, which has to release it then."""
    held = bank[register]
    bank[register] = found
    if held is not None and held is not found:
        held.release()


def clear(bank: list[Object | None], count: int) -> None:
    """Release the references of the first registers."""
    for number in range(count):
        found = bank[number]
        if found is not None:
            bank[number] = None
            found.release()

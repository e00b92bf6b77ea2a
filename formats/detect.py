"""Which format a file has, told from its content."""

from __future__ import annotations

from enum import Enum

from fitzroy.base.errors import FormatError
from fitzroy.formats import darwinn, flat
from fitzroy.formats.strangers import stranger


class FileKind(Enum):
    """Formats that FitzRoy knows; the value is the name for messages."""

    TFLITE = "TFLite model"
    ONNX = "ONNX model"
    PROGRAM = "ExecuTorch program"
    BUNDLED_PROGRAM = "ExecuTorch bundled program"
    BUNDLED_PROGRAM_BP04 = "ExecuTorch bundled program of 2023"
    XNNPACK = "XNNPACK graph"
    DARWINN = "DarwiNN package"
    EXECUTABLE = "DarwiNN executable"
    OBJECT = "FitzRoy object"
    MODULE = "bytecode module"
    GRAPH_TEXT = "graph text"

    @property
    def noun(self) -> str:
        """The name with its indefinite article, as it is spoken."""
        return f"an {self.value}" if self.value[0] in "AEIOUXaeiou" else f"a {self.value}"


IDENTIFIERS = {
    b"TFL3": FileKind.TFLITE,
    b"ET12": FileKind.PROGRAM,
    b"BP08": FileKind.BUNDLED_PROGRAM,
    b"BP04": FileKind.BUNDLED_PROGRAM_BP04,
    b"XN00": FileKind.XNNPACK,
    b"XN01": FileKind.XNNPACK,
    b"XH00": FileKind.XNNPACK,
    b"DWN1": FileKind.DARWINN,
    b"FZO1": FileKind.OBJECT,
    b"BMOD": FileKind.MODULE,
}
"""Kinds by the four bytes at offset 4."""

_TEXT = b"graph "


def detect(data: bytes | bytearray | memoryview, path: str = "") -> FileKind:
    """The format of a file.

    The first bytes decide, and the reader of the format judges the rest. A serialized executable
    has no mark there: what no other format claims is one if its tables decode as one that has
    instructions for a chip, which other data does not by accident.

    Args:
        data: the file; its first 32 bytes suffice for all formats but executables.
        path: name of the file, for errors.

    Raises:
        FormatError: no known format; says what the file seems to be.
    """
    head = bytes(data[:32])
    if head.startswith(_TEXT):
        return FileKind.GRAPH_TEXT
    kind = IDENTIFIERS.get(head[4:8])
    if kind is not None:
        return kind
    if not head:
        raise FormatError("the file is empty", path=path, offset=0)
    found = stranger(data, path)
    if found is not None:
        offset, what = found
        raise FormatError(f"this is {what.title}", path=path, offset=offset, hint=what.route)
    if _is_onnx(head):
        return FileKind.ONNX
    if _is_executable(data):
        return FileKind.EXECUTABLE
    raise FormatError(
        f"the file starts with {head[:8]!r}, which no known format does",
        path=path,
        offset=0,
        hint=f"what is read: {', '.join(f'{kind.value}s' for kind in FileKind)}",
    )


_FIELDS_AFTER_VERSION = b"\x12\x1a\x22\x28\x32\x3a\x42"


def _is_onnx(head: bytes) -> bool:
    """Whether bytes begin as serialized ONNX models do.

    They are protocol buffers without a mark, but begin with the version of the representation, a
    small number in field 1, and another field of ModelProto follows.
    """
    return (
        len(head) > 2
        and head[0] == 0x08
        and 1 <= head[1] < 0x80
        and head[2] in _FIELDS_AFTER_VERSION
    )


def _is_executable(data: bytes | bytearray | memoryview) -> bool:
    try:
        executable = flat.decode(darwinn.Executable, data)
    except FormatError:
        return False
    return bool(executable.chip and executable.instruction_bitstreams)

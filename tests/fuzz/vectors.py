"""Mutations of what tables hold besides numbers: texts, and vectors of bytes."""

from __future__ import annotations

import random
import tempfile
import zlib
from collections.abc import Callable

import numpy as np
from tests.fuzz import hostile, targets
from tests.fuzz.mutate import mutant
from tests.fuzz.shell import command
from tests.fuzz.tables import UNWRITABLE, walk

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import bytecode_module, darwinn, executorch, flat, object_file, tflite, xnnpack
from fitzroy.formats.detect import FileKind, detect
from fitzroy.formats.flat import Table

_PLACEHOLDER = "\ue001"
_MOST_BYTES = 1 << 20

Encode = Callable[[], bytes]


def opened(data: bytes) -> tuple[list[Table], Encode]:
    """The tables of a file, and what makes a file of them again.

    Raises:
        FormatError: the file is malformed, or of a kind without tables.
    """
    kind = detect(data)
    if kind is FileKind.DARWINN:
        return _package(data)
    if kind is FileKind.PROGRAM:
        file = executorch.read_program(data)
        segments = [bytes(segment) for segment in file.segments]
        return list(walk(file.program)), lambda: executorch.write_program(file.program, segments)
    if kind is FileKind.XNNPACK:
        blob = xnnpack.read_blob(data)
        constants = bytes(blob.constants)
        return list(walk(blob.graph)), lambda: xnnpack.write_blob(blob.graph, constants)
    if kind not in _ROOTS:
        raise FormatError(f"a {kind.value} has no tables that are mutated")
    root, identifier = _ROOTS[kind](data)
    return list(walk(root)), lambda: flat.encode(root, identifier=identifier)


_ROOTS: dict[FileKind, Callable[[bytes], tuple[Table, bytes]]] = {
    FileKind.TFLITE: lambda data: (tflite.read_model(data), tflite.IDENTIFIER),
    FileKind.OBJECT: lambda data: (object_file.read_object(data), object_file.IDENTIFIER),
    FileKind.MODULE: lambda data: (bytecode_module.read_module(data), bytecode_module.IDENTIFIER),
}


def _package(data: bytes) -> tuple[list[Table], Encode]:
    file = darwinn.read_package(data)

    def encode() -> bytes:
        inner = darwinn.MultiExecutable(
            serialized_executables=[
                np.frombuffer(flat.encode(executable), np.uint8) for executable in file.executables
            ]
        )
        file.package.serialized_multi_executable = np.frombuffer(flat.encode(inner), np.uint8)
        return flat.encode(file.package, identifier=darwinn.IDENTIFIER)

    return [*walk(file.package), *walk(file.executables)], encode


def _fields(tables: list[Table], kind: Callable[[object], bool]) -> list[tuple[Table, str, int]]:
    """Fields of a kind: the table, the name, and the place in a list or -1."""
    found = []
    for table in tables:
        for _, name, _kind in table.declared().fields:
            held = getattr(table, name)
            if kind(held):
                found.append((table, name, -1))
            elif isinstance(held, list):
                found += [(table, name, index) for index, item in enumerate(held) if kind(item)]
    return found


def _put(place: tuple[Table, str, int], item: object) -> None:
    table, name, index = place
    if index < 0:
        setattr(table, name, item)
    else:
        getattr(table, name)[index] = item


def _get(place: tuple[Table, str, int]) -> object:
    table, name, index = place
    held = getattr(table, name)
    return held if index < 0 else held[index]


def text_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A file with other texts: hostile ones, those of other fields, or bytes that are no text."""
    try:
        tables, encode = opened(seed)
        places = _fields(tables, lambda held: isinstance(held, str))
        spoilt = b""
        for place in rng.sample(places, min(len(places), rng.choice((1, 1, 2, 3, 20)))):
            kind = rng.random()
            if kind < 0.6:
                _put(place, hostile.text(rng))
            elif kind < 0.8:
                _put(place, _get(rng.choice(places)))
            else:
                spoilt = rng.choice(hostile.BYTES)
                _put(place, _PLACEHOLDER * len(spoilt))
        mark = _PLACEHOLDER.encode() * len(spoilt)
        content = encode()
        return content.replace(mark, spoilt.ljust(len(mark), b"\x80")) if spoilt else content
    except UNWRITABLE:
        return seed


def vector_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A file with other vectors of bytes: of another length, other bytes, or other vectors."""
    try:
        tables, encode = opened(seed)
        places = _fields(tables, _is_bytes)
        if not places:
            return seed
        for _ in range(rng.choice((1, 1, 2, 3))):
            place = rng.choice(places)
            _put(place, _other(rng, place, places, seeds))
        return encode()
    except UNWRITABLE:
        return seed


def _is_bytes(held: object) -> bool:
    return isinstance(held, np.ndarray) and held.dtype in (np.uint8, np.int8)


def _other(
    rng: random.Random,
    place: tuple[Table, str, int],
    places: list[tuple[Table, str, int]],
    seeds: list[bytes],
) -> Array | None:
    old = _get(place)
    held = old.tobytes() if isinstance(old, np.ndarray) else b""
    kind = rng.random()
    if kind < 0.1:
        return None if place[2] < 0 else np.zeros(0, np.uint8)
    if kind < 0.35:
        size = rng.choice((0, 1, 2, 3, 4, 7, 8, 15, 16, 64, len(held) - 1, len(held) + 1))
        changed = held[: max(size, 0)].ljust(max(size, 0), b"\0")
    elif kind < 0.4:
        changed = bytes([rng.choice((0, 0x7F, 0x80, 0xFF))]) * rng.choice((len(held), _MOST_BYTES))
    elif kind < 0.7:
        changed = mutant(rng, [held or b"\0"])
    elif kind < 0.9:
        other = _get(rng.choice(places))
        changed = other.tobytes() if isinstance(other, np.ndarray) else b""
    else:
        changed = rng.choice(seeds)[:_MOST_BYTES]
    return np.frombuffer(changed, np.uint8)


# --- what such files go through ------------------------------------------------------------------

_TARGETS: dict[FileKind, tuple[Callable[[bytes], None], ...]] = {
    FileKind.TFLITE: (targets.tflite_target, targets.custom_op_target),
    FileKind.PROGRAM: (targets.program_target,),
    FileKind.XNNPACK: (targets.xnnpack_target,),
    FileKind.DARWINN: (targets.darwinn_target,),
    FileKind.OBJECT: (targets.object_target,),
    FileKind.MODULE: (targets.module_target,),
}


def read_target(data: bytes) -> None:
    """Send a file through the targets of its kind.

    Raises:
        FitzroyError: the first refusal.
    """
    with targets.collected() as attempts:
        for item in _TARGETS.get(detect(data, "fuzz"), ()):
            with attempts:
                item(data)


def shown_target(data: bytes) -> None:
    """Send a file through the targets of its kind, and look at what commands print of it.

    Raises:
        FitzroyError: the first refusal.
        Misbehaviour: a command does what none may do.
    """
    salt = zlib.crc32(data)
    kind = detect(data, "fuzz")
    verb, *options = _SHOWN[salt % len(_SHOWN)]
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(data)
        file.flush()
        if verb != "explain" or kind is FileKind.TFLITE:
            command([verb, file.name, *options])
    read_target(data)


_SHOWN = (
    ("inspect",),
    ("inspect", "--json"),
    ("inspect", "--tables"),
    ("inspect", "--tables", "--json"),
    ("explain",),
    ("explain", "--json"),
    ("dis",),
    ("dis", "--json"),
)

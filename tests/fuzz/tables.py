"""Mutations of well-formed files: the tables stay readable, what they say does not."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator

import numpy as np
from tests.fuzz.mutate import mutant

from fitzroy.base.errors import FitzroyError
from fitzroy.formats import custom_op, darwinn, flat, object_file, tflite
from fitzroy.formats.flat import Table

_INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, -128, 255, 256, 1 << 15, (1 << 31) - 1, -(1 << 31))
UNWRITABLE = (
    FitzroyError, ValueError, OverflowError, TypeError, AttributeError, struct.error,
)  # fmt: skip
"""What writing a spoilt table raises."""

_REALS = (0.0, -1.0, 1e-38, 1e-45, 1e38, math.inf, -math.inf, math.nan, 0.5, 1.0)


def walk(value: object) -> Iterator[Table]:
    """A table, and the tables in it."""
    if isinstance(value, Table):
        yield value
        for _, name, _kind in value.declared().fields:
            yield from walk(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


def spoil(rng: random.Random, table: Table) -> None:
    """Change one field of a table."""
    names = [name for _, name, _kind in table.declared().fields]
    if not names:
        return
    name = rng.choice(names)
    item = getattr(table, name)
    if isinstance(item, bool):
        setattr(table, name, not item)
    elif isinstance(item, int):
        setattr(table, name, rng.choice(_INTEGERS))
    elif isinstance(item, float):
        setattr(table, name, rng.choice(_REALS))
    elif isinstance(item, np.ndarray) and item.size and item.dtype != np.uint8:
        changed = item.copy()
        values = _REALS if changed.dtype.kind == "f" else _INTEGERS
        changed.flat[rng.randrange(changed.size)] = rng.choice(values)
        setattr(table, name, changed if rng.random() < 0.8 else changed[: rng.randrange(3)])
    elif isinstance(item, list) and item:
        where = rng.randrange(len(item))
        setattr(table, name, item[:where] + item[where + rng.randrange(2) :] + item[:where][-1:])
    elif rng.random() < 0.5:
        setattr(table, name, None)


def _spoiled(rng: random.Random, root: flat.Table, identifier: bytes) -> bytes:
    """The bytes of a table after one to four changes of its fields, or of tables below it."""
    tables = list(walk(root))
    for _ in range(rng.randint(1, 4)):
        spoil(rng, rng.choice(tables))
    return flat.encode(root, identifier=identifier)


def table_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A model after one to four changes of fields; the seed itself where it cannot be written."""
    try:
        return _spoiled(rng, tflite.read_model(seed), tflite.IDENTIFIER)
    except UNWRITABLE:
        return seed


def package_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A DarwiNN package after changes of fields on all levels, or of bytes in an executable."""
    try:
        file = darwinn.read_package(seed)
        tables = [*walk(file.package), *walk(file.executables)]
        for _ in range(rng.randint(1, 4)):
            table = rng.choice(tables)
            if isinstance(table, darwinn.TensorShape):
                ends = [[rng.choice((0, 1, 2, -1, 1 << 30)) for _ in range(2)] for _ in range(2)]
                table.dimension = np.array(ends, np.int32)
            else:
                spoil(rng, table)
        contents = [flat.encode(executable) for executable in file.executables]
        if rng.random() < 0.3:
            contents = [mutant(rng, [content]) for content in contents]
        multi = darwinn.MultiExecutable(
            serialized_executables=[np.frombuffer(content, np.uint8) for content in contents]
        )
        inner = flat.encode(multi)
        file.package.serialized_multi_executable = np.frombuffer(inner, np.uint8)
        return flat.encode(file.package, identifier=darwinn.IDENTIFIER)
    except UNWRITABLE:
        return seed


def wrapped_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A TFLite model after changes of fields of its own, of its packages, or of its options."""
    model = tflite.read_model(seed)
    operators = [
        operator
        for subgraph in model.subgraphs or ()
        for operator in subgraph.operators or ()
        if operator.custom_options is not None and len(operator.custom_options)
    ]
    if not operators or rng.random() < 0.3:
        return table_mutant(rng, seed)
    operator = rng.choice(operators)
    assert operator.custom_options is not None
    content = operator.custom_options.tobytes()
    try:
        if rng.random() < 0.5:
            ops = custom_op.extract(model)
            if ops:
                index = rng.randrange(len(ops))
                package = package_mutant(rng, bytes(ops[index].package))
                return tflite.write_model(custom_op.replace(model, index, package))
        # The fields of a flexbuffer are at its end, after the package.
        tail = rng.choice((16, 48, 96))
        changed = content[:-tail] + mutant(rng, [content[-tail:]])
        operator.custom_options = np.frombuffer(changed, np.uint8)
        return tflite.write_model(model)
    except FitzroyError:
        return seed


def object_mutant(rng: random.Random, seed: bytes) -> bytes:
    """An object after changes of fields; the seed itself where it cannot be written."""
    try:
        return _spoiled(rng, object_file.read_object(seed), object_file.IDENTIFIER)
    except UNWRITABLE:
        return seed

"""Mutations of well-formed TFLite models: the tables stay readable, what they say does not."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator

import numpy as np

from fitzroy.base.errors import FitzroyError
from fitzroy.formats import flat, tflite
from fitzroy.formats.flat import Table

_INTEGERS = (0, 1, -1, 2, 3, 7, 127, 128, -128, 255, 256, 1 << 15, (1 << 31) - 1, -(1 << 31))
_REALS = (0.0, -1.0, 1e-38, 1e-45, 1e38, math.inf, -math.inf, math.nan, 0.5, 1.0)


def _tables(value: object) -> Iterator[Table]:
    if isinstance(value, Table):
        yield value
        for _, name, _kind in value.plan().fields:
            yield from _tables(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _tables(item)


def _spoil(rng: random.Random, table: Table) -> None:
    """Change one field of a table."""
    names = [name for _, name, _kind in table.plan().fields]
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


def table_mutant(rng: random.Random, seed: bytes) -> bytes:
    """A model after one to four changes of fields; the seed itself where it cannot be written."""
    try:
        model = tflite.read_model(seed)
        tables = list(_tables(model))
        for _ in range(rng.randint(1, 4)):
            _spoil(rng, rng.choice(tables))
        return flat.encode(model, identifier=tflite.IDENTIFIER)
    except (FitzroyError, ValueError, OverflowError, TypeError, AttributeError, struct.error):
        return seed

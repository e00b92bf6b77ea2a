"""What tests share within a session, across its processes: programs that cost time to compile.

What was made is kept in a folder of the session, and never outlives it: another session may have
another compiler.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

from fitzroy.compiler.ir import Graph, print_graph

T = TypeVar("T")

_folder: Path | None = None


@contextmanager
def sharing_in(folder: Path | None) -> Iterator[None]:
    """Keep what is shared in a folder; None to make everything anew."""
    global _folder
    before, _folder = _folder, folder
    try:
        yield
    finally:
        _folder = before


def shared(key: tuple[object, ...], make: Callable[[], T]) -> T:
    """What has been made for a key before, or is made now.

    Whoever asks gets an object of its own: to change it changes nothing for others.

    Args:
        key: all that the result depends on: what it is, options, bytes, and graphs.
        make: makes it; what it raises is not kept.
    """
    if _folder is None:
        return make()
    digest = hashlib.sha256(pickle.dumps([_plain(part) for part in key]))
    path = _folder / digest.hexdigest()
    try:
        return cast(T, pickle.loads(path.read_bytes()))
    except FileNotFoundError:
        made = make()
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_bytes(pickle.dumps(made))
    # Another process may have made the same at the same time.
    draft.replace(path)
    return made


def _plain(part: object) -> str | bytes:
    if isinstance(part, Graph):
        return print_graph(part)
    return part if isinstance(part, bytes) else repr(part)

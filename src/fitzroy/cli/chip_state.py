"""What a stopped chip looks like: for ``fitzroy sim --stop-at`` and for ``fitzroy debug``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array
from fitzroy.cli.terminal import Column, Terminal
from fitzroy.execution.arrays import npy_bytes

if TYPE_CHECKING:
    from fitzroy.driver.runtime.debugger import Debugger
    from fitzroy.hw_models.edgetpu.state import Head

# --- memory in files -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dump:
    """A memory that goes to a file.

    Attributes:
        memory: name of the memory.
        path: a .npy file, beside which ``_written.npy`` goes, or an .npz archive with both.
    """

    memory: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> Dump:
        """A dump from ``MEMORY=FILE``.

        Raises:
            UsageError: no such memory, or a suffix that does not say what to write.
        """
        memory, mark, path = text.partition("=")
        if not mark or not path:
            raise UsageError(f"{text!r} is no dump", hint="write MEMORY=FILE.npy")
        return cls.checked(memory, path)

    @classmethod
    def checked(cls, memory: str, path: str) -> Dump:
        """A dump of a memory to a file.

        Raises:
            UsageError: as `parse`.
        """
        from fitzroy.driver.runtime.debugger import MEMORIES

        if memory not in MEMORIES:
            raise UsageError(
                f"there is no memory {memory[:40]!r}", reason=f"there are {', '.join(MEMORIES)}"
            )
        if Path(path).suffix.lower() not in (".npy", ".npz"):
            raise UsageError("memories are written as .npy or .npz", where=path)
        return cls(memory, Path(path))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files that are written."""
        if self.path.suffix.lower() == ".npz":
            return (self.path,)
        return self.path, self.path.with_name(f"{self.path.stem}_written{self.path.suffix}")

    def files(self, debugger: Debugger, tile: int | None) -> list[tuple[Path, bytes]]:
        """Files that hold the memory of a tile, or of all."""
        words, written = debugger.memory(self.memory, None if self.memory == "scalar" else tile)
        return list(zip(self.paths, self._contents(words, written), strict=True))

    def _contents(self, words: Array, written: Array) -> list[bytes]:
        if len(self.paths) == 2:
            return [npy_bytes(words), npy_bytes(written)]
        stream = io.BytesIO()
        members: dict[str, Any] = {self.memory: words, "written": written}
        np.savez_compressed(stream, **members)
        return [stream.getvalue()]


# --- the state as a document ---------------------------------------------------------------------


def place(debugger: Debugger) -> dict[str, Any]:
    """Where the scalar core is, for JSON."""
    found = debugger.place()
    return {
        "place": str(found),
        "stage": found.stage,
        "chunk": found.chunk,
        "bundle": found.bundle,
        "phase": found.phase,
        "instructions": found.instructions,
        "what": found.what,
        "layer": found.layer,
        "over": debugger.over,
    }


def heads(debugger: Debugger) -> list[dict[str, Any]]:
    """What everyone is at, for JSON."""
    return [head(item) for item in debugger.heads()]


def head(item: Head) -> dict[str, Any]:
    """What an engine, a dispatcher or a stream unit is at, for JSON."""
    from fitzroy.hw_models.isa.fields import TILES

    return {
        "unit": item.unit,
        "tiles": TILES.text(item.tiles) if item.tiles else None,
        "instruction": item.instruction.op.name.lower(),
        "chunk": item.chunk,
        "bundle": item.bundle,
        "done": item.done,
        "total": item.total,
        "queued": item.queued,
        "waits": item.waits,
    }


def tile_flags(debugger: Debugger, tile: int | None) -> dict[str, dict[str, int]]:
    """Flags by number of the tile, for JSON."""
    from fitzroy.hw_models.edgetpu.memory import TILES

    tiles = range(TILES) if tile is None else (tile,)
    return {str(number): debugger.flags(number) for number in tiles}


def traffic(debugger: Debugger) -> dict[str, Any]:
    """What is on its way, for JSON."""
    found = debugger.traffic()
    return {
        "ring": [list(rows) for rows in found.ring],
        "outfeed": found.outfeed,
        "mesh": {name: list(words) for name, words in found.mesh.items()},
        "host": found.host,
        "output": found.output,
    }


def state(debugger: Debugger, tile: int | None) -> dict[str, Any]:
    """Everything but memories, for JSON."""
    return {
        "at": place(debugger),
        "waiting": heads(debugger),
        "flags": tile_flags(debugger, tile),
        "scalar_flags": debugger.scalar_flags(),
        "done_tiles": debugger.done(),
        "registers": {f"s{number}": word for number, word in debugger.registers().items()},
        "predicates": {f"p{number}": value for number, value in debugger.predicates().items()},
        "traffic": traffic(debugger),
    }


# --- the state as text ---------------------------------------------------------------------------


def show_place(terminal: Terminal, found: Mapping[str, Any]) -> None:
    """Print what `place` says."""
    if found["over"]:
        terminal.line(found["what"])
        return
    terminal.line(f"{found['place']}  {found['what']}", style="bold")
    executed = f"{found['instructions']:,} instructions executed"
    from fitzroy.report.phases import short_name

    layer = f" of {short_name(found['layer'])}" if found["layer"] else ""
    terminal.line(f"phase {found['phase']}{layer}, {executed}", indent=2)


def show_heads(terminal: Terminal, items: Sequence[Mapping[str, Any]]) -> None:
    """Print what `heads` says."""
    if not items:
        terminal.line("nothing is under way")
        return
    columns = (
        Column("unit"),
        Column("tiles"),
        Column("at"),
        Column("element", right=True),
        Column("behind", right=True),
        Column("state"),
    )
    rows = [
        [
            item["unit"],
            item["tiles"] or "",
            f"{item['instruction']} {item['chunk']}:{item['bundle']}",
            f"{item['done']}/{item['total']}" if item["total"] else "",
            str(item["queued"]),
            item["waits"],
        ]
        for item in items
    ]
    terminal.table(columns, rows)


def show_flags(terminal: Terminal, tiles: Mapping[str, Mapping[str, int]]) -> None:
    """Print what `tile_flags` says; of several tiles, only flags that are not all zero."""
    from fitzroy.hw_models.isa.fields import TILES

    if len(tiles) == 1:
        ((_, flags),) = tiles.items()
        terminal.table(
            (Column("flag"), Column("value", right=True)), [[k, str(v)] for k, v in flags.items()]
        )
        return
    rows = []
    for name in next(iter(tiles.values())):
        values: dict[int, int] = {}
        for number, flags in tiles.items():
            values[flags[name]] = values.get(flags[name], 0) | 1 << int(number)
        if set(values) != {0}:
            rows += [[name, str(value), TILES.text(mask)] for value, mask in values.items()]
    if rows:
        terminal.table((Column("flag"), Column("value", right=True), Column("tiles")), rows)
    else:
        terminal.line("all flags of all tiles are 0")


def show_scalar(
    terminal: Terminal, flags: Mapping[str, int], done: Iterable[int], *, zeros: bool = True
) -> None:
    """Print flags of the scalar core and done bits."""
    rows = [[name, str(value)] for name, value in flags.items() if value or zeros]
    if rows:
        terminal.table((Column("scalar core"), Column("value", right=True)), rows)
    terminal.line(f"done: {', '.join(map(str, done)) or 'no tile'}")


def show_registers(
    terminal: Terminal, registers: Mapping[str, int], predicates: Mapping[str, bool]
) -> None:
    """Print registers and predicates that are known."""
    columns = (Column("register"), Column("hex", right=True), Column("decimal", right=True))
    rows = [[name, f"{word:#x}", str(word)] for name, word in registers.items()]
    rows += [[name, "", str(value).lower()] for name, value in predicates.items()]
    if rows:
        terminal.table(columns, rows)
    else:
        terminal.line("no register is known")


def show_traffic(terminal: Terminal, found: Mapping[str, Any]) -> None:
    """Print what `traffic` says."""
    rows = [
        [f"ring {'AB'[channel]} to tile {tile}", f"{count} rows"]
        for channel, counts in enumerate(found["ring"])
        for tile, count in enumerate(counts)
        if count
    ]
    rows += [["ring to the outfeed", f"{found['outfeed']} rows"]] if found["outfeed"] else []
    rows += [
        [f"{name} to tile {tile}", f"{count} words"]
        for name, counts in found["mesh"].items()
        for tile, count in enumerate(counts)
        if count
    ]
    rows += [[f"host queue {name}", f"{size} bytes"] for name, size in found["host"].items()]
    rows.append(["output under way", f"{found['output']} bytes"])
    terminal.table((Column("where"), Column("waiting", right=True)), rows)


def show_state(terminal: Terminal, document: Mapping[str, Any]) -> None:
    """Print what `state` says, without what is zero."""
    show_place(terminal, document["at"])
    show_heads(terminal, document["waiting"])
    show_flags(terminal, document["flags"])
    show_scalar(terminal, document["scalar_flags"], document["done_tiles"], zeros=False)


# --- words of memory -----------------------------------------------------------------------------

_FORMATS: Mapping[str, tuple[np.dtype[Any], str]] = {
    "hex": (np.dtype("<u4"), "{:08x}"),
    "int32": (np.dtype("<i4"), "{}"),
    "uint32": (np.dtype("<u4"), "{}"),
    "int16": (np.dtype("<i2"), "{}"),
    "int8": (np.dtype("i1"), "{}"),
    "uint8": (np.dtype("u1"), "{}"),
    "float": (np.dtype("<f4"), "{:g}"),
}
FORMATS = tuple(_FORMATS)
"""How words of memory can be shown."""

_WORD_BYTES = 4
_LINE_BYTES = 32


def values(words: Array, written: Array, form: str) -> list[list[Any]]:
    """Elements of memory in a format, None where nothing has written.

    Args:
        words: uint32[elements, words].
        written: bool[elements, words].
        form: one of `FORMATS`.
    """
    type, _ = _FORMATS[form]
    items = np.ascontiguousarray(words.astype("<u4")).view(type)
    known = written.repeat(items.shape[1] // words.shape[1], axis=1)
    return [
        [item if sure else None for item, sure in zip(row, mask, strict=True)]
        for row, mask in zip(items.tolist(), known.tolist(), strict=True)
    ]


def show_values(
    terminal: Terminal, elements: Sequence[Sequence[Any]], address: int, form: str
) -> None:
    """Print what `values` gives, elements of one word many to a line."""
    type, pattern = _FORMATS[form]
    if len(elements[0]) * type.itemsize == _WORD_BYTES:
        together = _LINE_BYTES // _WORD_BYTES
        lines = [
            (address + first, [item for one in elements[first : first + together] for item in one])
            for first in range(0, len(elements), together)
        ]
    else:
        items = _LINE_BYTES // type.itemsize
        lines = [
            (address + number, list(element[first : first + items]))
            for number, element in enumerate(elements)
            for first in range(0, len(element), items)
        ]
    texts = [
        (place, ["-" if item is None else pattern.format(item) for item in row])
        for place, row in lines
    ]
    width = max(len(item) for _, row in texts for item in row)
    last = None
    for place, row in texts:
        label = f"{place:#06x}:" if place != last else ""
        last = place
        terminal.raw(f"{label:<8}{' '.join(item.rjust(width) for item in row)}\n")

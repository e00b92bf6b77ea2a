"""The page of instructions, from their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from enum import IntEnum
from typing import Any

from docs.markdown_parts import (
    NOTICE,
    bits_of,
    evidence_levels,
    field_table,
    first_line,
    inner_codecs,
    link,
    member_table,
    nested_name,
    prose,
    table,
)

from fitzroy.base.bits import (
    Field,
)
from fitzroy.hw_models.isa import scalar as scalar_core
from fitzroy.hw_models.isa.catalog import INSTRUCTIONS, opcodes
from fitzroy.hw_models.isa.fence import TileFence
from fitzroy.hw_models.isa.fields import (
    CONVERSION_WATCHER,
    ScalarFlag,
    Side,
    StreamEngine,
    TileEngine,
    TileFlag,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction, TileInstruction
from fitzroy.hw_models.isa.traversal import (
    NARROW,
    WIDE,
    Dim,
    Traversal,
    TraversalCodec,
    traversal,
)


def _nested() -> list[str]:
    """Layouts of traversals, prefixes, watchers and producers, with the fields that use them."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for instruction in INSTRUCTIONS:
        for field in instruction.fields():
            for codec in inner_codecs(field.codec):
                if name := nested_name(codec):
                    user = f"`{_title(instruction)}.{field.name}`"
                    found.setdefault(name, (codec, []))[1].append(user)
    lines = []
    for name in sorted(found):
        codec, users = found[name]
        lines += [
            f"### {name}\n",
            f"{codec.width} bits. Used by {', '.join(users)}.\n",
            *table(
                ("bits", "part", "holds"),
                (
                    (bits_of(p.first, p.width), p.name.replace("_", " "), p.kind)
                    for p in codec.layout()
                ),
            ),
        ]
    return lines


def _title(instruction: type[Instruction]) -> str:
    return instruction.__name__


def _opcode_map() -> list[str]:
    return table(
        ("opcode", "name", "instruction", "bundles", "executed by", "purpose"),
        (
            (
                f"`{opcode.value:#04x}`",
                f"`{opcode.name.lower()}`",
                link(_title(instruction)),
                instruction.bundles(),
                instruction.unit,
                first_line(instruction),
            )
            for instruction in INSTRUCTIONS
            for opcode in opcodes(instruction)
        ),
    )


def _relative(own: Sequence[Field], instruction: type[Instruction]) -> type[Instruction] | None:
    """An instruction before this one with most of the same fields."""
    for other in INSTRUCTIONS[: INSTRUCTIONS.index(instruction)]:
        theirs = other.fields()
        if 2 * sum(field in theirs for field in own) > len(own):
            return other
    return None


def _instructions() -> list[str]:
    shared = {field.name for field in fields(TileInstruction)} - {"op"}
    some = next(i for i in INSTRUCTIONS if issubclass(i, TileInstruction))
    head = {field.name: field for field in some.fields() if field.name in shared}
    lines = [
        "## Instructions\n",
        "### Head of tile instructions\n",
        "Every instruction that an engine of a tile executes begins with these fields.\n",
        *field_table(head.values()),
    ]
    for instruction in INSTRUCTIONS:
        tile = issubclass(instruction, TileInstruction)
        names = ", ".join(f"`{o.name.lower()}` ({o.value:#04x})" for o in opcodes(instruction))
        own = [f for f in instruction.fields() if f.name != "op" and not (tile and f.name in head)]
        size = instruction.bundles()
        also = f" {link('Head of tile instructions')} comes first." if tile else ""
        known = _relative(own, instruction)
        if known:
            theirs = known.fields()
            own = [field for field in own if field not in theirs]
            also += f" Fields that are not listed are those of {link(_title(known))}."
        lines += [
            f"### {_title(instruction)}\n",
            f"{names}; {size} bundle{'s' if size > 1 else ''} ({instruction.width} bits); "
            f"executed by: {instruction.unit}.{also}\n",
            prose(instruction),
        ]
        lines += field_table(sorted(own, key=lambda f: f.first)) if own else []
    return lines


def _runs(addresses: Sequence[int]) -> str:
    """Addresses with runs of successors shortened."""
    texts = []
    start = 0
    for at in range(1, len(addresses) + 1):
        if at == len(addresses) or addresses[at] != addresses[at - 1] + 1:
            first, last = addresses[start], addresses[at - 1]
            texts.append(str(first) if first == last else f"{first}..{last}")
            start = at
    return ", ".join(texts)


def _example(codec: TraversalCodec, value: Traversal, text: str) -> list[str]:
    raw = codec.encode(value)
    idle = {f"delta {k}" for k, dim in enumerate(value.dims) if dim == Dim(1, 0)}
    stored = ", ".join(
        f"{piece.name.replace('_', ' ')} = {number:#x}"
        for piece in codec.layout()
        if (number := raw >> piece.first & (1 << piece.width) - 1) and piece.name not in idle
    )
    return [
        f"{text}\n",
        f"- text: `{codec.text(value)}`",
        f"- stored (non-zero): {stored}",
        f"- addresses: {_runs(value.addresses().tolist())}\n",
    ]


def _breakdown(instruction: Instruction) -> list[str]:
    raw = instruction.pack()
    return [
        f"`{raw.to_bytes(instruction.width // 8, 'little').hex(' ')}`\n",
        *table(
            ("bits", "field", "stored", "value"),
            (
                (
                    bits_of(field.first, field.width),
                    f"`{field.name}`",
                    f"{raw >> field.first & (1 << field.width) - 1:#x}",
                    f"`{field.codec.text(getattr(instruction, field.name))}`",
                )
                for field in type(instruction).fields()
                if raw >> field.first & (1 << field.width) - 1
            ),
        ),
    ]


def _needs(watcher: Watcher, iterations: int) -> list[object]:
    return [watcher.threshold + watcher.increment * i for i in range(iterations)]


def _examples() -> list[str]:
    nop, last = scalar_core.Scalar(), scalar_core.Halt(end_program=True)
    fence = TileFence(tiles=0xFFFF, seq=0, set=0x7FFFF, value=0, idle=0x3FF, signal=True)
    consumer = Watcher(TileFlag.WIDE_TO_NARROW, 1, 1, 1)
    slots = Watcher(TileFlag.AVDATA, 1, -1, 1, side=Side.WRITE)
    words = Watcher(TileFlag.AVDATA, 1, -352, 352, side=Side.WRITE)
    watchers = [
        ("consumer of slot i", consumer),
        ("producer into slot i, credits in slots", slots),
        ("producer into slot i, credits in words, 352 words a slot", words),
    ]
    shown = 4
    return [
        "## Worked examples\n",
        "Everything below is computed from the declarations. Deltas of dimensions that run once",
        "have no effect and are left out.\n",
        "### A rectangle\n",
        *_example(
            WIDE,
            traversal(16, [(3, 1), (2, 8)], rank=4),
            "Two runs of three rows, 8 apart. The stored delta of dimension 1 is its stride less "
            "what dimension 0 has already moved: 8 - 2 * 1 = 6.",
        ),
        "### Ping-pong\n",
        *_example(
            NARROW,
            traversal(100, [(4, 1), (3, 0)], rank=6, ping_pong=(1, 4)),
            "Three iterations of dimension 1 go to slots 0, 1, 0 of a buffer with two slots of "
            "four words; the stride of dimension 1 is 0.",
        ),
        "### A partial last chunk\n",
        *_example(
            NARROW,
            traversal(0, [(4, 1), (3, 4)], rank=6, part=(2, 1)),
            "Ten words as chunks of four: in the last iteration of dimension 1, dimension 0 runs "
            "twice.",
        ),
        "### Wait conditions of a buffer with two slots\n",
        "The flag value that iteration i waits for:\n",
        *table(
            ("who", "text", *(f"i = {i}" for i in range(shown))),
            (
                (who, f"`{CONVERSION_WATCHER.text(watcher)}`", *_needs(watcher, shown))
                for who, watcher in watchers
            ),
        ),
        "### A scalar bundle that does nothing\n",
        *_breakdown(nop),
        "### The end of a program\n",
        *_breakdown(last),
        "### The fence that begins a program\n",
        "All tiles wait for all their engines, clear all flags, and report to the scalar core.\n",
        *_breakdown(fence),
    ]


def isa() -> str:
    """Reference of the instruction set."""
    tables: list[type[IntEnum]] = [
        TileFlag,
        ScalarFlag,
        TileEngine,
        StreamEngine,
        scalar_core.Store,
        scalar_core.DescriptorTag,
    ]
    lines = [
        NOTICE + "# Instruction set of beagle\n",
        "The layout of every instruction of the Edge TPU, bit by bit: for users who work with",
        "programs below the assembly language, and for authors of tools. All tables are",
        "generated from the declarations in `hw_models/isa`, on which the assembler and the",
        "disassembler are also based. [isa_guide.md](isa_guide.md) explains how the parts work",
        "together.\n",
        f"An instruction is a whole number of bundles of {BUNDLE_BITS} bits. Bit 0 is the least",
        "significant bit of the first byte. Bits 6 to 11 of the first bundle are the opcode.",
        "Bits that no table names are reserved: they are zero, and tools refuse other values.\n",
        "In the column *holds*, a number is a width in bits. *count - 1* means that a count of",
        "at least one is stored minus one.\n",
        "## Opcodes\n",
        *_opcode_map(),
        *_instructions(),
        "## Nested layouts\n",
        "Positions are relative to the first bit of the field.\n",
        *_nested(),
        "## Numbers and names\n",
    ]
    for enumeration in tables:
        lines += member_table(enumeration)
    lines += [
        "### Alu\n",
        prose(scalar_core.Alu),
        *table(
            ("value", "name", "writes"),
            (
                (
                    f"{op.value:#04x}",
                    op.name.lower(),
                    "a predicate" if op in scalar_core.COMPARES else "a register" if op else "",
                )
                for op in scalar_core.Alu
            ),
        ),
    ]
    lines += _examples()
    lines += evidence_levels(f.evidence for i in INSTRUCTIONS for f in i.fields())
    return "\n".join(lines).rstrip() + "\n"

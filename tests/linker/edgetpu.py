"""Compiled packages for the linker's tests: those of the corpus, and small ones made here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from tests.support import corpus_models

from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.formats.darwinn import (
    Executable,
    InputLayer,
    Layer,
    NumericsConstants,
    OutputLayer,
    PackageFile,
)
from fitzroy.formats.object_file import (
    Fixup,
    ObjectFile,
    Operand,
    OperandKind,
    Part,
    Reserved,
    Resources,
    Run,
    Symbol,
    SymbolKind,
    Text,
)
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.instruction import BUNDLE_BITS, Instruction
from fitzroy.hw_models.isa.program import NOPS_AFTER_HALT, assemble, positions
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Scalar,
    Store,
)
from fitzroy.hw_models.isa.text import field_place
from fitzroy.hw_models.isa.traversal import traversal


def compiled_files() -> list[Path]:
    """Compiled models of the corpus."""
    return corpus_models("*/*edgetpu.tflite")


@cache
def packages(file: Path) -> tuple[PackageFile, ...]:
    """The packages of a compiled model."""
    model = tflite.read_model(file.read_bytes(), str(file))
    return tuple(item.read() for item in custom_op.extract(model, str(file)))


def corpus_executables() -> Iterator[tuple[str, Executable]]:
    """All executables of the corpus with the names of their files."""
    for file in compiled_files():
        for package in packages(file):
            for executable in package.executables:
                yield file.name, executable
    for file in corpus_models("*/*.executable.bin"):
        yield file.name, darwinn.read_executable(file.read_bytes(), str(file))


# --- programs made here --------------------------------------------------------------------------


def move(to: int, value: int = 0) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=to, immediate=value)


def descriptor(low: int, high: int, size: int, tag: DescriptorTag) -> list[Instruction]:
    """Bundles that issue a descriptor; addresses come from registers."""
    slots = (DescriptorSlot.ADDRESS_LOW, DescriptorSlot.ADDRESS_HIGH)
    made: list[Instruction] = [
        Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=register)
        for slot, register in zip(slots, (low, high), strict=True)
    ]
    for slot, value in ((DescriptorSlot.SIZE, size), (DescriptorSlot.TAG, tag)):
        made += [
            move(30, value),
            Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=30),
        ]
    return [*made, Scalar(store=Store.ISSUE)]


def layer(name: str, size: int, kind: type[InputLayer] | type[OutputLayer]) -> Layer:
    return Layer(
        name=name,
        size_bytes=size,
        y_dim=1,
        x_dim=1,
        z_dim=size,
        numerics=NumericsConstants(zero_point=128, dequantization_factor=0.5),
        any_layer=kind(),
    )


def small_object(name: str = "small", *, rows: int = 2, tile: int = 0) -> ObjectFile:
    """An object that loads parameters, sends them from their owner and receives an output."""
    body: list[Instruction] = [
        TileFence(tiles=0xFFFF, set=0x7FFFF, idle=0x3FF, signal=True),
        ScalarFence(clear=0xFFFF, set=0x1FF, wait_tiles=True, tiles=0xFFFF, idle=0x1F),
        move(1),
        move(2),
        move(3),
        move(4),
        *descriptor(1, 2, 64, DescriptorTag.INPUT),
        RingProduce(tiles=1 << tile, destination=0xFFFF, wide=traversal(0, [(rows, 1)], rank=4)),
        *descriptor(3, 4, 64, DescriptorTag.OUTPUT),
        *descriptor(0, 0, 0, DescriptorTag.INTERRUPT_0),
        Halt(end_program=True),
        *[Scalar()] * NOPS_AFTER_HALT,
    ]
    # The interrupt has no address.
    body.insert(2, move(0))
    places = list(positions(body))
    immediate = field_place(Scalar, "immediate")[0]
    base, width = field_place(RingProduce, "wide.base")
    moves = [
        bundle
        for bundle, item in places
        if isinstance(item, Scalar) and item.to in (1, 2, 3, 4) and item.alu is Alu.MOV
    ]
    produce = next(bundle for bundle, item in places if isinstance(item, RingProduce))
    parts = ((0, Part.LOW), (0, Part.HIGH), (1, Part.LOW), (1, Part.HIGH))
    fixups = [
        Fixup(bit=bundle * BUNDLE_BITS + immediate, symbol=symbol, part=int(part))
        for bundle, (symbol, part) in zip(moves, parts, strict=True)
    ]
    fixups.append(
        Fixup(bit=produce * BUNDLE_BITS + base, width=width, symbol=2, part=int(Part.ROW))
    )
    data = np.arange(256 * rows, dtype=np.uint64).astype(np.uint8)
    return ObjectFile(
        name=name,
        chip="beagle",
        producer="test",
        text=[
            Text(
                code=np.frombuffer(assemble(body), np.uint8),
                fixups=sorted(fixups, key=lambda fixup: fixup.bit),
            )
        ],
        operands=[
            Operand(
                name="weights",
                kind=OperandKind.CONVOLUTION,
                data=data,
                runs=[Run(tile=tile, words=rows, units=4 * rows)],
            )
        ],
        symbols=[
            Symbol(kind=SymbolKind.INPUT, name="in"),
            Symbol(kind=SymbolKind.OUTPUT, name="out"),
            Symbol(kind=SymbolKind.OPERAND, name="weights"),
        ],
        inputs=[layer("in", 64, InputLayer)],
        outputs=[layer("out", 64, OutputLayer)],
        resources=Resources(narrow_bytes=64, staging=[Reserved(tiles=0xFFFF, row=2070, rows=10)]),
    )

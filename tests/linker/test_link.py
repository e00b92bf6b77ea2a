"""Objects, their text, linking and relinking: on small objects and on every compiled model."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.linker.edgetpu import compiled_files, corpus_executables, packages, small_object
from tests.support import corpus

from fitzroy.base.errors import (
    CapacityError,
    FitzroyError,
    FormatError,
    LinkError,
    UnsupportedError,
    UsageError,
)
from fitzroy.base.types import Array
from fitzroy.formats import darwinn, flat, tflite
from fitzroy.formats.custom_op import extract
from fitzroy.formats.darwinn import Executable, ExecutableType, PackageFile
from fitzroy.formats.object_file import (
    IDENTIFIER,
    Condition,
    ObjectFile,
    OperandKind,
    Part,
    Reserved,
    Resources,
    Text,
    read_object,
    write_object,
)
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.instruction import Instruction, TileInstruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.linker.objects.assembly import executable_chunks, package_listing, parse_packages
from fitzroy.linker.objects.edit import with_programs
from fitzroy.linker.objects.recover import recover, staging
from fitzroy.linker.objects.text import is_object, object_listing, parse_object
from fitzroy.linker.packages.container import read_container, wrapped
from fitzroy.linker.packages.darwinn import LinkOptions, link
from fitzroy.linker.resolve.caching import Generation, segments_of, wide_memory

GENERATIONS = {10: Generation.RUNTIME_10, 13: Generation.RUNTIME_12}


def options_of(package: PackageFile) -> LinkOptions:
    version = package.package.min_runtime_version
    generation = GENERATIONS.get(version) or Generation(version)
    return LinkOptions(generation, package.main.parameter_caching_token or None)


def differences(one: Executable, other: Executable) -> list[str]:
    """What differs, but for the free name and fields that are empty in one and absent in other."""
    return [
        line
        for line in flat.diff(one, other)
        if not line.startswith(("name:", "estimated_cycles", "version:"))
        and "vector of 0, None" not in line
        and "0 elements, None" not in line
    ]


# --- every compiled model ------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.corpus
def test_every_package_becomes_an_object_and_links_to_itself() -> None:
    corpus()
    count = caching = rows = 0
    for file in compiled_files():
        for package in packages(file):
            found = read_object(write_object(recover(package, "model")), file.name)
            (linked,) = link([found], options_of(package))
            assert differences(package.main, linked.main) == [], file.name
            assert (package.caching is None) == (linked.caching is None)
            if package.caching is not None and linked.caching is not None:
                assert differences(package.caching, linked.caching) == [], file.name
                caching += 1
            count += 1
            rows += sum(
                fixup.part not in (Part.LOW, Part.HIGH)
                for text in found.text or ()
                for fixup in text.fixups or ()
            )
    print(f"\n{count} packages relinked, {caching} caching programs, {rows} row fixups")
    assert (count, caching, rows) == (67, 56, 864)


@pytest.mark.long
@pytest.mark.corpus
def test_every_object_survives_its_text() -> None:
    corpus()
    files = random.Random(1).sample(compiled_files(), 12)
    for file in files:
        for package in packages(file):
            found = recover(package, "model")
            text = "\n".join(object_listing(found))
            assert is_object(text)
            assert write_object(parse_object(text)) == write_object(found), file.name


@pytest.mark.long
@pytest.mark.corpus
def test_every_listing_assembles_to_the_same_file() -> None:
    corpus()
    files = bitstreams = 0
    for file in compiled_files():
        container = read_container(file.read_bytes(), str(file))
        text = "\n".join(package_listing(enumerate(container.packages)))
        programs = parse_packages(text)
        assert container.replaced(with_programs(container.packages, programs)) == container.data
        bitstreams += sum(len(program.chunks) for program in programs)
        files += 1
    print(f"\n{files} models, {bitstreams} bitstreams")
    assert (files, bitstreams) == (67, 125)


def memory(package: PackageFile) -> Array:
    assert package.caching is not None
    assert package.caching.parameters is not None
    chunks = executable_chunks(package.caching)
    segments = segments_of(chunks[0].instructions)
    return wide_memory(segments, package.caching.parameters)


def program(package: PackageFile) -> list[Instruction]:
    return [i for chunk in executable_chunks(package.main) for i in chunk.instructions]


def rows_read(instruction: Instruction) -> list[int]:
    """Rows of wide memory that an instruction reads, where those may be parameters."""
    match instruction:
        case RingProduce() | WideToNarrow():
            low, high = instruction.wide.extent
        case TensorOp() if instruction.c is not None:
            low, high = (address >> 2 for address in instruction.c.extent)
        case _:
            return []
    return list(range(low, high + 1))


@pytest.mark.corpus
@pytest.mark.parametrize("seed", range(4))
def test_models_linked_together_read_their_own_parameters(seed: int) -> None:
    corpus()
    rng = random.Random(seed)
    small = [file for file in compiled_files() if file.stat().st_size < 1 << 20]
    chosen = [
        package for file in rng.sample(small, 5) for package in packages(file) if package.caching
    ][:3]
    linked = link([recover(package) for package in chosen])
    tokens = {e.parameter_caching_token for package in linked for e in package.executables}
    assert len(tokens) == 1
    assert tokens != {0}
    taken: Array = np.zeros((16, 2080), bool)
    for package in linked:
        assert package.caching is not None
        for segment in segments_of(executable_chunks(package.caching)[0].instructions):
            here = (segment.tile, slice(segment.row, segment.end))
            assert not taken[here].any()
            taken[here] = True
    for package in linked:
        for reserved in staging(program(package)):
            for tile in range(16):
                if reserved.tiles >> tile & 1:
                    assert not taken[tile, reserved.row : reserved.row + reserved.rows].any()
    moved = 0
    for old, new in zip(chosen, linked, strict=True):
        was, now = memory(old), memory(new)
        loaded: Array = np.asarray(was.reshape(16, 2080, 256).any(axis=2))
        for one, other in zip(program(old), program(new), strict=True):
            if not isinstance(one, TileInstruction):
                assert one == other
                continue
            moved += one != other
            for tile in range(16):
                if one.tiles >> tile & 1:
                    before, after = rows_read(one), rows_read(other)
                    keep = [n for n, row in enumerate(before) if row < 2080 and loaded[tile, row]]
                    for n in keep:
                        assert np.array_equal(was[tile, before[n]], now[tile, after[n]])
    assert moved or len(chosen) < 2


# --- small objects -------------------------------------------------------------------------------


def test_a_small_object_links() -> None:
    (package,) = link([small_object()])
    kinds = [executable.type for executable in package.executables]
    assert kinds == [ExecutableType.EXECUTION_ONLY, ExecutableType.PARAMETER_CACHING]
    again = darwinn.read_package(darwinn.write_package(package))
    assert darwinn.diff(package, again) == []
    assert again.main.parameter_caching_token != 0
    assert again.main.dma_hints is not None
    hints = [type(hint.any_hint).__name__ for hint in again.main.dma_hints.hints or ()]
    assert hints == [
        "InstructionHint",
        "DmaDescriptorHint",
        "DmaDescriptorHint",
        "InterruptHint",
    ]


def test_two_small_objects_share_a_tile() -> None:
    first, second = link([small_object("a", rows=3), small_object("b", rows=2)])
    rows = [
        instruction.wide.base
        for package in (first, second)
        for instruction in program(package)
        if isinstance(instruction, RingProduce)
    ]
    assert rows == [0, 3]
    assert first.main.parameter_caching_token == second.main.parameter_caching_token


def test_parameters_keep_off_staging_rows() -> None:
    obj = small_object()
    assert obj.resources is not None
    obj.resources.staging = [Reserved(tiles=1, row=0, rows=5), Reserved(tiles=2, row=0, rows=99)]
    (package,) = link([obj])
    produce = next(i for i in program(package) if isinstance(i, RingProduce))
    assert produce.wide.base == 5


def test_capacity() -> None:
    obj = small_object()
    assert obj.resources is not None
    obj.resources.staging = [Reserved(tiles=0xFFFF, row=1, rows=2079)]
    with pytest.raises(CapacityError, match="parameters of weights do not fit"):
        link([obj])


def test_narrow_memory_has_an_end() -> None:
    obj = small_object()
    assert obj.resources is not None
    obj.resources.narrow_bytes = 196_608
    assert link([obj])
    obj.resources.narrow_bytes += 1
    with pytest.raises(CapacityError, match=r"196609 bytes.* a tile has 196608"):
        link([obj])


def conditional(obj: ObjectFile) -> ObjectFile:
    """The object with a variant that streams its parameters."""
    (text,) = obj.text or []
    streamed = Text(
        code=text.code,
        fixups=[fixup for fixup in text.fixups or () if fixup.part != Part.ROW],
        condition=int(Condition.STREAMED),
    )
    text.condition = int(Condition.CACHED)
    obj.text = [text, streamed]
    return obj


def test_what_does_not_fit_is_streamed_if_there_is_code_for_it() -> None:
    obj = conditional(small_object())
    (package,) = link([obj])
    assert package.main.type == ExecutableType.EXECUTION_ONLY
    assert obj.resources is not None
    obj.resources.staging = [Reserved(tiles=0xFFFF, row=0, rows=2080)]
    (package,) = link([obj])
    assert package.main.type == ExecutableType.STAND_ALONE
    assert package.caching is None
    assert package.main.parameters is not None
    assert len(package.main.parameters) == 512
    assert package.main.parameter_caching_token == 0


def test_the_largest_operands_are_cached_first() -> None:
    obj = small_object()
    (small,), (text,) = obj.operands or [], obj.text or []
    data = np.zeros(256 * 2000, np.uint8)
    (run,) = small.runs or []
    large = replace(
        small, name="large", data=data, runs=[replace(run, words=2000, units=8000, group=1)]
    )
    obj.operands = [small, large]
    (end,) = [Text(code=text.code, fixups=text.fixups)]
    variants = [
        Text(condition=int(c), operand=n)
        for n in (0, 1)
        for c in (Condition.CACHED, Condition.STREAMED)
    ]
    obj.text = [*variants, end]
    assert end.fixups is not None
    end.fixups = [fixup for fixup in end.fixups if fixup.part != Part.ROW]
    assert obj.symbols is not None
    obj.symbols = obj.symbols[:2]
    assert obj.resources is not None
    obj.resources.staging = [Reserved(tiles=0xFFFF, row=2001, rows=79)]
    (package,) = link([obj])
    assert package.caching is not None
    assert package.caching.parameters is not None
    assert len(package.caching.parameters) == 256 * 2000
    assert package.main.parameters is not None
    assert len(package.main.parameters) == 512


@pytest.mark.long
def test_a_long_program_is_cut_into_chunks() -> None:
    obj = small_object()
    (text,) = obj.text or []
    filler = np.zeros(16 * 16_000, np.uint8)
    filler[1::16] = 8  # empty scalar bundles
    obj.text = [Text(code=filler), text]
    (package,) = link([obj])
    chunks = executable_chunks(package.main)
    assert len(chunks) == 1
    obj.text = [Text(code=filler), Text(code=filler), text]
    (package,) = link([obj])
    sizes = [
        len(s.bitstream) // 16
        for s in package.main.instruction_bitstreams or ()
        if s.bitstream is not None
    ]
    assert len(sizes) == 2
    assert max(sizes) <= 16_386
    assert [h.any_hint for h in (package.main.dma_hints and package.main.dma_hints.hints) or ()]
    obj.text = [Text(code=np.concatenate([filler, filler])), text]
    with pytest.raises(CapacityError, match="longer than the instruction memory"):
        link([obj])


@pytest.mark.long
def test_chunks_that_are_cut_have_room_for_their_end() -> None:
    obj = small_object()
    (text,) = obj.text or []
    for count in (16_379, 16_380, 16_384):
        filler = np.zeros(16 * count, np.uint8)
        filler[1::16] = 8
        obj.text = [Text(code=filler), text]
        if count == 16_379:
            (package,) = link([obj])
            sizes = [len(chunk.instructions) for chunk in executable_chunks(package.main)]
            assert sizes[0] == 16_386
        else:
            with pytest.raises(CapacityError, match="longer than the instruction memory"):
                link([obj])


def edited(old: str, new: str) -> ObjectFile:
    text = "\n".join(object_listing(small_object()))
    assert old in text
    return parse_object(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("mov s30, 0x40", "mov s30, 0x48", "transfers 72 bytes from 0"),
        ("mov s30, 0x40", "mov s30, 0x3c", "multiples of 8"),
        ("mov s30, 4", "mov s30, 5", "does not end with interrupt 0"),
    ],
)
def test_scripts_that_no_host_can_follow(old: str, new: str, what: str) -> None:
    with pytest.raises(LinkError, match=what):
        link([edited(old, new)])


def test_other_chips_and_tokens() -> None:
    obj = small_object()
    with pytest.raises(UsageError, match="caching token 0"):
        link([obj], LinkOptions(token=0))
    with pytest.raises(UsageError, match="64 bits"):
        link([obj], LinkOptions(token=1 << 64))
    obj.chip = "foo"
    with pytest.raises(LinkError, match="chip 'foo'"):
        link([obj])


def test_halves_of_a_package_are_not_recovered() -> None:
    (package,) = link([small_object()])
    with pytest.raises(UnsupportedError, match="another executable loads"):
        recover(replace(package, executables=package.executables[:1]))
    with pytest.raises(UnsupportedError, match="only loads parameters"):
        recover(replace(package, executables=package.executables[1:]))


def test_link_refusals() -> None:
    with pytest.raises(LinkError, match="nothing to link"):
        link([])
    empty = small_object()
    empty.text, empty.symbols = [], []
    with pytest.raises(LinkError, match="empty"):
        link([empty])
    cut = small_object()
    (text,) = cut.text or []
    assert text.code is not None
    text.code = text.code[: -16 * 5]
    with pytest.raises(LinkError):
        link([cut])


def test_object_text() -> None:
    obj = conditional(small_object())
    obj.name = 'a; "model"'
    lines = list(object_listing(obj))
    assert '.text {"when":"cached","operand":"weights"}' in lines
    assert '        symbol: wide.base row("weights")' in lines
    assert any(line.startswith('    mov s1, low(input, "in")') for line in lines)
    assert flat.diff(parse_object("\n".join(lines)), obj) == []


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (".text {}", ".text []", "JSON object"),
        (".chip beagle", ".chip poodle", "not a known chip"),
        ('low(input, "in")', 'low(input, "nothing")', "no layer"),
        ('row("weights")', 'row("nothing")', "no operand"),
        ('row("weights")', 'low("weights")', "LOW of OPERAND"),
        ('"words":2', '"words":3', "units in 3 rows"),
        ('"tile":0,', '"tile":77,', "tile 77"),
        ('"units":8', '"units":70000000000', "cannot hold"),
        (".data 00", ".data zz", "hexadecimal"),
        (".run {", ".ran {", "unknown directive"),
        ('"lanes":64', '"lanes":7', "7 lanes"),
        ("wide.base row", "63 row", "no field begins"),
    ],
)
def test_mistakes_in_object_text(old: str, new: str, what: str) -> None:
    text = "\n".join(object_listing(small_object()))
    assert old in text
    with pytest.raises(FormatError, match=what):
        parse_object(text.replace(old, new, 1))


def test_objects_are_checked_on_read() -> None:
    data = write_object(small_object())
    assert data[4:8] == IDENTIFIER
    for size in range(0, len(data), 37):
        with pytest.raises(FormatError):
            read_object(data[:size])
    broken = small_object()
    broken.operands[0].kind = 9  # type: ignore[index]
    with pytest.raises(FormatError, match="OperandKind"):
        write_object(broken)


@pytest.mark.long
def test_every_flipped_byte_of_an_object_is_accepted_or_refused_cleanly() -> None:
    data = write_object(small_object())
    rng = random.Random(3)
    outcomes = set()
    for _ in range(400):
        mutant = bytearray(data)
        mutant[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            link([read_object(mutant)])
            outcomes.add("linked")
        except FitzroyError as error:
            outcomes.add(type(error).__name__)
    assert "linked" in outcomes
    assert "FormatError" in outcomes


# --- editing packages ----------------------------------------------------------------------------


def listing_of(package: PackageFile) -> str:
    return "\n".join(package_listing([(0, package)]))


def test_an_edit_changes_the_program_and_its_script() -> None:
    (package,) = link([small_object()])
    text = listing_of(package)
    assert with_programs([package], parse_packages(text))[0] is package
    size = "    mov s30, 0x40\n"
    assert text.count(size) == 2
    (edited,) = with_programs(
        [package], parse_packages(text.replace(size, "    mov s30, 0x20\n", 1))
    )
    assert edited is not package
    hints = [h.any_hint for h in (edited.main.dma_hints and edited.main.dma_hints.hints) or ()]
    assert [getattr(hint, "size_in_bytes", None) for hint in hints] == [None, 32, 64, None]
    longer = text.replace(size, "    nop\n" + size, 1)
    (edited,) = with_programs([package], parse_packages(longer))
    before, after = package.main.instruction_bitstreams, edited.main.instruction_bitstreams
    assert before is not None
    assert after is not None
    assert [len(s.bitstream) for s in after if s.bitstream is not None] == [
        len(s.bitstream) + 16 for s in before if s.bitstream is not None
    ]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (".package 0", ".package 3", "the model has 1"),
        (".executable execution_only", ".executable stand_alone", "the package has"),
        (".executable execution_only", ".executable dancing", "not an executable"),
        (".chunk 0", ".chunk 1", "0 is next"),
        ('low(input, "in")', "row(1)", "not a symbol"),
        ('low(input, "in")', 'low(input, "out")', r"line \d+.*no input 'out'"),
        ("    issue", "    issue everything", "not a slot"),
    ],
)
def test_mistakes_in_listings(old: str, new: str, what: str) -> None:
    (package,) = link([small_object()])
    text = listing_of(package)
    assert old in text
    with pytest.raises(FitzroyError, match=what):
        with_programs([package], parse_packages(text.replace(old, new, 1)))


def test_a_wrapped_package_is_a_model() -> None:
    (package,) = link([small_object()])
    data = tflite.write_model(wrapped(package))
    container = read_container(data, "m.tflite")
    assert darwinn.diff(container.packages[0], package) == []
    (operator,) = extract(tflite.read_model(data))
    assert operator.inputs == ("in",)
    assert operator.outputs == ("out",)
    assert container.replaced(container.packages) == data
    other = replace(package, package=replace(package.package, compiler_version="x"))
    changed = read_container(container.replaced([other]), "m.tflite")
    assert changed.packages[0].package.compiler_version == "x"


def test_neighbours(tmp_path: Path) -> None:
    """Groups that one instruction refers to move together."""
    obj = small_object()
    (operand,) = obj.operands or []
    operand.kind = int(OperandKind.FULLY_CONNECTED)
    (run,) = operand.runs or []
    operand.runs = [
        replace(run, words=1, units=4),
        replace(run, tile=1, words=1, units=4),
    ]
    assert obj.resources == obj.resources
    obj.resources = Resources(staging=[Reserved(tiles=2, row=0, rows=4)])
    (package,) = link([obj])
    assert package.caching is not None
    segments = segments_of(executable_chunks(package.caching)[0].instructions)
    assert [(s.tile, s.row) for s in segments] == [(0, 4), (1, 4)]
    assert all(a.position < b.position for a, b in pairwise(segments))


@pytest.mark.long
@pytest.mark.corpus
def test_every_instruction_packs_to_the_bits_it_was_unpacked_from() -> None:
    corpus()
    opcodes: Counter[str] = Counter()
    bitstreams = 0
    for _, executable in corpus_executables():
        for stream in executable.instruction_bitstreams or ():
            assert stream.bitstream is not None
            data = stream.bitstream.tobytes()
            at = 0
            for instruction in disassemble(data):
                size = instruction.width // 8
                assert instruction.pack() == int.from_bytes(data[at : at + size], "little")
                opcodes[instruction.op.name.lower()] += 1
                at += size
            assert at == len(data)
            bitstreams += 1
    print(f"\n{opcodes.total()} instructions in {bitstreams} bitstreams: {dict(opcodes)}")
    assert (bitstreams, opcodes.total(), len(opcodes)) == (149, 49_014, 24)

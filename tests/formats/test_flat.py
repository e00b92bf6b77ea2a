from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.work import calls_at_most, memory_of

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import flat, pieces
from fitzroy.formats.flat import (
    Table,
    UnknownMember,
    scalar,
    skipped,
    string,
    strings,
    table,
    tables,
    union,
    vector,
)

IDENTIFIER = b"TEST"


@dataclass(eq=False, slots=True, kw_only=True)
class Leaf(Table):
    number: int = scalar("i4", -7)
    data: Array | None = vector("u1", align=32)
    label: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class Other(Table):
    real: float = scalar("f8", 0.5)


@dataclass(eq=False, slots=True, kw_only=True)
class Branch(Table):
    flag: bool = scalar("?", 1)
    i1: int = scalar("i1")
    u1: int = scalar("u1", 3)
    i2: int = scalar("i2")
    u2: int = scalar("u2")
    _retired: None = skipped(2)
    u4: int = scalar("u4")
    i8: int = scalar("i8", -1)
    u8: int = scalar("u8")
    f4: float = scalar("f4")
    choice: Leaf | Other | UnknownMember | None = union({1: Leaf, 4: Other}, opaque=True)
    only: Leaf | None = table(Leaf)
    many: list[Leaf] | None = tables(Leaf)
    names: list[str] | None = strings()
    wide: Array | None = vector("i8")
    halves: Array | None = vector("i2", align=16)
    reals: Array | None = vector("f4")


@dataclass(eq=False, slots=True, kw_only=True)
class Root(Table):
    branches: list[Branch] | None = tables(Branch)
    strict: Leaf | Other | None = union((Leaf, Other))
    note: str | None = string()


def integers(code: str) -> st.SearchStrategy[int]:
    info = np.iinfo(code)
    return st.integers(int(info.min), int(info.max))


def arrays(code: str) -> st.SearchStrategy[Array]:
    return st.binary(max_size=80).map(
        lambda raw: np.frombuffer(raw[: len(raw) // 8 * 8], "<" + code).copy()
    )


LEAVES = st.builds(
    Leaf,
    number=integers("i4"),
    data=st.none() | arrays("u1"),
    label=st.none() | st.text(max_size=8),
)
OTHERS = st.builds(Other, real=st.floats())
BRANCHES = st.builds(
    Branch,
    flag=st.booleans(),
    i1=integers("i1"),
    u1=integers("u1"),
    i2=integers("i2"),
    u2=integers("u2"),
    u4=integers("u4"),
    i8=integers("i8"),
    u8=integers("u8"),
    f4=st.floats(width=32),
    choice=st.none() | LEAVES | OTHERS,
    only=st.none() | LEAVES,
    many=st.none() | st.lists(LEAVES, max_size=3),
    names=st.none() | st.lists(st.text(max_size=5), max_size=3),
    wide=st.none() | arrays("i8"),
    halves=st.none() | arrays("i2"),
    reals=st.none() | arrays("f4"),
)
ROOTS = st.builds(
    Root,
    branches=st.none() | st.lists(BRANCHES, max_size=3),
    strict=st.none() | LEAVES | OTHERS,
    note=st.none() | st.text(max_size=8),
)


def sample() -> Root:
    leaf = Leaf(number=5, data=np.arange(7, dtype=np.uint8), label="leaf")
    return Root(
        branches=[
            Branch(
                flag=False, i1=-3, u2=9, u8=1 << 40, f4=1.5, choice=Other(real=2.0), only=leaf,
                many=[leaf, Leaf()], names=["a", "", "ü"], wide=np.array([1, -1]),
                halves=np.arange(3, dtype=np.int16), reals=np.array([0.5, 1], np.float32),
            ),
            Branch(),
        ],
        strict=leaf,
        note="text",
    )  # fmt: skip


def encode(root: Table) -> bytes:
    return flat.encode(root, identifier=IDENTIFIER)


def decode(data: bytes) -> Root:
    return flat.decode(Root, data, identifiers=(IDENTIFIER,))


def decodes_or_refuses(data: bytes) -> bool:
    """Whether the bytes decode; anything but a value or a FormatError fails the test."""
    try:
        flat.as_dict(decode(data))
    except FormatError as error:
        return not str(error)
    return True


@pytest.mark.long
@settings(deadline=None, max_examples=150)
@given(ROOTS)
def test_decoding_what_was_encoded_gives_the_same_tables(root: Root) -> None:
    data = encode(root)
    assert flat.identifier(data) == IDENTIFIER
    assert decode(data) == root
    assert encode(root) == data
    assert encode(decode(data)) == data


def test_defaults_and_absent_fields_cost_no_bytes_and_come_back() -> None:
    assert decode(encode(Root())) == Root()
    assert len(encode(Root())) < 32
    branch = decode(encode(Root(branches=[Branch()]))).branches
    assert branch is not None
    assert (branch[0].flag, branch[0].u1, branch[0].i8, branch[0].only) == (True, 3, -1, None)


def test_absent_and_empty_are_told_apart() -> None:
    root = decode(encode(Root(branches=[], note="")))
    assert root.branches == []
    assert root.note == ""
    assert decode(encode(Root())).branches is None


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31])
def test_vectors_are_aligned_as_declared(count: int) -> None:
    values = np.arange(count, dtype=np.int16)
    leaf = Leaf(data=np.arange(count, dtype=np.uint8), label="x" * count)
    data = encode(
        Root(branches=[Branch(many=[leaf], wide=values, halves=values, names=["n" * count])])
    )
    start = np.frombuffer(data, np.uint8).ctypes.data
    branches = decode(data).branches
    assert branches is not None
    many, wide, halves = branches[0].many, branches[0].wide, branches[0].halves
    assert many is not None
    for array, align in ((many[0].data, 32), (wide, 8), (halves, 16)):
        assert array is not None
        assert len(array) == count
        assert not count or (array.ctypes.data - start) % align == 0


def test_writing_takes_the_file_and_one_copy_of_it() -> None:
    leaf = Leaf(data=np.zeros(4 << 20, np.uint8), label="large")
    with memory_of() as memory:
        size = len(flat.encode(leaf))
    # Room for the file is reserved, but takes memory only where something is written.
    assert memory.peak < 2.1 * size


@pytest.mark.parametrize("large", [0, 1, 100, 1 << 20])
def test_vectors_that_are_kept_apart_are_where_they_belong(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(
        strict=Leaf(data=np.arange(200, dtype=np.uint8), label="one"),
        branches=[Branch(wide=np.arange(99), halves=np.arange(7, dtype=np.int16), names=["two"])],
    )
    wanted = flat.encode(root)
    for module in (flat, pieces):
        monkeypatch.setattr(module, "LARGE", large)
    assert flat.encode(root) == wanted


def test_big_vectors_are_views_of_the_input() -> None:
    data = encode(Root(strict=Leaf(data=np.zeros(1 << 20, np.uint8))))
    with memory_of() as memory:
        strict = decode(data).strict
    assert isinstance(strict, Leaf)
    assert strict.data is not None
    assert not strict.data.flags.writeable
    assert memory.peak < 100_000


def test_every_truncation_is_refused_or_decodes() -> None:
    data = encode(sample())
    refused = [not decodes_or_refuses(data[:size]) for size in range(len(data))]
    assert all(refused[:64])
    assert decodes_or_refuses(data)


def test_single_byte_mutations_are_refused_or_decode() -> None:
    data = encode(sample())
    outcomes = set()
    for position in range(len(data)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, data[position] ^ 1, data[position] ^ 4}:
            mutant = data[:position] + bytes([value]) + data[position + 1 :]
            outcomes.add(decodes_or_refuses(mutant))
    assert outcomes == {True, False}


@pytest.mark.slow
def test_all_single_byte_mutations_are_refused_or_decode() -> None:
    data = encode(sample())
    for position in range(len(data)):
        for value in range(256):
            decodes_or_refuses(data[:position] + bytes([value]) + data[position + 1 :])


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.booleans())
def test_noise_is_refused_or_decodes(noise: bytes, stamped: bool) -> None:
    decodes_or_refuses(b"\x08\0\0\0" + IDENTIFIER + noise if stamped else noise)


def test_random_words_are_refused_or_decode() -> None:
    data, rng = encode(sample()), random.Random(1)
    for _ in range(3000):
        mutant = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(0, len(mutant) - 4, 4)
            word = rng.choice([0, 1, 4, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, len(data) - at])
            mutant[at : at + 4] = word.to_bytes(4, "little")
        decodes_or_refuses(bytes(mutant))


def bomb(width: int, *, full: bool = False) -> bytes:
    """Branches by the million: two vectors of `width` offsets that all lead to one table."""
    builder = flatbuffers.Builder(1 << 16)
    text = builder.CreateString("text")
    builder.StartVector(1, 0, 1)
    empty = builder.EndVector()
    builder.StartObject(3)
    if full:
        builder.PrependInt32Slot(0, 1_000_000, 0)
        builder.PrependUOffsetTRelativeSlot(1, empty, 0)
        builder.PrependUOffsetTRelativeSlot(2, text, 0)
    leaf = builder.EndObject()
    many = shared(builder, leaf, width)
    builder.StartObject(20)
    builder.PrependUOffsetTRelativeSlot(14, many, 0)
    branch = builder.EndObject()
    branches = shared(builder, branch, width)
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, branches, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def shared(builder: flatbuffers.Builder, target: int, count: int) -> int:
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(target)
    return int(builder.EndVector())


@pytest.mark.parametrize("full", [False, True])
def test_shared_table_bombs_are_refused_within_bounds(
    full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bomb(4000, full=full)
    # The bound is 16 MiB and four times the file; less of it keeps counting quick.
    assert flat._FREE_BUDGET == 16 << 20
    monkeypatch.setattr(flat, "_FREE_BUDGET", 2 << 20)
    bound = 4 * len(data) + (2 << 20)
    with calls_at_most(bound // 4), pytest.raises(FormatError, match="expands"):
        decode(data)
    with memory_of() as memory, pytest.raises(FormatError, match="expands"):
        decode(data)
    assert memory.peak <= bound


def test_modest_sharing_is_accepted() -> None:
    branches = decode(bomb(20)).branches
    assert branches is not None
    assert [len(branch.many or ()) for branch in branches] == [20] * 20


def test_a_vector_shared_by_thousands_of_tables_is_refused() -> None:
    """Views cost no memory, but whoever walks over all of them would never finish."""
    builder = flatbuffers.Builder(1 << 20)
    builder.StartVector(8, 20_000, 8)
    for _ in range(20_000):
        builder.PrependInt64(1)
    wide = builder.EndVector()
    places = []
    for _ in range(1000):
        builder.StartObject(20)
        builder.PrependUOffsetTRelativeSlot(16, wide, 0)
        places.append(builder.EndObject())
    builder.StartVector(4, len(places), 4)
    for place in places:
        builder.PrependUOffsetTRelative(place)
    branches = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, branches, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    with pytest.raises(FormatError, match="expands"):
        decode(bytes(builder.Output()))


def test_of_a_huge_shared_vtable_only_known_slots_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every table points at one vtable of 65,532 bytes, of which the schema knows a few slots."""
    count, vtable = 20_000, b"\xfc\xff" + b"\x04\0" + bytes(0xFFF8)
    tables_at = 16 + len(vtable)
    root = tables_at + 4
    data = bytearray(root.to_bytes(4, "little") + IDENTIFIER + bytes(8) + vtable)
    data += bytes(4)
    own = np.array([8, 8, 4, 0], "<u2").tobytes()
    data[8:16] = own
    data += (root - 8).to_bytes(4, "little", signed=True) + (4).to_bytes(4, "little")
    first = root + 8 + 4 + 4 * count
    data += count.to_bytes(4, "little")
    data += (first - np.arange(root + 12, first, 4)).astype("<u4").tobytes()
    data += (first - 16).to_bytes(4, "little")
    slots = 0

    def unpack_from(*arguments: Any) -> tuple[Any, ...]:
        nonlocal slots
        found = struct.unpack_from(*arguments)
        slots += len(found)
        return found

    monkeypatch.setattr(flat, "struct", SimpleNamespace(unpack_from=unpack_from))
    branches = decode(bytes(data)).branches
    assert branches is not None
    assert len(branches) == count
    assert 0 < slots <= count * Branch.declared().slots + Root.declared().slots


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "identifier"),
        (b"\x08\0\0\0NOPE", "identifier b'NOPE' where TEST"),
        (b"\0\0\0\0TEST", "points at itself"),
        (b"\xff\xff\xff\xffTEST" + bytes(16), "bytes wanted"),
        (b"\x08\0\0\0TEST" + bytes(8), "vtable of"),
    ],
)
def test_faults_are_named(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(data)


def test_errors_carry_path_offset_and_table() -> None:
    with pytest.raises(FormatError) as caught:
        flat.decode(Root, b"\0\0\0\0NOPE", identifiers=(IDENTIFIER,), path="a.bin", base=0x100)
    assert (caught.value.path, caught.value.offset, caught.value.table) == ("a.bin", 0x104, "Root")


def test_unknown_members_are_carried_where_the_schema_allows_and_refused_elsewhere() -> None:
    def write(code: int, slot: int, slots: int) -> bytes:
        builder = flatbuffers.Builder(64)
        builder.StartObject(1)
        inner = builder.EndObject()
        builder.StartObject(slots)
        builder.PrependUint8Slot(slot, code, 0)
        builder.PrependUOffsetTRelativeSlot(slot + 1, inner, 0)
        builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
        return bytes(builder.Output())

    opaque = flat.decode(Branch, write(9, 11, 19), identifiers=(IDENTIFIER,))
    assert opaque.choice == UnknownMember(code=9)
    with pytest.raises(ValueError, match="cannot hold"):
        encode(opaque)
    with pytest.raises(FormatError, match="unknown union member 9"):
        decode(write(9, 1, 4))


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        encode(Leaf(data=np.array([300])))
    with pytest.raises(TypeError):
        encode(Branch(u1=300))


def test_as_dict_names_union_members_and_measures_bytes() -> None:
    assert flat.as_dict(sample().strict) == {"number": 5, "data": {"bytes": 7}, "label": "leaf"}
    root = flat.as_dict(sample())
    assert isinstance(root, dict)
    assert root["strict_type"] == "Leaf"
    assert root["branches"][0]["wide"] == [1, -1]

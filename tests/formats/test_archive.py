"""Archives after TFLite models."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from fitzroy.base.errors import FormatError
from fitzroy.formats.archive import Archive, packed, unpacked

BEFORE = b"what comes before" * 3
FILES = {"labels.txt": b"cat\ndog\n", "notes/größe.txt": b"", "data.bin": bytes(range(256))}


def appended(
    files: dict[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b""
) -> bytes:
    buffer = io.BytesIO(BEFORE)
    with zipfile.ZipFile(buffer, "a", method) as archive:
        archive.comment = comment
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def read(data: bytes) -> Archive:
    found = unpacked(memoryview(data))
    assert found is not None
    return found


def test_what_is_packed_is_read_by_zipfile() -> None:
    data = BEFORE + packed(FILES, len(BEFORE))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == FILES
        assert {item.compress_type for item in archive.infolist()} == {zipfile.ZIP_STORED}
        # Offsets count from the beginning of the whole file.
        assert archive.infolist()[0].header_offset == len(BEFORE)


def test_equal_files_give_equal_bytes() -> None:
    assert packed(FILES, 7) == packed(dict(FILES), 7)
    assert packed({}, 7) == b""


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("comment", [b"", b"made by others"])
def test_archives_of_zipfile_are_read(method: int, comment: bytes) -> None:
    found = read(appended(FILES, method, comment))
    assert dict(found.files) == FILES
    assert list(found.files) == list(FILES)
    assert found.faults == ()


def test_offsets_may_count_from_the_archive() -> None:
    found = read(BEFORE + packed(FILES, 0))
    assert dict(found.files) == FILES


def test_other_files_have_no_archive() -> None:
    for data in (b"", BEFORE, BEFORE + b"PK\x05\x06"):
        assert unpacked(memoryview(data)) is None


def test_folders_are_no_files() -> None:
    assert dict(read(appended({"folder/": b"", "folder/x": b"1"})).files) == {"folder/x": b"1"}


def test_a_bomb_is_left_out() -> None:
    files = {"zeros": bytes(17 << 20), "labels.txt": b"cat\n"}
    found = read(appended(files, zipfile.ZIP_DEFLATED))
    assert dict(found.files) == {"labels.txt": b"cat\n"}
    assert found.faults == ("'zeros' has 17825792 bytes; 16777216 are read of an archive",)


def test_all_files_together_are_bounded() -> None:
    files = {f"zeros{number}": bytes(6 << 20) for number in range(4)}
    found = read(appended(files, zipfile.ZIP_DEFLATED))
    assert list(found.files) == ["zeros0", "zeros1"]
    assert len(found.faults) == 2


def test_a_size_that_is_a_lie_is_found() -> None:
    data = bytearray(appended({"zeros": bytes(1 << 20)}, zipfile.ZIP_DEFLATED))
    entry = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, entry + 24, 10)
    found = read(bytes(data))
    assert (dict(found.files), found.faults) == ({}, ("'zeros' is damaged",))


def test_too_many_files_are_refused() -> None:
    many = {str(number): b"" for number in range(257)}
    found = read(appended(many))
    assert dict(found.files) == {}
    assert found.faults == ("257 files in the archive, at most 256 are read",)
    with pytest.raises(FormatError, match="257 files of 0 bytes"):
        packed(many, 0)
    with pytest.raises(FormatError, match="at most 256 of 16777216"):
        packed({"x": bytes((16 << 20) + 1)}, 0)


@pytest.mark.parametrize(
    ("place", "change", "fault"),
    [
        (8, 1, "is encrypted"),
        (10, 12, "is compressed by method 12"),
        (16, 1, "is damaged"),
        (42, 0x7FFFFFF0, "is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_out(place: int, change: int, fault: str) -> None:
    data = bytearray(appended({"a": b"first", "b": b"second"}))
    entry = data.index(b"PK\x01\x02")
    struct.pack_into("<I" if place in (16, 42) else "<H", data, entry + place, change)
    found = read(bytes(data))
    assert dict(found.files) == {"b": b"second"}
    assert len(found.faults) == 1
    assert fault in found.faults[0]


def test_a_name_that_is_there_twice_counts_once() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"first")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"second")
    found = read(buffer.getvalue())
    assert dict(found.files) == {"a": b"first"}
    assert found.faults == ("'a' is packed twice",)


@pytest.mark.parametrize("size", [1, 46, 0xFFFFFF])
def test_a_directory_of_another_size_is_refused(size: int) -> None:
    data = bytearray(appended({"a": b"first", "b": b"second"}))
    struct.pack_into("<I", data, len(data) - 10, size)
    found = read(bytes(data))
    assert dict(found.files) == {}
    assert len(found.faults) == 1

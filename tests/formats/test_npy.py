from __future__ import annotations

import io
import tracemalloc

import numpy as np
import pytest

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats.npy import read_npy


def written(array: Array, version: tuple[int, int] = (1, 0)) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


def with_header(text: str, content: bytes = b"") -> bytes:
    header = text.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [
        np.zeros(()),
        np.zeros((0, 3), np.int8),
        np.arange(3, dtype=">f4"),
        np.arange(24).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6, dtype=np.float16).reshape(2, 3)),
        np.array([True, False]),
        np.zeros(2, np.complex64),
    ],
)
def test_what_numpy_writes(array: Array, version: tuple[int, int]) -> None:
    found = read_npy(written(array, version))
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), ",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1(,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (True, 1), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '|i1', 'fortran_order': 0, 'shape': (1,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': 1, }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), 'shape': (1,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), 'more': 1, }",
        "{'descr': '|i1', 'fortran_order': False, }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|i3', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': [('a', '|i1')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '|i1', 'fortran_order': False, 'shape': (%s,), }" % ("9" * 5000),
        "{'descr': '|i1', 'fortran_order': False, 'shape': (%s), }" % ("1, " * 33),
        "{'descr': '|i1', 'fortran_order': False, 'shape': %s, }" % ("(" * 900 + ")" * 900),
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 99999999999999999, 9999999), }",
        "[" * 60_000,
    ],
)
def test_headers_that_numpy_does_not_write(text: str) -> None:
    with pytest.raises(FormatError, match=r"no readable \.npy file"):
        read_npy(with_header(text, b"\x01"))


def test_sizes_are_compared_before_anything_is_made() -> None:
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
    tracemalloc.start()
    with pytest.raises(FormatError, match="8000000000000 bytes, and 3 follow"):
        read_npy(with_header(text, b"abc"))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_every_shorter_or_longer_file() -> None:
    whole = written(np.arange(6, dtype=np.int16))
    for length in range(len(whole)):
        with pytest.raises(FormatError):
            read_npy(whole[:length])
    with pytest.raises(FormatError, match="13 follow"):
        read_npy(whole + b"\0")
    with pytest.raises(FormatError, match="version 4"):
        read_npy(whole[:6] + b"\x04" + whole[7:])

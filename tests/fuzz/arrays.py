"""Arrays and labels: ``.npy`` files, images, and names of classes."""

from __future__ import annotations

import io
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable

import numpy as np
from tests.fuzz import hostile
from tests.fuzz.mutate import mutant

from fitzroy.base.errors import UsageError
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.execution import arrays
from fitzroy.formats import npz

_QUANTIZED = Quantization.per_tensor(0.05, 3)
TYPES = (
    TensorType((1, 4, 4, 3), DType.INT8, _QUANTIZED),
    TensorType((1, 4, 4, 3), DType.FLOAT32),
    TensorType((1, 2), DType.INT64),
    TensorType((), DType.BOOL),
    TensorType((0, 3), DType.UINT8),
    TensorType((2, 3), DType.FLOAT16),
)
"""What files are read as."""

_HEADERS = (
    "{}", "[]", "0", "None", "{'descr'", "(", "{" * 400, "(" * 900, "'" * 3, "{'descr': '<i1'}",
    "{'descr': '<i1', 'fortran_order': False, 'shape': (True, 2)}",
    "{'descr': '<i1', 'fortran_order': 0, 'shape': (2,)}",
    "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': [('a', '<i1')], 'fortran_order': False, 'shape': (2,)}",
    "{'descr': ('<i1', (2,)), 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '<U99999999', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '|S0', 'fortran_order': False, 'shape': (2,)}",
    "{'descr': '|V8', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '>f4', 'fortran_order': True, 'shape': (1, 2)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1e3,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9999999999999999999999)}",
    "{'descr': 5, 'fortran_order': False, 'shape': [2]}",
    "{'descr': '<i1', 'fortran_order': False, 'shape': (2,), 'x': 1}",
    "{'descr': '<i1', 'descr': '<i2', 'fortran_order': False, 'shape': (1,)}",
    "{'descr': '\\ud800', 'fortran_order': False, 'shape': (2L,)}", "1if 2else 3", "-" * 3000 + "1",
    "{'descr': " + "+".join(["1"] * 2000) + "}", "lambda: 0", "{**{}}", "f'{1}'", "{1: 2, 3}",
)  # fmt: skip

_NUMBERS = ("True", "-1", "0", "1.0", "1e9", "None", "'2'", "(2,)", "99999999999", "0x2", "2L", "²")


def npy_files() -> list[bytes]:
    """Files that suit the types, in both orders of bytes and elements, and of all versions."""
    found = []
    for type in TYPES:
        values = np.zeros(type.shape, type.dtype.numpy)
        for array in (values, np.asfortranarray(values), values.astype(values.dtype.str, "F")):
            found.append(_file(array, (1, 0)))
        found.append(_file(values, (3, 0)))
    return list(dict.fromkeys(found))


def _file(array: Array, version: tuple[int, int]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version)
    return stream.getvalue()


def npy_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A file with another header, of which size and version may be wrong as well."""
    major = seed[6]
    (size,) = struct.unpack_from("<H" if major == 1 else "<I", seed, 8)
    start = 10 if major == 1 else 12
    header = seed[start : start + size].decode("latin-1").rstrip()
    kind = rng.random()
    if kind < 0.4:
        header = rng.choice(_HEADERS)
    elif kind < 0.7:
        pieces = header.split(" ")
        pieces[rng.randrange(len(pieces))] = rng.choice((*_NUMBERS, "", "{", ")", "'<f8',"))
        header = " ".join(pieces)
    else:
        header = mutant(rng, [header.encode()]).decode("latin-1")
    if rng.random() < 0.1:
        header += " " * rng.choice((1, 10_000, 70_000))
    content = (header + "\n").encode("utf-8", "surrogatepass")
    major = rng.choice((1, 2, 3, major, major, 0, 9))
    length = len(content) if rng.random() < 0.9 else rng.choice((0, 1, 65535, (1 << 32) - 1))
    form, most = ("<H", 0xFFFF) if major == 1 else ("<I", 0xFFFF_FFFF)
    tail = seed[start + size :]
    return b"\x93NUMPY" + bytes((major, 0)) + struct.pack(form, min(length, most)) + content + tail


def npz_files() -> list[bytes]:
    """Archives with one array and several, packed and not."""
    found = []
    arrays_of = {f"input_{n}": np.zeros(t.shape, t.dtype.numpy) for n, t in enumerate(TYPES)}
    for members in (arrays_of, {"x": np.arange(400, dtype=np.float32)}):
        for save in (np.savez, np.savez_compressed):
            stream = io.BytesIO()
            save(stream, **members)
            found.append(stream.getvalue())
    return found


def npz_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """An archive with a member that no array has, or with sizes that are not so."""
    if rng.random() < 0.3:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            header = rng.choice(npy_files())
            archive.writestr(rng.choice(("x.npy", "../x", "x/y.npy", "x" * 300)), header)
            archive.writestr("z.npy", bytes(rng.choice((0, 1, 1 << 20))))
        return stream.getvalue()
    data = bytearray(mutant(rng, [seed]))
    place = data.find(b"PK\x01\x02")
    if place >= 0 and len(data) >= place + 46 and rng.random() < 0.7:
        # Method, check sum, packed and unpacked size in the archive's list of members.
        at, form = rng.choice(((10, "<H"), (16, "<I"), (20, "<I"), (24, "<I"), (42, "<I")))
        most = 0xFFFF if form == "<H" else 0xFFFF_FFFF
        struct.pack_into(form, data, place + at, rng.choice((0, 1, 8, 12, most, 1 << 14)))
    return bytes(data)


def as_npz(data: bytes) -> dict[str, Array]:
    """The arrays of an archive.

    Raises:
        FormatError: it is broken.
        CapacityError: an array would be larger than the budget.
    """
    return npz.read_npz(data, "fuzz.npz")


def images() -> list[bytes]:
    """Small images of several formats and modes."""
    from PIL import Image

    found = []
    for mode, form in (
        ("L", "PNG"), ("RGB", "PNG"), ("P", "GIF"), ("RGB", "JPEG"), ("RGBA", "PNG"),
        ("RGB", "BMP"), ("L", "TIFF"), ("RGB", "PPM"), ("1", "PNG"), ("CMYK", "JPEG"),
        ("RGB", "WEBP"),
    ):  # fmt: skip
        stream = io.BytesIO()
        Image.new(mode, (5, 4), 1).save(stream, form)
        found.append(stream.getvalue())
    return found


def as_npy(data: bytes) -> list[Array]:
    """A file as all types that it suits.

    Raises:
        FormatError: it is broken.
        UsageError: it suits none.
    """
    return _every(lambda type: arrays.npy_array(data, type, path="fuzz.npy"))


def as_image(data: bytes) -> list[Array]:
    """An image as all types that take one.

    Raises:
        FormatError: it is broken.
        UsageError: it suits none.
    """
    rule = arrays.Normalization((127.5,), (127.5,))
    return [
        *_every(lambda type: arrays.image_array(data, type, path="fuzz.png")),
        *_every(lambda type: arrays.image_array(data, type, rule, path="fuzz.png")),
    ]


def _every(read: Callable[[TensorType], Array]) -> list[Array]:
    found: list[Array] = []
    refusals: list[Exception] = []
    for type in TYPES:
        try:
            array = read(type)
        except UsageError as error:
            refusals.append(error)
            continue
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            raise AssertionError(f"{array.dtype}{list(array.shape)} for {type}")
        found.append(array)
    if not found:
        raise refusals[0]
    return found


# --- labels --------------------------------------------------------------------------------------


def labels_files() -> list[bytes]:
    """Names alone, with numbers, and with a mark of UTF-8 in front."""
    return [
        b"cat\ndog\nbird\n",
        b"0 cat\n1 dog\n17  a bird\n",
        b"0: cat\n1: dog\n999: bird\n",
        "\ufeff0\tgrüße\n1\t鳥\n".encode(),
    ]


_LINES = (
    "9" * 5000 + " x", "-1 x", "1", "1 ", " : x", "1:x", "1::x", "٣ x", "² x", "0x1 x", "1_0 x",
    "18446744073709551616 x", "0 " + "x" * 70_000, "0" * 4000 + "1 x", "\x85", "\x0c1 x", "1\x1cx",
)  # fmt: skip


_MANY = 1 << 20
"""Characters of a file with many lines."""


def labels_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """Labels with hostile lines."""
    lines = seed.decode().splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randint(0, len(lines))
        line = (
            rng.choice(_LINES)
            if rng.random() < 0.5
            else f"{rng.randint(0, 99)} " + hostile.text(rng)
        )
        lines[at : at + rng.randrange(2)] = [line + rng.choice(("\n", "\r\n", "\r", "", "\u2028"))]
    if rng.random() < 0.02:
        lines *= 1 + _MANY // (1 + sum(map(len, lines)))
    content = "".join(lines).encode("utf-8", "surrogatepass")
    return content if rng.random() < 0.9 else content + rng.choice(hostile.BYTES)


def as_labels(data: bytes) -> dict[int, str]:
    """Names by the number of their class.

    Raises:
        FormatError: it is no text.
    """
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(data)
        file.flush()
        return arrays.load_labels(file.name)


def labels_target(data: bytes) -> None:
    """Read labels; numbers must be indices, and names text.

    Raises:
        FormatError: it is no text.
    """
    for number, name in as_labels(data).items():
        if number < 0 or "\n" in name:
            raise AssertionError(f"class {number} is {name!r}")

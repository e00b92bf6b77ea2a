from __future__ import annotations

import io
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests.support import need

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array, DType, Quantization, TensorType
from fitzroy.execution import arrays
from fitzroy.execution.arrays import Normalization, image_array, load_array

RGB = TensorType((1, 2, 3, 3), DType.UINT8, Quantization.per_tensor(1 / 128, 128))
GREY = TensorType((1, 2, 3, 1), DType.INT8, Quantization.per_tensor(1 / 255, -128))


def png(pixels: Array) -> bytes:
    need("PIL", "images")
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


PIXELS = np.arange(18, dtype=np.uint8).reshape(2, 3, 3) * 14


@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        (DType.UINT8, PIXELS),
        (DType.INT8, (PIXELS.astype(int) - 128).astype(np.int8)),
        (DType.FLOAT32, (PIXELS / 255).astype(np.float32)),
    ],
)
def test_pixels_by_convention(dtype: DType, wanted: Array) -> None:
    found = image_array(png(PIXELS), TensorType((1, 2, 3, 3), dtype))
    assert found.dtype == dtype.numpy
    np.testing.assert_array_equal(found, wanted[None])


def test_channels_first_and_missing_dimensions() -> None:
    data = png(PIXELS)
    planar = image_array(data, TensorType((1, 3, 2, 5), DType.UINT8))
    assert planar.shape == (1, 3, 2, 5)
    np.testing.assert_array_equal(
        image_array(data, TensorType((1, 3, 2, 9), DType.UINT8))[0].transpose(1, 2, 0),
        image_array(data, TensorType((2, 9, 3), DType.UINT8)),
    )
    grey = image_array(data, GREY)
    for shape in ((2, 3, 1), (1, 2, 3), (2, 3)):
        type = TensorType(shape, DType.INT8)
        if shape == (1, 2, 3):
            # The last dimension is taken for channels.
            assert image_array(data, type).shape == shape
        else:
            np.testing.assert_array_equal(image_array(data, type), grey.reshape(shape))


def test_images_are_resized() -> None:
    flat = np.full((40, 60), 77, np.uint8)
    found = image_array(png(flat), RGB)
    np.testing.assert_array_equal(found, np.full((1, 2, 3, 3), 77, np.uint8))


def test_normalization_goes_through_the_quantization() -> None:
    rule = Normalization.parse("127.5", "127.5")
    found = image_array(png(PIXELS), RGB, rule)
    real = (PIXELS / 127.5) - 1
    np.testing.assert_array_equal(found[0], np.clip(np.rint(real * 128) + 128, 0, 255))
    per_channel = Normalization.parse("10,20,30", "2")
    floats = image_array(png(PIXELS), TensorType((1, 2, 3, 3), DType.FLOAT32), per_channel)
    np.testing.assert_allclose(floats[0], (PIXELS - np.array([10.0, 20, 30])) / 2)


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [("a", None, "--mean"), (None, "0", "must not be 0"), (None, "nan", "finite")],
)
def test_bad_normalizations(mean: str | None, std: str | None, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Normalization.parse(mean, std)


def test_normalizations_that_do_not_suit() -> None:
    with pytest.raises(UsageError, match="one per channel"):
        image_array(png(PIXELS), RGB, Normalization.parse("1,2", None))
    with pytest.raises(UsageError, match="floating-point or quantized"):
        image_array(
            png(PIXELS), TensorType((1, 2, 3, 3), DType.INT8), Normalization.parse("1", None)
        )


@pytest.mark.parametrize("shape", [(1, 64), (2, 8, 8, 1), (1, 8, 8, 16), (), (64,)])
def test_tensors_that_take_no_image(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="takes no image"):
        image_array(png(PIXELS), TensorType(shape, DType.INT8))


def test_types_without_convention() -> None:
    with pytest.raises(UsageError, match="int16"):
        image_array(png(PIXELS), TensorType((1, 2, 3, 3), DType.INT16))


@pytest.mark.parametrize("compression", ["tiff_lzw", "jpeg"])
def test_broken_tiff_files_leave_stderr_alone(
    compression: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """libtiff writes to the descriptor itself; whoever writes to it afterwards is heard."""
    need("PIL", "images")
    from PIL import Image

    stream = io.BytesIO()
    grey = (np.arange(64 * 64) % 251).astype(np.uint8).reshape(64, 64)
    Image.fromarray(grey).convert("RGB").save(stream, "TIFF", compression=compression)
    broken = bytearray(stream.getvalue())
    for at in range(40, 400):
        broken[at] ^= 0x5A
    with suppress(FormatError):
        image_array(bytes(broken), RGB)
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_broken_and_deep_images() -> None:
    data = png(PIXELS)
    for broken in (data[:40], b"\x89PNG\r\n\x1a\nrubbish", b"BM" + bytes(20), b""):
        with pytest.raises(FormatError, match="no readable image"):
            image_array(broken, RGB)
    with pytest.raises(UsageError, match="8 bits"):
        image_array(png(np.full((2, 3), 40000, np.uint16)), GREY)


def test_images_need_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        image_array(b"BM", RGB)
    assert install_extra("images") in caught.value.hint


def npy(path: Path, array: Array) -> str:
    np.save(path, array)
    return str(path)


def test_npy_files(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.int8).reshape(2, 3)
    for variant in (values, values.reshape(1, 2, 3, 1), np.asfortranarray(values)):
        found = load_array(npy(tmp_path / "x.npy", variant), GREY)
        np.testing.assert_array_equal(found, values.reshape(GREY.shape))
    wide = TensorType((2, 3), DType.INT32)
    big_endian = load_array(npy(tmp_path / "x.npy", values.astype(">i4")), wide)
    assert big_endian.dtype == np.int32
    np.testing.assert_array_equal(big_endian, values)


@pytest.mark.parametrize(
    "array",
    [np.zeros((3, 2), np.int8), np.zeros((2, 3), np.uint8), np.zeros((2, 3)), np.zeros(6, np.int8)],
)
def test_npy_files_of_another_type(tmp_path: Path, array: Array) -> None:
    with pytest.raises(UsageError, match=r"int8\[1,2,3,1\].*the array is"):
        load_array(npy(tmp_path / "x.npy", array), GREY)


def test_real_numbers_for_a_quantized_input_have_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--float"):
        load_array(npy(tmp_path / "x.npy", np.zeros((2, 3), np.float32)), GREY)
    with pytest.raises(UsageError) as caught:
        load_array(npy(tmp_path / "x.npy", np.zeros((2, 4), np.float32)), GREY)
    assert "--float" not in str(caught.value)


def test_broken_npy_files(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    whole = Path(npy(path, np.zeros((2, 3), np.int8))).read_bytes()
    objects = io.BytesIO()
    np.save(objects, np.array([{}]), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, a=np.zeros(3))
    for data in (b"", b"rubbish", whole[:50], whole[:-1], objects.getvalue(), archive.getvalue()):
        path.write_bytes(data)
        with pytest.raises(FormatError):
            load_array(str(path), GREY)


def test_raw_files(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    wide = TensorType((2, 2), DType.FLOAT32)
    values = np.array([[1.5, -2], [3, 4]], "<f4")
    path.write_bytes(values.tobytes())
    np.testing.assert_array_equal(load_array(str(path), wide), values)
    path.write_bytes(values.tobytes()[:-1])
    with pytest.raises(UsageError, match=r"16 bytes.*the file has 15"):
        load_array(str(path), wide)
    # A file of the tensor's size is raw even if it starts like an image.
    path.write_bytes(b"BM0123")
    np.testing.assert_array_equal(load_array(str(path), GREY).tobytes(), b"BM0123")
    with pytest.raises(UsageError, match="for images"):
        load_array(str(path), GREY, Normalization.parse("1", None))


def test_ranking() -> None:
    assert arrays.top(np.array([1.0, np.nan, 3, 3, -np.inf, 2]), 5) == [2, 3, 5, 0, 4]
    assert arrays.is_vector((1, 10))
    assert not arrays.is_vector((1, 1))
    assert not arrays.is_vector(())
    assert not arrays.is_vector((0,))
    assert not arrays.is_vector((2, 2))


def test_real_values() -> None:
    stored = np.array([[0, 128, 255]], np.uint8)
    type = TensorType((1, 3), DType.UINT8, Quantization.per_tensor(0.5, 128))
    np.testing.assert_array_equal(arrays.real_values(stored, type), [[-64, 0, 63.5]])
    plain = arrays.real_values(stored, TensorType((1, 3), DType.UINT8))
    np.testing.assert_array_equal(plain, [[0, 128, 255]])


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("cat\ndog\n", {0: "cat", 1: "dog"}),
        ("0 cat\n17  big dog\n", {0: "cat", 17: "big dog"}),
        ("3: cat\r\n1: dog\r\n", {3: "cat", 1: "dog"}),
        ("\ufeffcat\n\n7 dwarfs\n", {0: "cat", 1: "", 2: "7 dwarfs"}),
        ("0\n1\n", {0: "0", 1: "1"}),
        ("", {}),
    ],
)
def test_labels(tmp_path: Path, text: str, labels: dict[int, str]) -> None:
    path = tmp_path / "labels.txt"
    path.write_text(text, encoding="utf-8")
    assert arrays.load_labels(str(path)) == labels


def test_labels_must_be_text(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="UTF-8"):
        arrays.load_labels(str(tmp_path / "labels.txt"))


def test_output_files() -> None:
    a, b = np.arange(3, dtype=np.int16), np.zeros((1, 2), np.float32)
    [(path, data)] = arrays.output_files(Path("d/y.npy"), [("a", a)], raw=False)
    assert path == Path("d/y.npy")
    np.testing.assert_array_equal(np.load(io.BytesIO(data)), a)
    several = arrays.output_files(Path("d/y.npy"), [("a", a), ("b", b)], raw=False)
    assert [path for path, _ in several] == [Path("d/y_0.npy"), Path("d/y_1.npy")]
    [(_, packed)] = arrays.output_files(Path("y.npz"), [("m/a", a), ("", b)], raw=False)
    archive = np.load(io.BytesIO(packed))
    np.testing.assert_array_equal(archive["m_a"], a)
    np.testing.assert_array_equal(archive["output_1"], b)
    assert arrays.output_files(Path("y"), [("a", a)], raw=True) == [(Path("y"), b"\0\0\1\0\2\0")]
    with pytest.raises(UsageError, match=r"\.npy or \.npz"):
        arrays.output_files(Path("y.txt"), [("a", a)], raw=False)

"""Files as tensors and tensors as files: images, ``.npy``, raw bytes, rankings with labels."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fitzroy.base import budget
from fitzroy.base.errors import FitzroyError, FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.base.types import Array, DType, TensorType
from fitzroy.compiler.frontends.shapes import key_of
from fitzroy.formats import npy

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
_IMAGE_MARKS = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"GIF8", b"II*\0", b"MM\0*", b"P5", b"P6")
_ARCHIVE_MARK = b"PK\x03\x04"
_PIXEL_BYTES = 12
"""Most bytes in use for a pixel while an image is read: three copies of 4 channels."""

_ELEMENT_BYTES = 32
"""Most bytes in use for an element while pixels become a tensor: four copies of 64 bits."""

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# Modes whose samples have more than 8 bits; Pillow would clip them.
_DEEP_MODES = ("I", "F")


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a pixel stands for a real number: ``real = (pixel - mean) / std``.

    Attributes:
        mean: one value, or one per channel, in units of a pixel (0 to 255).
        std: one value, or one per channel; none is 0.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def parse(cls, mean: str | None, std: str | None) -> Normalization | None:
        """From the options ``--mean`` and ``--std``; None if neither is given.

        Raises:
            UsageError: a text that is no list of numbers, or a standard deviation of 0.
        """
        if mean is None and std is None:
            return None
        result = cls(_numbers("--mean", mean or "0"), _numbers("--std", std or "1"))
        if 0.0 in result.std:
            raise UsageError("--std must not be 0")
        return result


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(item) for item in text.split(","))
    except ValueError:
        raise UsageError(
            f"{option} takes a number, or one per channel separated by commas",
            reason=f"{text!r} is given",
        ) from None
    if not all(map(np.isfinite, values)):
        raise UsageError(f"{option} takes finite numbers", reason=f"{text!r} is given")
    return values


def load_array(path: str, type: TensorType, normalization: Normalization | None = None) -> Array:
    """A file as a tensor of the given type.

    The suffix decides what the file is; without a known suffix, a file of exactly the tensor's
    size is raw, and otherwise its first bytes decide.

    Args:
        path: an image, a ``.npy`` file, or the tensor's bytes (C order, little-endian).
        type: the tensor; images need ``[1,H,W,C]``, ``[1,C,H,W]``, ``[H,W,C]``, ``[1,H,W]`` or
            ``[H,W]`` with 1, 3 or 4 channels.
        normalization: for images; None takes the usual convention (see `image_array`).

    Raises:
        UsageError: the file cannot be read or does not suit the tensor.
        FormatError: the image or the ``.npy`` file is broken.
    """
    data, suffix = read_file(path), Path(path).suffix.lower()
    if suffix in IMAGE_SUFFIXES or (
        suffix != ".npy" and len(data) != type.nbytes and data.startswith(_IMAGE_MARKS)
    ):
        return image_array(data, type, normalization, path=path)
    if normalization is not None:
        raise UsageError("--mean and --std are for images", where=path)
    if suffix == ".npy" or (len(data) != type.nbytes and data.startswith(npy.MARK)):
        return npy_array(data, type, path=path)
    return raw_array(data, type, path=path)


def raw_array(data: bytes, type: TensorType, *, path: str = "") -> Array:
    """Raw bytes as a tensor.

    Raises:
        UsageError: there are more or fewer bytes than the tensor has.
    """
    if len(data) != type.nbytes:
        raise UsageError(
            f"the tensor has {type.nbytes} bytes: {type}",
            reason=f"the file has {len(data)}",
            where=path,
            hint="give an image, a .npy file, or the tensor's bytes in C order",
        )
    stored = np.frombuffer(data, type.dtype.numpy.newbyteorder("<")).reshape(type.shape)
    return stored.astype(type.dtype.numpy)


def npy_array(data: bytes, type: TensorType, *, path: str = "") -> Array:
    """A ``.npy`` file as a tensor; dimensions of extent 1 may be missing or too many.

    Raises:
        FormatError: the file is broken.
        UsageError: shape or element type differ.
    """
    if data.startswith(_ARCHIVE_MARK):
        raise FormatError("an archive of arrays where one array is wanted", path=path)
    return fitted_array(npy.read_npy(data, path), type, path=path)


def fitted_array(array: Array, type: TensorType, *, path: str = "") -> Array:
    """An array as a tensor; dimensions of extent 1 may be missing or too many.

    Raises:
        UsageError: shape or element type differ.
    """
    dense = tuple(extent for extent in array.shape if extent != 1)
    wanted = tuple(extent for extent in type.shape if extent != 1)
    dtype = array.dtype.newbyteorder("=")
    if dtype != type.dtype.numpy or dense != wanted:
        real = type.is_quantized and dtype == np.float32 and dense == wanted
        raise UsageError(
            f"the tensor is {type}",
            reason=f"the array is {dtype}{_shape(array.shape)}",
            where=path,
            hint="fitzroy run takes real numbers with --float" if real else "",
        )
    return np.ascontiguousarray(array, dtype).reshape(type.shape)


def is_archive(path: str) -> bool:
    """Whether a file has several arrays, as its name says."""
    return Path(path).suffix.lower() == ".npz"


def members(arrays: Mapping[str, Array], names: Mapping[int, str], path: str) -> dict[int, Array]:
    """The arrays of an archive that are for inputs, by the number of the input.

    An array has the name of its input, in which slashes may be underscores as in archives that
    numpy writes, or its number. One array alone may have any name, if it is for one input alone.

    Args:
        arrays: those of the archive.
        names: names of the inputs by number.
        path: the archive, for errors.

    Raises:
        UsageError: an input has no array.
    """
    found = {}
    for number, name in names.items():
        key = key_of(arrays, name, number)
        if key is None and len(names) == len(arrays) == 1:
            (key,) = arrays
        if key is None:
            raise UsageError(
                f"no array for input {name!r}" if name else f"no array for input {number}",
                reason=f"the archive has {', '.join(map(repr, arrays)) or 'none'}",
                where=path,
                hint="name arrays after inputs, as in numpy.savez(file, name=array)",
            )
        found[number] = arrays[key]
    return found


def image_array(
    data: bytes,
    type: TensorType,
    normalization: Normalization | None = None,
    *,
    path: str = "",
) -> Array:
    """An image as a tensor: resized to its height and width (bilinear), grey, RGB or RGBA.

    Without a normalization, 8-bit tensors get ``pixel + smallest value of the type``, floats get
    ``pixel / 255``. With one, ``(pixel - mean) / std`` is quantized as the tensor is.

    Raises:
        UsageError: Pillow is missing, or the tensor cannot take an image.
        FormatError: the file is no readable image.
    """
    budget.demand(_ELEMENT_BYTES * type.size, f"an image as {type}", where=path)
    height, width, channels, planar = _geometry(type, path)
    pixels = _pixels(data, (width, height), channels, path)
    if normalization is None:
        values = _by_convention(pixels, type, path)
    else:
        values = _normalized(pixels, type, normalization, path)
    if planar:
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values, type.dtype.numpy).reshape(type.shape)


def _geometry(type: TensorType, path: str) -> tuple[int, int, int, bool]:
    """Height, width, channels, and whether channels come first."""
    shape = type.shape
    if len(shape) == 4 and shape[0] == 1:
        if shape[3] in _MODES:
            return shape[1], shape[2], shape[3], False
        if shape[1] in _MODES:
            return shape[2], shape[3], shape[1], True
    if len(shape) == 3 and shape[2] in _MODES:
        return shape[0], shape[1], shape[2], False
    if len(shape) == 3 and shape[0] == 1:
        return shape[1], shape[2], 1, False
    if len(shape) == 2 and shape[0] > 1:
        return shape[0], shape[1], 1, False
    raise UsageError(
        "the input takes no image",
        reason=f"it is {type}; an image needs [1,H,W,C] with 1, 3 or 4 channels",
        where=path,
        hint="give a .npy file or raw bytes",
    )


def _pixels(
    data: bytes, extent: tuple[int, int], channels: int, path: str
) -> npt.NDArray[np.float64]:
    image = opened_image(data, _MODES[channels], path)
    if image.size != extent:
        from PIL import Image

        image = image.resize(extent, Image.Resampling.BILINEAR)
    return np.asarray(image, np.float64).reshape(extent[1], extent[0], channels)


def opened_image(data: bytes, mode: str, path: str) -> PilImage:
    """An image of a file.

    Args:
        data: the file.
        mode: Pillow's name of the kind of pixels: ``L``, ``RGB`` or ``RGBA``.
        path: its name, for errors.

    Raises:
        UsageError: Pillow is missing, or samples have more than 8 bits.
        FormatError: the file is no readable image.
        CapacityError: it takes more memory than the budget has.
    """
    if importlib.util.find_spec("PIL") is None:
        raise UsageError("images need Pillow", where=path, hint=install_extra("images"))
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as file:
                if file.mode.split(";")[0] in _DEEP_MODES:
                    raise UsageError(
                        f"an image with more than 8 bits per sample ({file.mode})",
                        where=path,
                        hint="convert it to 8 bits, or give a .npy file",
                    )
                # Compressed pixels may be many more than the bytes of the file.
                budget.demand(_PIXEL_BYTES * file.width * file.height, "the image", where=path)
                with _stderr_closed() if file.format == "TIFF" else nullcontext():
                    return ImageOps.exif_transpose(file).convert(mode)
    except (FitzroyError, MemoryError):
        raise
    except Exception as error:
        # Decoders of Pillow raise whatever comes up: a text in the place of an offset ends in a
        # TypeError. Its message for unknown formats names a Python object.
        text = "of no format that Pillow knows" if "BytesIO" in str(error) else str(error)
        raise FormatError(f"no readable image: {text}", path=path) from None


@contextmanager
def _stderr_closed() -> Iterator[None]:
    """Lead the descriptor of stderr nowhere: libtiff writes remarks on broken files to it."""
    try:
        stderr = os.dup(2)
    except OSError:
        # It is closed already.
        yield
        return
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _by_convention(
    pixels: npt.NDArray[np.float64], type: TensorType, path: str
) -> npt.NDArray[np.float64]:
    if type.dtype.is_float:
        return pixels / 255
    if type.dtype in (DType.INT8, DType.UINT8):
        return pixels + type.dtype.limits[0]
    raise UsageError(
        f"no convention says how pixels become {type.dtype.value}",
        where=path,
        hint="say it with --mean and --std, or give a .npy file",
    )


def _normalized(
    pixels: npt.NDArray[np.float64], type: TensorType, rule: Normalization, path: str
) -> npt.NDArray[np.float64]:
    real = normalized_pixels(pixels, rule)
    if type.dtype.is_float:
        return real
    quantization = type.quantization
    if quantization is None or not quantization.is_per_tensor:
        raise UsageError(
            "--mean and --std need an input that is floating-point or quantized",
            reason=f"it is {type}",
            where=path,
        )
    return stored_values(real, type).astype(np.float64)


def normalized_pixels(pixels: Array, rule: Normalization) -> npt.NDArray[np.float64]:
    """Real numbers from pixels whose last dimension are the channels.

    Raises:
        UsageError: the rule is for another number of channels.
    """
    channels = pixels.shape[-1] if pixels.ndim else 1
    for option, numbers in (("--mean", rule.mean), ("--std", rule.std)):
        if len(numbers) not in (1, channels):
            raise UsageError(
                f"{option} takes one number or {channels}, one per channel",
                reason=f"{len(numbers)} are given",
            )
    mean, std = np.asarray(rule.mean, np.float64), np.asarray(rule.std, np.float64)
    real: npt.NDArray[np.float64] = (pixels - mean) / std
    return real


def _shape(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


# --- outputs -------------------------------------------------------------------------------------


def real_values(array: Array, type: TensorType) -> npt.NDArray[np.float64]:
    """The real numbers that a tensor stands for; its elements if it is not quantized."""
    values = array.astype(np.float64)
    if type.quantization is None:
        return values
    scale = type.quantization.scale_array(array.ndim).astype(np.float64)
    real: npt.NDArray[np.float64] = scale * (
        values - type.quantization.zero_point_array(array.ndim)
    )
    return real


def stored_values(real: Array, type: TensorType) -> Array:
    """What stands for real numbers in a quantized tensor: the nearest that it can hold.

    Args:
        real: finite or infinite numbers, of the tensor's shape.
        type: the tensor.
    """
    quantization = type.quantization
    assert quantization is not None
    rank = len(type.shape)
    scale = quantization.scale_array(rank).astype(np.float64)
    places = np.rint(real.astype(np.float64) / scale) + quantization.zero_point_array(rank)
    stored: Array = np.clip(places, *type.dtype.limits).astype(type.dtype.numpy)
    return stored


def is_vector(shape: Sequence[int]) -> bool:
    """Whether a tensor is a list of scores: one dimension of at least 2, all others 1."""
    return sum(extent != 1 for extent in shape) == 1 and max(shape) >= 2


def top(values: npt.NDArray[np.float64], count: int) -> list[int]:
    """Indices of the greatest values, greatest first; equal ones in order, NaN last."""
    flat = values.reshape(-1)
    order = np.lexsort((-flat, np.isnan(flat)))
    return [int(index) for index in order[:count]]


def load_labels(path: str) -> dict[int, str]:
    """Names of classes: one per line, or every line ``number name`` or ``number: name``.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is no text, is too long, or numbers a class beyond all tensors.
    """
    from fitzroy.formats.labels import read_label_file

    return read_label_file(read_file(path), path)


def npy_bytes(array: Array) -> bytes:
    """An array as a ``.npy`` file."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def raw_bytes(array: Array) -> bytes:
    """Elements of an array in C order, little-endian."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def digest(array: Array) -> str:
    """SHA-256 of what `raw_bytes` gives, in hexadecimal."""
    return hashlib.sha256(raw_bytes(array)).hexdigest()


def output_files(
    target: Path, arrays: Sequence[tuple[str, Array]], *, raw: bool
) -> list[tuple[Path, bytes]]:
    """Files that hold the outputs.

    One output goes to `target`; several go to ``target_0.npy``, ``target_1.npy`` and so on, or,
    if `target` ends in ``.npz``, into one archive.

    Raises:
        UsageError: the suffix does not say what to write.
    """
    check_suffix(target, raw=raw)
    if target.suffix.lower() == ".npz" and not raw:
        stream = io.BytesIO()
        names = unique_names(
            [name or f"output_{number}" for number, (name, _) in enumerate(arrays)]
        )
        members = dict(zip(names, (array for _, array in arrays), strict=True))
        np.savez(stream, **members)  # type: ignore[arg-type]
        return [(target, stream.getvalue())]
    encode = raw_bytes if raw else npy_bytes
    if len(arrays) == 1:
        return [(target, encode(arrays[0][1]))]
    return [
        (target.with_name(f"{target.stem}_{number}{target.suffix}"), encode(array))
        for number, (_, array) in enumerate(arrays)
    ]


def check_suffix(target: Path, *, raw: bool) -> None:
    """Refuse a file for outputs whose name does not say what to write.

    Raises:
        UsageError: it ends neither in ``.npy`` nor in ``.npz``, and no bare bytes are wanted.
    """
    suffix = target.suffix.lower()
    if suffix not in (".npy", ".npz") and not raw:
        raise UsageError(
            "outputs are written as .npy or .npz",
            reason=f"the name ends in {suffix!r}" if suffix else "the name has no suffix",
            where=os.fspath(target),
            hint="change the name, or write bare bytes with --raw-output",
        )


def unique_names(names: Sequence[str]) -> list[str]:
    """Names as members of an archive: without slashes, and with a number where one repeats."""
    result: list[str] = []
    for number, name in enumerate(names):
        # A slash would become a folder of the archive.
        plain = name.replace("/", "_")
        result.append(f"{plain}_{number}" if plain in result else plain)
    return result

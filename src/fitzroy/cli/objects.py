"""What detectors find, as tables and in pictures."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.installing import install_extra
from fitzroy.cli.terminal import Column, Terminal
from fitzroy.execution.arrays import opened_image
from fitzroy.execution.objects import Found

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage
    from PIL.ImageDraw import ImageDraw


def show_objects(terminal: Terminal, objects: Sequence[dict[str, Any]]) -> None:
    """Print the documents of objects."""
    titles = ("class", "score", "top", "left", "bottom", "right")
    columns = [*(Column(title, right=True) for title in titles), Column("label")]
    rows = [
        [
            str(item["class"]),
            f"{item['score']:.3f}",
            *(f"{value:.3f}" for value in item["box"]),
            item.get("label", ""),
        ]
        for item in objects
    ]
    if rows:
        terminal.table(columns, rows)
    else:
        terminal.line("no objects")


# --- pictures ------------------------------------------------------------------------------------


_COLOURS = (
    (230, 25, 75), (60, 180, 75), (0, 130, 200), (245, 130, 48), (145, 30, 180), (0, 160, 160),
    (210, 180, 0), (240, 50, 230), (128, 80, 20), (70, 70, 200),
)  # fmt: skip
"""Colours of classes, in turn."""

_OPAQUE = 0.45
"""How much of a mask's colour is laid over the picture."""

_SURE = 0.5
"""Least score of a keypoint that is drawn."""


_WHITE = (255, 255, 255)
_HALF, _LETTER = 127, 12
_SMALL = 256
"""Pictures of fewer pixels in a row and a column are drawn larger."""


def drawn(
    picture: str, objects: Sequence[Found], names: dict[int, str] | None, output: Path
) -> bytes:
    """A picture with boxes, masks and keypoints in it.

    Args:
        picture: file of the picture that was given to the model.
        objects: what was found.
        names: names of classes.
        output: what to write, whose name says the format.

    Raises:
        UsageError: Pillow is missing, or writes no such format.
        FormatError: the picture cannot be read.
    """
    image = opened_image(read_file(picture), "RGB", picture)
    from PIL import Image
    from PIL.ImageDraw import Draw

    # Frames and texts need some room.
    times = -(-_SMALL // max(image.size))
    image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image = _masked(image, objects)
    canvas = Draw(image)
    for item in objects:
        _draw(canvas, image.size, item, (names or {}).get(item.kind) or f"class {item.kind}")
    stream = io.BytesIO()
    try:
        image.save(stream, picture_format(output))
    except (KeyError, OSError, ValueError):
        raise _unwritten(output) from None
    return stream.getvalue()


def picture_format(output: Path) -> str:
    """What Pillow calls the format that the name of a picture stands for.

    Raises:
        UsageError: Pillow is missing, or writes no such format.
    """
    if importlib.util.find_spec("PIL") is None:
        raise UsageError("images need Pillow", where=str(output), hint=install_extra("images"))
    from PIL import Image

    found = Image.registered_extensions().get(output.suffix.lower())
    if found not in Image.SAVE:
        raise _unwritten(output)
    return found


def _unwritten(output: Path) -> UsageError:
    return UsageError(
        f"pictures are not written as {output.suffix or 'files without an ending'}",
        where=str(output),
        hint="name it .png or .jpg",
    )


def _masked(image: PilImage, objects: Sequence[Found]) -> PilImage:
    """A picture with the masks of objects laid over it."""
    from PIL import Image

    pixels = np.asarray(image, np.float32)
    for item in objects:
        if item.mask is not None:
            mask = Image.fromarray(item.mask * np.uint8(255)).resize(image.size)
            inside = np.asarray(mask)[:, :, None] > _HALF
            mixed = pixels * (1 - _OPAQUE) + np.array(_colour(item), np.float32) * _OPAQUE
            pixels = np.where(inside, mixed, pixels)
    return Image.fromarray(pixels.astype(np.uint8))


def _draw(canvas: ImageDraw, size: tuple[int, int], item: Found, label: str) -> None:
    """Draw the box and the keypoints of an object."""
    line, colour = max(2, max(size) // 320), _colour(item)
    ends = (np.array(item.box).reshape(2, 2)[:, ::-1] * size).clip(0, size)
    (left, top), (right, bottom) = np.sort(ends, axis=0).tolist()
    canvas.rectangle((left, top, right, bottom), outline=colour, width=line)
    text, place = f"{label} {item.score:.2f}", (left + line, max(top - _LETTER, 0.0))
    canvas.rectangle(canvas.textbbox(place, text), fill=colour)
    canvas.text(place, text, fill=_WHITE)
    for x, y, score in [] if item.points is None else item.points.tolist():
        if score >= _SURE:
            centre = x * size[0], y * size[1]
            canvas.circle(centre, 2 * line, fill=colour, outline=_WHITE)


def _colour(item: Found) -> tuple[int, int, int]:
    return _COLOURS[item.kind % len(_COLOURS)]

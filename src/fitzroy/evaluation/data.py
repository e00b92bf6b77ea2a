"""Data sets: examples with files or arrays, and what is right for each.

| data | examples | right is |
|---|---|---|
| a folder of folders | their files | the name of the folder: a label or a number |
| a folder of files | its files | unknown |
| ``.csv`` with a header | rows: files in the column ``file``, or one per input | in ``label`` |
| ``.npz`` | entries of the arrays, which are named like inputs, or ``x`` | the array ``y`` |
| ``.json`` as COCO has it | its images | its boxes |
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port
from fitzroy.formats import npz

MOST_EXAMPLES = 1 << 20
"""Most examples of a data set."""

_FILE, _LABEL, _ARRAY, _RIGHT = "file", "label", "x", "y"
_MOST_TEXT = 256 << 20
"""Most bytes of a file that lists examples."""


@dataclass(frozen=True, slots=True)
class Box:
    """An object that is in a picture.

    Attributes:
        category: number of its category.
        edges: left, top, width and height in pixels of the picture.
        crowd: whether it stands for many.
    """

    category: int
    edges: tuple[float, float, float, float]
    crowd: bool = False


@dataclass(frozen=True, slots=True)
class Example:
    """An example.

    Attributes:
        name: what reports call it.
        files: file of each input, by name; "" stands for the only one.
        label: what is right: a label or a number; empty if unknown.
        size: width and height of the picture in pixels, if boxes are known.
        boxes: what is in the picture.
    """

    name: str
    files: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    size: tuple[int, int] = (0, 0)
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True)
class Data:
    """A data set.

    Attributes:
        path: its file or folder.
        examples: its examples, in order.
        categories: names of the categories of boxes, by number.
        columns: arrays that have an entry for each example, by name of the input.
    """

    path: str
    examples: tuple[Example, ...]
    categories: Mapping[int, str] = field(default_factory=dict)
    columns: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.examples)

    def read(
        self, number: int, ports: Sequence[Port], rule: arrays.Normalization | None
    ) -> list[Array]:
        """Arrays for the inputs of a model.

        Args:
            number: number of the example.
            ports: the inputs.
            rule: what pixels become.

        Raises:
            UsageError: there is nothing for an input, or it does not suit.
            FormatError: a file is broken.
        """
        example = self.examples[number]
        found = []
        for port in ports:
            name = "" if len(ports) == 1 else port.name
            if self.columns:
                column = self.columns.get(port.name, self.columns.get(name or _ARRAY))
                if column is None:
                    raise self._lacks(port)
                data = np.ascontiguousarray(column[number])
                found.append(arrays.npy_array(arrays.npy_bytes(data), port.type, path=self.path))
                continue
            file = example.files.get(port.name, example.files.get(name))
            if file is None:
                raise self._lacks(port)
            found.append(arrays.load_array(file, port.type, rule))
        return found

    def _lacks(self, port: Port) -> UsageError:
        given = sorted(self.columns or self.examples[0].files)
        return UsageError(
            f"the data has nothing for input {port.name!r}",
            reason=f"it has {', '.join(map(repr, given))}",
            where=self.path,
        )

    @property
    def fingerprint(self) -> str:
        """A digest of what the examples are, and of how large their files are.

        Raises:
            UsageError: a file is missing.
        """
        digest = hashlib.sha256()
        for example in self.examples:
            digest.update(repr((example, [*map(_size, example.files.values())])).encode())
        for name, column in sorted(self.columns.items()):
            digest.update(f"{name} {column.dtype} {column.shape}".encode())
            digest.update(np.ascontiguousarray(column).view(np.uint8).data)
        return digest.hexdigest()


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError as error:
        raise UsageError(
            "the file cannot be read", reason=error.strerror or str(error), where=file
        ) from None


def open_data(path: str, images: str = "", most: int | None = None) -> Data:
    """A data set.

    Args:
        path: a folder, or a file; see the table above.
        images: folder of the pictures that a COCO file names; by default that of the file.
        most: take as many examples, from all over the data; None for all.

    Raises:
        UsageError: it cannot be read, or has no examples, or too many.
        FormatError: it is malformed.
    """
    suffix = os.path.splitext(path)[1].lower()
    if os.path.isdir(path):
        found = _folder(path)
    elif suffix == ".csv":
        found = _csv(path)
    elif suffix == ".npz":
        found = _npz(path)
    elif suffix == ".json":
        found = _coco(path, images)
    else:
        raise UsageError(
            "this is no data set",
            where=path,
            hint="give a folder, a .csv or .npz file, or a .json file in the format of COCO",
        )
    count = len(found)
    if not 1 <= count <= MOST_EXAMPLES:
        raise UsageError(
            f"a data set with {count} examples",
            reason=f"1 to {MOST_EXAMPLES} are taken",
            where=path,
        )
    if most is None or most >= count:
        return found
    chosen = [number * count // most for number in range(most)]
    return Data(
        found.path,
        tuple(found.examples[number] for number in chosen),
        found.categories,
        {name: column[chosen] for name, column in found.columns.items()},
    )


def class_number(label: str, numbers: Mapping[str, int], *, where: str, hint: str) -> int:
    """The number of a class.

    Args:
        label: its name, or its number.
        numbers: numbers of classes by name.
        where: what names it, for errors.
        hint: how to give the names of classes.

    Raises:
        UsageError: there is no such class.
    """
    if label in numbers:
        return numbers[label]
    if label.isascii() and label.isdigit() and len(label) <= len(str(MOST_EXAMPLES)):
        return int(label)
    raise UsageError(
        f"no class {label[:80]!r}",
        reason=f"{len(numbers)} labels have others" if numbers else "there are no labels",
        where=where,
        hint=hint,
    )


def labelled_files(folder: str) -> Iterator[tuple[str, str]]:
    """Files of folders within a folder, in order, each with the name of its folder.

    Raises:
        OSError: a folder cannot be read.
    """
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir() and not entry.name.startswith("."):
            names = sorted(name for name in os.listdir(entry.path) if name[:1] != ".")
            for name in names:
                yield os.path.join(entry.path, name), entry.name


def _folder(path: str) -> Data:
    try:
        found = [*labelled_files(path)]
        if not found:
            names = sorted(name for name in os.listdir(path) if name[:1] != ".")
            found = [(os.path.join(path, name), "") for name in names]
    except OSError as error:
        raise UsageError(
            "the folder cannot be read", reason=error.strerror or str(error), where=path
        ) from None
    return Data(
        path,
        tuple(Example(os.path.relpath(file, path), {"": file}, label) for file, label in found),
    )


def _text(path: str) -> str:
    data = read_file(path)
    budget.demand(8 * len(data), f"{path}, which lists examples")
    if len(data) > _MOST_TEXT:
        raise FormatError(f"{len(data)} bytes, at most {_MOST_TEXT} are read", path=path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("the file must be UTF-8 text", path=path, offset=error.start) from None


def _csv(path: str) -> Data:
    folder = os.path.dirname(path)
    try:
        rows = [*csv.reader(io.StringIO(_text(path)), strict=True)]
    except csv.Error as error:
        raise FormatError(f"no table of comma-separated values: {error}", path=path) from None
    header, *rows = rows or [[]]
    titles = [title.strip() for title in header]
    columns = [number for number, title in enumerate(titles) if title not in (_LABEL, "")]
    if not columns or len(set(titles)) < len(titles):
        raise FormatError(
            f"the first row is {', '.join(map(repr, titles[:8]))}",
            path=path,
            hint="name the columns: file, or names of inputs, and label",
        )
    examples = []
    for number, row in enumerate(rows):
        if not row:
            continue
        if len(row) != len(titles):
            raise FormatError(
                f"row {number + 2} has {len(row)} values, the first one {len(titles)}", path=path
            )
        files = {
            "" if titles[at] == _FILE else titles[at]: os.path.join(folder, row[at].strip())
            for at in columns
        }
        label = row[titles.index(_LABEL)].strip() if _LABEL in titles else ""
        examples.append(Example(row[columns[0]].strip(), files, label))
    return Data(path, tuple(examples))


def _npz(path: str) -> Data:
    found = npz.read_npz(read_file(path), path)
    labels = found.pop(_RIGHT, None)
    sizes = {len(array) if array.ndim else 0 for array in found.values()}
    if len(sizes) != 1 or (labels is not None and labels.shape != (*sizes,)):
        shapes = {name: list(array.shape) for name, array in found.items()}
        raise FormatError(
            f"arrays of shapes {str(shapes)[:200]}",
            path=path,
            hint="all arrays have an entry for each example; those of classes are in 'y'",
        )
    (count,) = sizes
    return Data(
        path,
        tuple(
            Example(str(number), {}, "" if labels is None else str(labels[number]))
            for number in range(count)
        ),
        columns=found,
    )


def _coco(path: str, images: str) -> Data:
    folder = images or os.path.dirname(path)
    try:
        table = json.loads(_text(path))
        boxes: dict[int, list[Box]] = {}
        for item in table.get("annotations", ()):
            left, top, width, height = map(float, item["bbox"])
            box = Box(
                int(item["category_id"]), (left, top, width, height), bool(item.get("iscrowd", 0))
            )
            boxes.setdefault(int(item["image_id"]), []).append(box)
        examples = [_picture(item, folder, boxes) for item in table["images"]]
        categories = {int(item["id"]): str(item["name"]) for item in table["categories"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FormatError(
            f"no annotations in the format of COCO: {type(error).__name__}: {str(error)[:200]}",
            path=path,
            hint="the file has images, annotations with bbox, and categories",
        ) from None
    return Data(path, tuple(examples), categories)


def _picture(item: Any, folder: str, boxes: Mapping[int, Sequence[Box]]) -> Example:
    name = str(item["file_name"])
    return Example(
        name,
        {"": os.path.join(folder, name)},
        size=(int(item["width"]), int(item["height"])),
        boxes=tuple(boxes.get(int(item["id"]), ())),
    )

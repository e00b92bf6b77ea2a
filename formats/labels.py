"""Names of classes, as models and files of labels have them.

Labels are a mapping from numbers of classes to names; a class without a name is left out. In a
TFLite model they are a packed file, one name per line, which the model's metadata declare to be
labels. Models of Ultralytics have a packed dictionary instead, whose ``names`` they are.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import FormatError, UsageError
from fitzroy.formats import flat, tflite, tflite_metadata
from fitzroy.formats.archive import Archive
from fitzroy.formats.flat import ints
from fitzroy.formats.tflite_metadata import AssociatedFile, FileType

FILE = "labels.txt"
"""Name of the packed file that is written."""

MOST = 1 << 16
"""Most classes of a model."""

_UNNAMED = "???"
"""A line for a class without a name, as TFLite's own lists of labels have it."""

_LONGEST = 1000
_MOST_TEXT = 1 << 20
_MOST_TOKENS = 1 << 18
_DEEPEST = 16
_POST_PROCESS = "TFLite_Detection_PostProcess"
_CLASSES_OUTPUT = 1


@dataclass(frozen=True)
class Found:
    """Labels of a model.

    Attributes:
        labels: names by class; empty if there are none.
        faults: why labels that seem to be there could not be read.
    """

    labels: dict[int, str]
    faults: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The labels for JSON, and why some cannot be read."""
        return {
            "labels": [{"class": number, "label": name} for number, name in self.labels.items()],
            "labels_left_out": list(self.faults),
        }

    def remarks(self, where: str) -> list[Diagnostic]:
        """What to say of what could not be read.

        Args:
            where: the model.
        """
        what = "names of classes are left out"
        hint = "give them in a file: --labels FILE"
        return [
            Diagnostic(Severity.WARNING, "labels", where, f"{what}: {fault}", hint=hint)
            for fault in self.faults
        ]


# --- text ----------------------------------------------------------------------------------------

_MOST_LINES = 1 << 20
_MOST_BYTES = 16 << 20
_MOST_DIGITS = 9


def read_label_file(data: bytes, path: str = "") -> dict[int, str]:
    """Labels of a file: one per line, or every line ``number name`` or ``number: name``.

    A TFLite model that has labels is such a file, too.

    Raises:
        FormatError: it is no text, is too long, or numbers a class beyond all tensors; or a model
            has none.
    """
    if is_model(data):
        return labels_of_file(data, path)
    lines = _lines(data, path)
    numbered = [_numbered(line.strip()) for line in lines if line.strip()]
    if numbered and all(numbered):
        return {_class_number(pair[0], path): pair[1] for pair in numbered if pair is not None}
    return {number: line.strip() for number, line in enumerate(lines)}


def write_label_file(labels: Mapping[int, str]) -> bytes:
    """A file that `read_label_file` reads as these labels, and so do other programs.

    It has one name per line, and numbers before them where classes have no name, or where all
    names could be taken for numbered ones.
    """
    names = [labels[number] for number in sorted(labels)]
    dense = all(map(labels.__contains__, range(len(labels))))
    if dense and not (names and all(map(_numbered, names))):
        return _text(names)
    # A colon after the number is no part of the name, unless there is one before it.
    pairs = ((number, labels[number]) for number in sorted(labels))
    return _text(f"{number}{':' * name.startswith(':')} {name}" for number, name in pairs)


def _text(lines: Iterator[str] | list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _lines(data: bytes, path: str) -> list[str]:
    """Lines of a text.

    Raises:
        FormatError: it is no text, or too long.
    """
    if len(data) > _MOST_BYTES:
        raise FormatError(f"labels of {len(data)} bytes, at most {_MOST_BYTES} are read", path=path)
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FormatError("labels must be UTF-8 text", path=path, offset=error.start) from None
    if len(lines) > _MOST_LINES:
        raise FormatError(f"{len(lines)} labels, at most {_MOST_LINES} are read", path=path)
    return lines


def _numbered(line: str) -> tuple[str, str] | None:
    """Number and name of a class, from ``number name`` or ``number: name``; None without number."""
    name = line.lstrip("0123456789")
    number = line[: len(line) - len(name)]
    if not number or not name.startswith((":", " ", "\t")):
        return None
    name = name.lstrip().removeprefix(":").lstrip()
    return (number, name) if name else None


def _class_number(text: str, path: str) -> int:
    digits = text.lstrip("0") or "0"
    if len(digits) > _MOST_DIGITS:
        raise FormatError(
            f"a class number of {len(digits)} digits, at most {_MOST_DIGITS} are read", path=path
        )
    return int(digits)


# --- dictionaries --------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s* (?: '(?:[^'\\\n]|\\.)*' | "(?:[^"\\\n]|\\.)*" | -?\d[\d.]{0,60}(?:[eE][+-]?\d{1,4})?
    | True | False | None | true | false | null
    | (?P<opens>[\[({]) | (?P<closes>[\])}]) | [:,] )""",
    re.ASCII | re.VERBOSE,
)


def read_names(text: str) -> dict[int, str]:
    """Labels of a text: a dictionary or a list of names, as Python or JSON write it.

    Raises:
        FormatError: it is none, or is too large.
    """
    return _named(_literal(text))


def _literal(text: str) -> Any:
    """The value of a text of constants, lists and dictionaries, which Python or JSON wrote.

    The text is split into tokens before anything is made of it: nothing in it is executed, and what
    is made is bounded.

    Raises:
        FormatError: it is something else, or too large.
    """
    if len(text) > _MOST_TEXT:
        raise FormatError(f"{len(text)} characters of names, at most {_MOST_TEXT} are read")
    text = text.strip()
    place = depth = tokens = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise FormatError(f"no list of names: {text[place : place + 20]!r} in it")
        place, tokens = token.end(), tokens + 1
        depth += bool(token["opens"]) - bool(token["closes"])
        if depth > _DEEPEST or tokens > _MOST_TOKENS:
            raise FormatError("no list of names: it is too large")
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    raise FormatError(f"no list of names: {text[:20]!r}")


def _named(value: object) -> dict[int, str]:
    """Labels of a dictionary or a list.

    Raises:
        FormatError: it is neither, or its numbers are no classes.
    """
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        raise FormatError("names of classes are no dictionary and no list")
    found: dict[int, str] = {}
    for key, name in value.items():
        number = int(key) if isinstance(key, str) and re.fullmatch("[0-9]{1,9}", key) else key
        if type(number) is not int or not 0 <= number < MOST:
            raise FormatError(f"{str(key)[:20]!r} is no class; they are 0 to {MOST - 1}")
        if not isinstance(name, str):
            raise FormatError(f"the name of class {number} is no text: {str(name)[:20]}")
        found[number] = name
    return cleaned(found)


def cleaned(labels: Mapping[int, str]) -> dict[int, str]:
    """Labels in order, of one line each, without those that are empty.

    Raises:
        FormatError: a name is too long.
    """
    found = {}
    for number in sorted(labels):
        text = "".join(c if c.isprintable() else " " for c in labels[number])
        name = " ".join(text.split())
        if len(name) > _LONGEST:
            raise FormatError(
                f"the name of class {number} has {len(name)} characters, at most {_LONGEST} "
                "are taken"
            )
        if name and name != _UNNAMED:
            found[number] = name
    return found


# --- in TFLite models ----------------------------------------------------------------------------


def is_model(data: bytes) -> bool:
    """Whether a file is a TFLite model."""
    return flat.identifier(data) == tflite.IDENTIFIER


def labels_of_file(data: bytes, path: str) -> dict[int, str]:
    """The labels of a file that is a TFLite model.

    Raises:
        FormatError: it is malformed, or has none.
    """
    found = labels_of(tflite.read_model(data, path))
    if not found.labels:
        fault = f": {'; '.join(found.faults)}" if found.faults else ""
        raise FormatError(f"the model has no names of classes{fault}", path=path)
    return found.labels


def labels_of(model: tflite.Model) -> Found:
    """The labels that a model has.

    Those count that its metadata declare, of outputs and then of the model; else a packed file that
    is named as labels are; else the ``names`` of a packed dictionary.
    """
    if model.archive is None:
        return Found({})
    files = model.archive.files
    faults = [*model.archive.faults]
    try:
        declared = _declared(model)
    except FormatError as error:
        declared = []
        faults.append(f"the metadata are malformed: {error.what}")
    lists: dict[str, dict[int, str]] = {}
    for name in [name for name in declared if name in files] or [*filter(_is_named_so, files)]:
        try:
            lists[name] = _one_per_line(files[name])
        except FormatError as error:
            faults.append(f"{name}: {error.what}")
    for name in () if lists else files:
        try:
            names = _names_in(files[name])
        except FormatError as error:
            faults.append(f"{name}: {error.what}")
            continue
        if names:
            lists[name] = names
    first = next(iter(lists.values()), {})
    if any(labels != first for labels in lists.values()):
        first = {}
        faults.append(f"the lists {', '.join(lists)} differ, and none is taken")
    return Found(first, tuple(faults))


def labelled(model: tflite.Model, labels: Mapping[int, str]) -> tflite.Model:
    """A model with labels in place of any that it has; the same model if it has these.

    They go where the model's metadata declare labels; metadata are added to a model without. No
    labels leave the model as it is.

    Raises:
        UsageError: there are too many.
    """
    labels = cleaned(labels)
    if not labels:
        return model
    last = max(labels)
    if last >= MOST:
        raise UsageError(f"a label of class {last}", reason=f"models have at most {MOST} classes")
    if model.archive is not None and labels_of(model).labels == labels:
        named = [*filter(_is_named_so, model.archive.files)]
        return _declaring(model, named[0], last + 1) if named else model
    try:
        names = _declared(model)
    except FormatError:
        names = []
    kept = (
        {}
        if model.archive is None
        else {
            name: content
            for name, content in model.archive.files.items()
            if name not in names and not _is_named_so(name) and not _has_names(content)
        }
    )
    for name in names or [FILE]:
        kept |= packed_labels(labels, name)
    model = replace(model, archive=Archive(kept))
    return model if names else _declaring(model, FILE, last + 1)


def packed_labels(labels: Mapping[int, str], name: str = FILE) -> dict[str, bytes]:
    """The packed file of labels, by its name: a line for each class.

    Args:
        labels: names by class, as `cleaned` gives them; not empty.
        name: the name of the file.
    """
    lines = [labels.get(number, _UNNAMED) for number in range(max(labels) + 1)]
    return {name: _text(lines)}


def _declared(model: tflite.Model) -> list[str]:
    """Names of the packed files that the metadata declare to be labels.

    Of those of one tensor, the first without a locale counts, or else the first.

    Raises:
        FormatError: the metadata are malformed.
    """
    entry = _entry(model)
    if entry is None:
        return []
    data = tflite.buffer_bytes(model, entry.buffer)
    table = flat.decode(
        tflite_metadata.ModelMetadata, data, identifiers=(tflite_metadata.IDENTIFIER,)
    )
    graph, *_ = table.subgraph_metadata or [tflite_metadata.SubGraphMetadata()]
    owners = [item.associated_files or [] for item in graph.output_tensor_metadata or ()]
    owners = [*filter(None, map(_label_files, owners))] or [
        _label_files(graph.associated_files or []),
        _label_files(table.associated_files or []),
    ]
    chosen = [min(files, key=lambda file: bool(file.locale)) for files in owners if files]
    return list(dict.fromkeys(file.name or "" for file in chosen))


def _label_files(files: list[AssociatedFile]) -> list[AssociatedFile]:
    kinds = (FileType.TENSOR_AXIS_LABELS, FileType.TENSOR_VALUE_LABELS)
    return [file for file in files if file.type in kinds and file.name]


def _entry(model: tflite.Model) -> tflite.Metadata | None:
    """The entry of the metadata; None if there is none, or it names no buffer."""
    count = len(model.buffers or ())
    for entry in model.metadata or ():
        if entry.name == tflite.METADATA and entry.buffer < count:
            return entry
    return None


def _is_named_so(name: str) -> bool:
    """Whether a packed file has a name as labels have it: ``labels.txt``, ``labelmap.txt``."""
    stem = name.lower().rpartition("/")[2]
    return stem.endswith((FILE, "labelmap.txt", "label_map.txt"))


def _one_per_line(content: bytes) -> dict[int, str]:
    """Labels of a packed file.

    Raises:
        FormatError: it is no text, or too long.
    """
    if len(content) > _MOST_TEXT:
        raise FormatError(f"labels of {len(content)} bytes, at most {_MOST_TEXT} are read")
    lines = _lines(content, "")
    if len(lines) > MOST:
        raise FormatError(f"{len(lines)} labels, at most {MOST} are read")
    return cleaned(dict(enumerate(lines)))


def _names_in(content: bytes) -> dict[int, str]:
    """Labels of a packed dictionary; none of another file.

    Raises:
        FormatError: it begins as a dictionary, and is none.
    """
    if not content.lstrip().startswith(b"{"):
        return {}
    try:
        value = _literal(content.decode())
    except UnicodeDecodeError:
        raise FormatError("it is no UTF-8 text") from None
    if not isinstance(value, dict) or "names" not in value:
        return {}
    names = value["names"]
    # Metadata of other formats are texts throughout.
    return read_names(names) if isinstance(names, str) else _named(names)


def _has_names(content: bytes) -> bool:
    try:
        return bool(_names_in(content))
    except FormatError:
        return False


def _declaring(model: tflite.Model, file: str, classes: int) -> tflite.Model:
    """A model whose metadata declare a packed file to be labels, if it has no metadata.

    The labels belong to outputs with an element per class, or with the classes of boxes; to the
    model, where the classes are elsewhere.

    Args:
        model: the model.
        file: name of the packed file.
        classes: how many lines it has.
    """
    if _entry(model) is not None:
        return model
    main = (model.subgraphs or [])[0]
    numbers = {number: place for place, number in enumerate(ints(main.outputs))}
    tensors = main.tensors or []
    kinds: dict[int, FileType] = {}
    for operator in main.operators or ():
        if tflite.operator_name(model, operator) == _POST_PROCESS:
            output = ints(operator.outputs)[_CLASSES_OUTPUT : _CLASSES_OUTPUT + 1]
            kinds |= {
                numbers[one]: FileType.TENSOR_VALUE_LABELS for one in output if one in numbers
            }
    for number, place in numbers.items() if not kinds else ():
        shape = ints(tensors[number].shape)
        if shape and shape[-1] == classes > 1:
            kinds[place] = FileType.TENSOR_AXIS_LABELS
    # Programs that read metadata want some of every input and output.
    inputs, outputs = (
        [tflite_metadata.TensorMetadata(name=tensors[number].name) for number in ints(side)]
        for side in (main.inputs, main.outputs)
    )
    for place, kind in kinds.items():
        outputs[place].associated_files = [_file(file, kind)]
    graph = tflite_metadata.SubGraphMetadata(
        input_tensor_metadata=inputs,
        output_tensor_metadata=outputs,
        associated_files=None if kinds else [_file(file, FileType.TENSOR_VALUE_LABELS)],
    )
    table = tflite_metadata.ModelMetadata(
        subgraph_metadata=[graph], min_parser_version=tflite_metadata.PARSER
    )
    data = flat.encode(table, identifier=tflite_metadata.IDENTIFIER)
    buffers = model.buffers or [tflite.Buffer()]
    entry = tflite.Metadata(name=tflite.METADATA, buffer=len(buffers))
    return replace(
        model,
        buffers=[*buffers, tflite.Buffer(data=np.frombuffer(data, np.uint8))],
        metadata=[*(model.metadata or ()), entry],
    )


def _file(name: str, kind: FileType) -> AssociatedFile:
    return AssociatedFile(name=name, description="Names of classes.", type=int(kind))

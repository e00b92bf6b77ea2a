"""How files become graphs: the interface of frontends, and all of them by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.registry import Registry
from fitzroy.compiler.ir import Graph
from fitzroy.formats.detect import FileKind, detect

Given = bool | int | float | Sequence["Given"]
"""A value of an input: a number, or a list for each dimension."""

_DEEPEST = 8
"""Most lists inside one another in a value."""


def is_given(value: object, depth: int = 0) -> bool:
    """Whether something is a value of an input."""
    if isinstance(value, list):
        return depth < _DEEPEST and all(is_given(item, depth + 1) for item in value)
    return isinstance(value, bool | int | float)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a model is read; what a format does not have is left alone.

    Attributes:
        subgraph: which of the graphs of a file with several; 0 is the main one.
        shapes: shapes of inputs by name, for extents that the file leaves open. In an ONNX model,
            they also count in place of extents that the file states.
        arrays: shapes of arrays that inputs are to take, by their names or numbers, for extents
            that the file and `shapes` leave open.
        values: values that inputs are fixed to by name, as numbers or lists; the model is read as
            if they were constants. Of an input that has a shape here, too, the value counts if it
            has no dimensions.
        keep_layout: whether images keep the file's order of dimensions, where it has channels
            before rows and columns; otherwise inputs that convolutions read get channels last.
        before_choice: whether a detector that chooses boxes with non-maximum suppression is read up
            to that: what the choice reads becomes the outputs, in place of what it gives.
    """

    subgraph: int = 0
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Given] = field(default_factory=dict)
    keep_layout: bool = False
    before_choice: bool = False


PLAINLY = Reading()
"""The main graph, with nothing said."""


class Frontend(ABC):
    """Reads models of one format.

    Class attributes:
        name: name in the registry.
        title: the format, as in "give a TFLite model".
        kind: the file format, if FitzRoy detects it by content; None for other formats, which
            `recognizes` detects.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kind: ClassVar[FileKind | None] = None

    def recognizes(self, data: bytes, path: str) -> bool:
        """Whether this frontend reads a file whose format FitzRoy does not detect itself.

        Args:
            data: the file.
            path: its name.
        """
        return False

    @abstractmethod
    def read(self, data: bytes, path: str, how: Reading = PLAINLY) -> Graph:
        """The graph of a file, not yet verified: the caller does that.

        Args:
            data: the file.
            path: its name, for errors.
            how: what to read of it.

        Raises:
            FormatError: the file is malformed.
            UnsupportedError: the model has operators without counterpart.
        """


FRONTENDS = Registry(
    "frontend",
    "frontends",
    group="fitzroy.frontends",
    base=Frontend,  # type: ignore[type-abstract]
    own={
        "tflite": "fitzroy.compiler.frontends.tflite.frontend:TfliteFrontend",
        "onnx": "fitzroy.compiler.frontends.onnx.frontend:OnnxFrontend",
        "text": "fitzroy.compiler.frontends.text:TextFrontend",
    },
)
"""All frontends by name."""


def frontend_for(data: bytes, path: str) -> Frontend:
    """The frontend for a file, told by its content.

    Args:
        data: the file.
        path: its name, for errors.

    Raises:
        UsageError: it holds a program or something else that is no model.
        FormatError: it is of no known format.
    """
    try:
        kind = detect(data, path)
    except FormatError:
        for one in (*map(FRONTENDS.get, FRONTENDS.own), *FRONTENDS.others()):
            if one.recognizes(data, path):
                return one
        raise
    for name in FRONTENDS.own:
        own = FRONTENDS.get(name)
        if own.kind is kind:
            return own
    raise UsageError(
        f"{path} is no model" if path else "this is no model",
        reason=f"this is {kind.noun}",
        hint="give a .tflite or .onnx model, or a graph in text form",
    )

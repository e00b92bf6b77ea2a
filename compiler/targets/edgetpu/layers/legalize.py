"""How do the nodes of a quantized graph become machine-level layers?

Every operator has a rule in `RULES`, declared with `legalizes` beside the layers that it makes (in
`lowerings` and `reshaping`). The `Legalizer` calls the rules in the order of the graph. It keeps
the layers so far, the values that share a place, and the views that have no place of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.ops.shape import TransposeAttributes
from fitzroy.compiler.targets.edgetpu.instructions.sync import SLOTS
from fitzroy.compiler.targets.edgetpu.layers.conditions import demand
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import WORD, grids
from fitzroy.compiler.targets.edgetpu.parameters.operands import FilterOperand, operands
from fitzroy.hw_models.parameters import (
    ZeroBias,
)

Rule = Callable[["Legalizer", Call], None]

RULES: dict[str, Rule] = {}
"""How the nodes of each operator become layers."""


def legalizes(op: str) -> Callable[[Rule], Rule]:
    """Declare the rule for an operator."""

    def declare(rule: Rule) -> Rule:
        RULES[op] = rule
        return rule

    return declare


_FIRST: list[Callable[[Legalizer, Call], bool]] = []
_PUT: list[Callable[[Legalizer, str], None]] = []


def legalizes_first(
    attempt: Callable[[Legalizer, Call], bool],
) -> Callable[[Legalizer, Call], bool]:
    """Declare what is tried before the rules; it returns whether it legalized the call."""
    _FIRST.append(attempt)
    return attempt


def puts_views(put: Callable[[Legalizer, str], None]) -> Callable[[Legalizer, str], None]:
    """Declare what makes a tensor of a view, for operators that cannot read its parts."""
    _PUT.append(put)
    return put


IMAGE_RANK = 4


def several(type: TensorType) -> bool:
    """Whether a tensor has several images."""
    return len(type.shape) == IMAGE_RANK and type.shape[0] > 1


def rows_of_images(type: TensorType) -> tuple[int, int, int, int]:
    """Shape of one image with the rows of all images of a tensor."""
    count, height, width, channels = type.shape
    return 1, count * height, width, channels


CHANNELS_LAST = (0, 2, 3, 1)
"""What makes an image [n,h,w,c] of planes [n,c,h,w]."""

_MOST_PLANES = 16
"""Planes that are put together by a convolution; that of more computes more than it moves."""


def image_of_plane(type: TensorType) -> tuple[int, int, int, int] | None:
    """Shape of an image with the rows of one plane of [1,c,h,w], a pixel for each word.

    Returns:
        None if there is one plane or there are many, or if rows are no whole words.
    """
    count, planes, height, width = type.shape
    if count > 1 or not 1 < planes <= _MOST_PLANES or width % WORD:
        return None
    return 1, height, width // WORD, WORD


@dataclass
class Legalizer:
    """A graph on its way to layers.

    Attributes:
        graph: the graph.
        options: what the program may use of the chip.
        layers: layers so far.
        aliases: values that are the same bytes in the same place as another value.
        types: types of values that no node of the graph makes.
        margins: rows and columns of padding in front of an alias that its place does not have.
        views: places whose elements, one after the other, are those of a value that has no place
            unless one is needed.
        rows: places of what comes from the host in several images, as planes, or as many rows: one
            image with the rows of all, or with a pixel for each; or an image for each plane.
        copies: places with the same elements in another layout, by the place that they are copies
            of and their shape as an image, which is empty for a vector.
        joined: vectors with the elements of several places, by the names of these.
    """

    graph: Graph
    options: Options = DEFAULT
    layers: list[Layer] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    margins: dict[str, tuple[int, int]] = field(default_factory=dict)
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)
    copies: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    joined: dict[tuple[str, ...], str] = field(default_factory=dict)
    _vectors: dict[str, bool] = field(default_factory=dict, init=False, repr=False)
    _seen: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        """Take in the inputs of the graph."""
        self.take_in(self.graph.inputs)

    def take_in(self, names: Iterable[str]) -> None:
        """Let values come from the host: images, planes, or rows of a large value, lie as one."""
        for name in names:
            type = self.graph.type(name)
            shape = rows_of_images(type) if several(type) else self._large_rows(type)
            if name in self.rows:
                continue
            if shape is not None:
                self._lies_in(name, "rows", shape, 1)
            elif self._is_put_together(name) and (shape := image_of_plane(type)) is not None:
                self._lies_in(name, "plane", shape, type.shape[1])

    def _lies_in(self, name: str, stem: str, shape: tuple[int, int, int, int], count: int) -> None:
        """Let a value from the host lie in so many images of a shape, one after the other."""
        for _ in range(count):
            place = unused_name(f"{name}.{stem}", self.graph.values, self.types)
            self.types[place] = replace(self.graph.type(name), shape=shape)
            self.rows[name] = (*self.rows.get(name, ()), place)
        self.views[name] = self.rows[name]

    def _is_put_together(self, name: str) -> bool:
        """Whether all that read an image take its rows for channels of another one."""
        readers = self.graph.consumers(name)
        return bool(readers) and all(
            isinstance(node.attributes, TransposeAttributes)
            and node.attributes.perm == CHANNELS_LAST
            for node in readers
        )

    def _large_rows(self, type: TensorType) -> tuple[int, int, int, int] | None:
        """Shape of an image with a pixel for each row of a value, such as many tokens.

        As a vector, it could be read only by operators of single elements.

        Rows of the image come to all tiles of a row of the grid through two slots, in whole words.

        Returns:
            None if every tile has room for a copy of the vector, if the value is an image, or if
            the slots would take more than half of narrow memory in any image of several columns.
        """
        if len(type.shape) in (0, 1, IMAGE_RANK) or type.size <= self.options.copied_bytes:
            return None
        channels = type.shape[-1]
        for height, width in grids(type.size // channels):
            slot = math.lcm(width * channels, WORD)
            if height > 1 < width and SLOTS * slot <= self.options.narrow_bytes // 2:
                return 1, height, width, channels
        return None

    def run(self, origins: Mapping[str, str] = MappingProxyType({})) -> None:
        """Legalize all nodes.

        Args:
            origins: nodes of the model that nodes stand for, by their names, where these differ.

        Raises:
            UnsupportedError: a node has no rule, or its rule refuses it.
        """
        for node in self.graph.nodes():
            if node.op not in RULES:
                raise UnsupportedError(
                    f"{node.spelled} {node.name!r} has no lowering for the Edge TPU"
                )
            self.legalize_as(node, origins.get(node.name, node.name))

    def legalize(self, node: Node) -> None:
        """Add the layers of a node whose operator has a rule.

        Raises:
            UnsupportedError: the rule refuses it.
        """
        self.legalize_as(node, node.name)

    def legalize_as(self, node: Node, origin: str) -> None:
        """Add the layers of a node that stands for one of the model.

        Args:
            node: the node.
            origin: name of the node of the model; empty if that is being legalized already.

        Raises:
            UnsupportedError: the rule refuses it.
        """
        call, before = Call.of(self.graph, node), len(self.layers)
        demand(call)
        if not any(attempt(self, call) for attempt in _FIRST):
            RULES[node.op](self, call)
        if origin:
            self.layers[before:] = [
                layer if layer.origin else replace(layer, origin=origin)
                for layer in self.layers[before:]
            ]
        self._check_images(node, before)

    def _check_images(self, node: Node, first: int) -> None:
        """Refuse several images in a tensor, which only vectors may be.

        Args:
            node: a node.
            first: number of the first of its layers.

        Raises:
            UnsupportedError: there are several.
        """
        names = [part for name in self.graph.computed(node) for part in self.parts(name)]
        for layer in self.layers[first:]:
            names += [*layer.reads, layer.writes]
        for name in names:
            shape = self.type(name).shape
            if len(shape) == 4 and shape[0] != 1 and not self.makes_vector(name):
                raise UnsupportedError(
                    f"{name!r} has shape {list(shape)}, not that of one image",
                    hint="give the model a batch of one",
                )

    def place(self, name: str) -> str:
        """The value that holds the bytes of a value; a view gets a place."""
        if name in self.views and name not in self.aliases:
            for put in _PUT:
                put(self, name)
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def makes_vector(self, place: str) -> bool | None:
        """Whether the layer that writes a place makes a vector; None if no layer does."""
        for layer in self.layers[self._seen :]:
            self._vectors.setdefault(layer.writes, layer.makes_vector)
        self._seen = len(self.layers)
        return self._vectors.get(place)

    def parts(self, name: str) -> tuple[str, ...]:
        """Places whose elements, one after the other, are those of a value."""
        return self.views.get(name) or (self.place(name),)

    def split(self) -> Legalizer:
        """A copy, to try a rule that may be refused."""
        other = replace(
            self,
            layers=list(self.layers),
            aliases=dict(self.aliases),
            types=dict(self.types),
            margins=dict(self.margins),
            views=dict(self.views),
            rows=dict(self.rows),
            copies=dict(self.copies),
            joined=dict(self.joined),
        )
        # What is known of its layers, so that they are not all looked at again.
        other._vectors, other._seen = dict(self._vectors), self._seen
        return other

    def adopt(self, tried: Legalizer) -> None:
        """Go on as a copy did, which has added to what there was."""
        self.graph = tried.graph
        self.layers[:] = tried.layers
        self.aliases |= tried.aliases
        self.types |= tried.types
        self.margins |= tried.margins
        self.views |= tried.views
        self.rows |= tried.rows
        self.copies |= tried.copies
        self.joined |= tried.joined

    def padding_of(self, name: str) -> tuple[int, int]:
        """Rows and columns of padding that lie in front of a value and its place does not have."""
        rows = columns = 0
        while name in self.aliases:
            above, left = self.margins.get(name, (0, 0))
            rows, columns = rows + above, columns + left
            name = self.aliases[name]
        return rows, columns

    def type(self, name: str) -> TensorType:
        """Type of a value."""
        return self.types[name] if name in self.types else self.graph.type(name)


def filter_operand(graph: Graph, node: Node) -> FilterOperand:
    """The weights of an operator in the layout of compiled models."""
    (found,) = operands(graph, zero_bias=ZeroBias.KEEP, nodes=[node])
    assert isinstance(found, FilterOperand)
    return found

"""A graph as machine-level layers: what legalization hands on to the choice of memory."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.layers.layer import POINT, Layer
from fitzroy.compiler.targets.edgetpu.layers.options import Options


@dataclass(frozen=True, eq=False)
class Layered:
    """A graph as layers in the order in which they run, inputs and outputs included.

    Attributes:
        graph: the graph.
        options: what the program may use of the chip.
        layers: the layers.
        aliases: values that are the same bytes in the same place as another value.
        types: types of values that no node of the graph makes.
    """

    graph: Graph
    options: Options
    layers: tuple[Layer, ...]
    aliases: Mapping[str, str]
    types: Mapping[str, TensorType]

    def type(self, name: str) -> TensorType:
        """Type of a value."""
        return self.types[name] if name in self.types else self.graph.type(name)

    @cached_property
    def compared(self) -> Set[str]:
        """Images of which only maxima read beyond the border."""
        compared: set[str] = set()
        others: set[str] = set()
        for layer in self.layers:
            for index, name in enumerate(layer.reads):
                if self._reaches_around(layer, index):
                    (compared if layer.compares else others).add(name)
        return compared - others

    def _reaches_around(self, layer: Layer, index: int) -> bool:
        """Whether windows of a layer extend beyond the border of an operand."""
        shape, result = self.type(layer.reads[index]).shape, self.type(layer.writes).shape
        windows = layer.windows(index)
        if windows == POINT:
            return False
        for window, extent, results in zip(windows, shape[1:3], result[1:3], strict=True):
            begin, end = window.needs((0, results))
            if begin < 0 or end > extent:
                return True
        return False

    def with_layers(self, changes: Mapping[Layer, Layer]) -> Layered:
        """The same with other layers instead of some."""
        return replace(self, layers=tuple(changes.get(layer, layer) for layer in self.layers))

    def unused(self, stem: str) -> str:
        """A name that no value has."""
        return unused_name(stem, self.graph.values, self.types)

"""A graph as machine-level layers: what legalization hands on to the choice of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fitzroy.base.types import TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ir.graph import unused_name
from fitzroy.compiler.targets.edgetpu.layers.layer import Layer
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

    def with_layers(self, changes: Mapping[Layer, Layer]) -> Layered:
        """The same with other layers instead of some."""
        return replace(self, layers=tuple(changes.get(layer, layer) for layer in self.layers))

    def unused(self, stem: str) -> str:
        """A name that no value has."""
        return unused_name(stem, self.graph.values, self.types)

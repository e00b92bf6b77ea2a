"""Borders of tensors that are no images, as borders of images.

Convolutions over time pad tensors of three axes, only in front if they are causal. These become
images: axes of extent 1 are dropped, and neighbouring axes without a border are merged. If a
convolution reads the padded tensor as an image, it reads this one, so that its windows reach over
the border and nothing moves.
"""

from __future__ import annotations

from dataclasses import dataclass

from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.shape import PadAttributes, ReshapeAttributes
from fitzroy.compiler.passes.rewritten import Rewriter, Rewritten
from fitzroy.compiler.targets.edgetpu.layers.legalize import IMAGE_RANK


@dataclass(frozen=True, slots=True)
class _Axis:
    """Elements of an axis, and how many are added before and after them."""

    size: int
    before: int = 0
    after: int = 0

    @property
    def has_border(self) -> bool:
        """Whether elements are added."""
        return bool(self.before or self.after)


def padded_images(graph: Graph) -> Rewritten:
    """A graph of the same meaning in which borders are those of images, wherever they can be.

    Args:
        graph: the graph; it stays as it is, and is the result if it has no other borders.
    """
    nodes = [node for node in graph.nodes() if node.op == "pad" and _axes_of(graph, node)]
    return _Work.applied(graph, nodes)


def _axes_of(graph: Graph, node: Node) -> tuple[_Axis, ...]:
    """Rows, columns and channels to pad instead; empty if the node is to stay as it is."""
    a, type = node.attributes, graph.type(str(node.inputs[0]))
    assert isinstance(a, PadAttributes), "the attributes of its operator"
    whole = [_Axis(*axis) for axis in zip(type.shape, a.before, a.after, strict=True)]
    if type.quantization is None or len(whole) == IMAGE_RANK:
        return ()
    axes = list[_Axis]()
    for axis in whole:
        if axis.has_border or not axes or axes[-1].has_border:
            axes.append(axis)
        else:
            axes[-1] = _Axis(axes[-1].size * axis.size)
    axes = [axis for axis in axes if axis != _Axis(1)]
    missing = IMAGE_RANK - 1 - len(axes)
    return () if missing < 0 else (*[_Axis(1)] * missing, *axes)


class _Work(Rewriter[Node]):
    """A graph whose borders become those of images one by one."""

    def rewrite(self, node: Node) -> None:
        """Put the border of an image in the place of another one."""
        graph, source, (result,) = self.graph, str(node.inputs[0]), node.outputs
        axes, a = _axes_of(graph, node), node.attributes
        assert isinstance(a, PadAttributes)
        inner = graph.type(source).with_shape((1, *(axis.size for axis in axes)))
        image = self.emit(node.name, "reshape", [source], inner, ReshapeAttributes(inner.shape))
        border = PadAttributes(
            (0, *(axis.before for axis in axes)), (0, *(axis.after for axis in axes)), a.value
        )
        sizes = (axis.before + axis.size + axis.after for axis in axes)
        outer = graph.type(result).with_shape((1, *sizes))
        padded = self.emit(node.name, "pad", [image], outer, border)
        for reader in graph.consumers(result):
            made = reader.outputs[0]
            if reader.op == "reshape" and graph.type(made) == outer and made not in graph.outputs:
                graph.replace_uses(made, padded)
        own = ReshapeAttributes(graph.type(result).shape)
        self.put_in_place(node, "reshape", [padded], own)

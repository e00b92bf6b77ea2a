"""ExecuTorch's targets: its XNNPACK delegate, and the portable kernels beside it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.custom import cut_hint
from fitzroy.compiler.ops.definition import Call, Reject
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.pipeline import portable, xnnpack
from fitzroy.compiler.targets.executorch.catalog import KERNELS
from fitzroy.compiler.targets.executorch.lower import PORTABLE, XNNPACK, Lowered, lower
from fitzroy.compiler.targets.target import Lowering, Product, Target
from fitzroy.compiler.targets.xnnpack.legalize import RULES
from fitzroy.compiler.targets.xnnpack.nodes import NODES
from fitzroy.compiler.targets.xnnpack.options import XnnpackOptions


class ExecuTorch(Target):
    """Base of the targets of ExecuTorch's runtime."""

    suffix = ".pte"
    product = Product.METHOD

    def missing(self, call: Call) -> Reject:
        """Why a call of an operator cannot run for which there is nothing."""
        operator = OPS[call.node.op]
        if operator.custom:
            what = f"XNNPACK and ExecuTorch have no {operator.custom}"
            return Reject("post-processing", what, cut_hint(call))
        return self.lacking(operator.name)

    def lacking(self, op: str) -> Reject:
        """Why a built-in operator cannot run for which there is nothing."""
        raise NotImplementedError

    def lower(
        self, graph: Graph, placements: Sequence[Placement], name: str, options: object
    ) -> Lowered:
        """The method that runs a graph, and the subgraphs of its delegates."""
        return lower(graph, placements, name)


class Xnnpack(ExecuTorch):
    """Nodes of the XNNPACK delegate."""

    name = XNNPACK
    title = "XNNPACK"
    summary = "an ExecuTorch program (.pte) for its XNNPACK delegate"
    support = "node"
    fallbacks = (PORTABLE,)
    options = XnnpackOptions

    def lowerings(self) -> Mapping[str, Lowering]:
        """The nodes of all operators that have one."""
        return NODES

    def rewrites(self) -> Collection[str]:
        """What legalization expresses by other operators."""
        return RULES

    def lacking(self, op: str) -> Reject:
        """XNNPACK has no such node."""
        return Reject("xnnpack-operator", f"XNNPACK has no node for {op}")

    def passes(self, options: XnnpackOptions) -> tuple[Pass, ...]:
        """Passes that express a graph by operators of XNNPACK."""
        return xnnpack(options.uint8)


class Portable(ExecuTorch):
    """Calls of the portable kernels of ExecuTorch's runtime."""

    name = PORTABLE
    title = "portable"
    summary = "an ExecuTorch program (.pte) that needs no delegate"
    support = "kernel"

    def lowerings(self) -> Mapping[str, Lowering]:
        """The kernels of all operators that have one."""
        return KERNELS

    def lacking(self, op: str) -> Reject:
        """The runtime has no such kernel."""
        return Reject("portable-kernel", f"ExecuTorch's runtime has no portable kernel for {op}")

    def passes(self, options: object) -> tuple[Pass, ...]:
        """Passes that make a graph simpler."""
        return portable()

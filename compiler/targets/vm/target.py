"""The virtual machine: modules whose host computes operators as small TFLite models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject, TypeRuleError
from fitzroy.compiler.partition import Placement
from fitzroy.compiler.targets.target import Lowering, Target
from fitzroy.compiler.targets.vm.program import EntryPoint
from fitzroy.compiler.targets.vm.schedule import entry_point


class Vm(Target):
    """Functions of a bytecode module; what no accelerator computes goes to its host as TFLite."""

    name = "vm"
    title = "VM host"
    summary = "a bytecode module whose host computes all operators"
    support = "TFLite"
    suffix = ".module"
    entry = "main"

    def lowerings(self) -> Mapping[str, Lowering]:
        """The TFLite operators of all operators that have one."""
        return _LOWERINGS

    def missing(self, call: Call) -> Reject:
        """TFLite has no such operator."""
        return Reject("vm-operator", f"TFLite has no operator for {call.node.spelled}")

    def lower(
        self, graph: Graph, placements: Sequence[Placement], name: str, options: object
    ) -> EntryPoint:
        """The function of a module that computes a graph."""
        return entry_point(graph, placements, name)


def _inexpressible(call: Call) -> Iterator[Reject]:
    """What TFLite cannot say."""
    try:
        OPS[call.node.op].to_tflite(call)
    except TypeRuleError as error:
        yield Reject("vm-operator", str(error))


_LOWERINGS = {
    name: Lowering(operator.to_tflite, _inexpressible)
    for name, operator in OPS.items()
    if operator.tflite or operator.custom
}

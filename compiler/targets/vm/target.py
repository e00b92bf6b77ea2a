"""The virtual machine: modules whose host computes operators as small TFLite models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fitzroy.base.errors import FitzroyError
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.catalog import OPS
from fitzroy.compiler.ops.definition import Call, Reject, TypeRuleError
from fitzroy.compiler.ops.opaque import Opaque
from fitzroy.compiler.partition import Placement, partition
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.targets.target import TARGETS, Lowering, Product, Target
from fitzroy.compiler.targets.vm.options import Accelerator, ModuleOptions, VmOptions
from fitzroy.compiler.targets.vm.program import EntryPoint
from fitzroy.compiler.targets.vm.schedule import entry_point


@dataclass(frozen=True)
class Function:
    """A function of a module.

    Attributes:
        name: its name.
        entry: what it calls; None while its parts on an Edge TPU have no addresses.
        programs: what the Edge TPU's compiler made of its parts; None if it has none.
    """

    name: str
    entry: EntryPoint | None
    programs: Any = None


class Vm(Target):
    """Functions of a bytecode module; what no accelerator computes goes to its host as TFLite."""

    name = "vm"
    title = "VM host"
    summary = "a bytecode module with all that executes it"
    support = "TFLite"
    suffix = ".module"
    entry = "main"
    product = Product.FUNCTION
    options = VmOptions

    def lowerings(self) -> Mapping[str, Lowering]:
        """The TFLite operators of all operators that have one."""
        return _LOWERINGS

    def missing(self, call: Call) -> Reject:
        """TFLite has no such operator."""
        return Reject("vm-operator", f"TFLite has no operator for {call.node.spelled}")

    def chosen(self, settings: Mapping[str, object]) -> ModuleOptions:
        """Its options; with an accelerator, those of that target too."""
        own = {name: settings[name] for name in ("accelerator",) if name in settings}
        options: VmOptions = super().chosen(own)
        accelerator = options.accelerator
        rest = {name: value for name, value in settings.items() if name not in own}
        if accelerator is Accelerator.NONE:
            super().chosen(rest)
            return ModuleOptions(accelerator)
        return ModuleOptions(accelerator, TARGETS.get(accelerator).chosen(rest))

    def keeps_model(self, options: ModuleOptions) -> bool:
        """Whether the accelerator's programs replace operators of the model."""
        return options.accelerator is Accelerator.EDGETPU

    def passes(self, options: ModuleOptions) -> tuple[Pass, ...]:
        """The passes of the accelerator."""
        if options.accelerator is Accelerator.NONE:
            return ()
        return TARGETS.get(options.accelerator).passes(options.inner)

    def place(self, graph: Graph, options: ModuleOptions) -> list[Placement]:
        """Placements of nodes for the accelerator and for the host."""
        match options.accelerator:
            case Accelerator.EDGETPU:
                return TARGETS.get(options.accelerator).place(graph, options.inner)
            case Accelerator.XNNPACK:
                return partition(graph, (TARGETS.get(options.accelerator), self))
        return partition(graph, (self,))

    def lower(
        self, graph: Graph, placements: Sequence[Placement], name: str, options: ModuleOptions
    ) -> Function:
        """The function of a module that computes a graph."""
        if options.accelerator is Accelerator.EDGETPU:
            target = TARGETS.get(options.accelerator)
            return Function(name, None, target.lower(graph, placements, name, options.inner))
        return Function(name, entry_point(graph, placements, name))

    def settled(self, placements: Sequence[Placement], lowered: Function) -> Sequence[Placement]:
        """Parts whose programs do not fit the Edge TPU are on the host."""
        return placements if lowered.programs is None else lowered.programs.placements

    def second_choice(self, options: ModuleOptions, error: FitzroyError) -> ModuleOptions | None:
        """What the accelerator can do about it."""
        if options.accelerator is Accelerator.NONE:
            return None
        inner = TARGETS.get(options.accelerator).second_choice(options.inner, error)
        return None if inner is None else replace(options, inner=inner)


def _inexpressible(call: Call) -> Iterator[Reject]:
    """What TFLite cannot say."""
    try:
        OPS[call.node.op].to_tflite(call)
    except TypeRuleError as error:
        yield Reject("vm-operator", str(error))


_LOWERINGS = {
    name: Lowering(operator.to_tflite, _inexpressible)
    for name, operator in OPS.items()
    if operator.tflite or operator.custom or name == Opaque.name
}

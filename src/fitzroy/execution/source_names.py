"""Which layers of its source a compiled program computes, told from constants.

For programs whose compiler has left no record. Instructions hold the constants of output stages:
scales, zero points and clamps. An operator of the source that has the same ones, and weights of as
many words, is taken for what they compute; of several, the next in the order of the source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.compiler.ir import Graph, Node
from fitzroy.compiler.ops.definition import Call
from fitzroy.compiler.targets.edgetpu.parameters.operands import FilterOperand, mapped_nodes
from fitzroy.compiler.targets.edgetpu.parameters.requantization import OutputStage, output_stage
from fitzroy.compiler.targets.edgetpu.patching.alone import COMPARED
from fitzroy.compiler.targets.edgetpu.patching.changes import filter_operands
from fitzroy.compiler.targets.edgetpu.patching.matching import Position, Site, differences, sites
from fitzroy.compiler.targets.edgetpu.patching.structure import FILTERS
from fitzroy.formats.compilation_record import Step
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.isa.fence import ScalarFence
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.program import disassemble, positions
from fitzroy.hw_models.isa.tensor import TensorOp


def steps_of_source(package: PackageFile, source: Graph) -> tuple[Step, ...]:
    """Where the layers of a source begin in a package's program, as far as constants tell.

    Args:
        package: the package.
        source: the model that it was compiled from.

    Raises:
        UsageError: an output of the package is no value of the source.
        LinkError: no instruction has the constants of an operator of the source.
        FormatError: malformed instructions.
    """
    main = package.main
    nodes = mapped_nodes(source, main.inputs, main.outputs)
    if not nodes:
        nodes = source.nodes()
    judge = _Judge(source, nodes, filter_operands(source, [n for n in nodes if n.op in FILTERS]))
    steps = list(_steps(package, judge))
    if not steps:
        raise LinkError(
            "no instruction has the constants of an operator of the source",
            reason=f"{len(nodes)} operators were compared",
            where=package.path,
            hint="give the model from which this one was compiled",
        )
    return tuple(steps)


@dataclass(frozen=True)
class _Judge:
    """Tells which operators an operation may belong to.

    Attributes:
        graph: the source.
        nodes: its operators in the package, in order.
        filters: operands of those with weights, by node and part.
    """

    graph: Graph
    nodes: Sequence[Node]
    filters: Mapping[tuple[str, str], FilterOperand]

    def numbers(self, place: Position, operation: TensorOp) -> Iterator[int]:
        """Numbers of the operators that have its constants."""
        # A group of one, or none for what multiplies no bytes.
        alone = sites({place: operation})
        for number, node in enumerate(self.nodes):
            if node.op in FILTERS:
                if alone and self._has_weights(node, alone[0]):
                    yield number
            elif self._has_constants(node, operation):
                yield number

    def _has_weights(self, node: Node, site: Site) -> bool:
        if not site.fits(self.filters[node.name, ""].layout):
            return False
        with suppress(UnsupportedError):
            stage = output_stage(Call.of(self.graph, node), site.prefix)
            return not differences(stage, site.first)
        return False

    def _has_constants(self, node: Node, operation: TensorOp) -> bool:
        names = COMPARED.get(node.op)
        if names is None:
            return False
        with suppress(UnsupportedError):
            stage: OutputStage = output_stage(Call.of(self.graph, node))
            return all(getattr(stage, name) == getattr(operation, name) for name in names)
        return False


def _steps(package: PackageFile, judge: _Judge) -> Iterator[Step]:
    """Steps in the order of the program; one begins with the phase of its first operation."""
    current = -1
    for chunk, stream in enumerate(package.main.instruction_bitstreams or ()):
        data = b"" if stream.bitstream is None else stream.bitstream.tobytes()
        begin = 0
        for bundle, instruction in positions(disassemble(data)):
            if isinstance(instruction, ScalarFence) and instruction.wait_tiles:
                begin = bundle + 1
            if not isinstance(instruction, TensorOp):
                continue
            numbers = list(judge.numbers(Position(chunk, bundle * BUNDLE_BYTES), instruction))
            if not numbers or current in numbers:
                continue
            current = next((number for number in numbers if number > current), numbers[0])
            node = judge.nodes[current]
            index = -1 if node.origin is None else node.origin.index
            # Steps count bundles from after START.
            yield Step(chunk, max(0, begin - 1), node.op, node.name, index)

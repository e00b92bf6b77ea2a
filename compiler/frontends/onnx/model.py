"""Walks the nodes of an ONNX model and makes a graph of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fitzroy.base import budget
from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import FormatError, UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.onnx import catalog as catalog
from fitzroy.compiler.frontends.onnx import reader
from fitzroy.compiler.frontends.onnx.builder import Builder, graph_type
from fitzroy.compiler.frontends.onnx.choice import CHOOSERS, choice_left_out, chooses_boxes
from fitzroy.compiler.frontends.onnx.dynamic import is_dynamic, left_real, real_products
from fitzroy.compiler.frontends.onnx.fold import FOLDS, folded
from fitzroy.compiler.frontends.onnx.functions import bound, definition
from fitzroy.compiler.frontends.onnx.operation import Operation
from fitzroy.compiler.frontends.onnx.order import DEEPEST, needed, runnable
from fitzroy.compiler.frontends.onnx.patterns import recognized
from fitzroy.compiler.frontends.onnx.preference import image_inputs
from fitzroy.compiler.frontends.onnx.registry import IMPORTERS
from fitzroy.compiler.frontends.onnx.resized import HINT, Stated, check_size, replaced_shapes
from fitzroy.compiler.frontends.onnx.values import Refusal, Tensor, channels_last, identity
from fitzroy.compiler.frontends.shapes import by_input, of_arrays
from fitzroy.compiler.ir import Graph, Origin

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


_UNFIT = (ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError, RuntimeError)
"""What ranks, lengths or extents that an operator does not admit end in; numpy has most ranks."""

LARGEST = 200_000
"""Most nodes that a model may become; a recurrent operator has some for every step."""


def import_model(model: ModelProto, *, path: str = "", how: Reading = PLAINLY) -> Graph:
    """The graph of a model, whose inputs and outputs have ONNX's order of dimensions.

    Args:
        model: a model as `reader.decode` gives it.
        path: name of the file, for errors and external data.
        how: shapes and values of inputs by name.

    Raises:
        FormatError: the nodes or constants do not fit together.
        UnsupportedError: with one diagnostic for every operator that has no counterpart.
        UsageError: a shape or a value for an input that does not exist or has another one.
        CapacityError: constants take more memory than the budget has.
    """
    replaced = replaced_shapes(model.graph, how, path)
    if not replaced:
        return _Importer(model, path, how).graph()
    first = _Importer(model, path, replace(how, shapes={**how.shapes, **replaced}))
    with suppress(UnsupportedError):
        # Operators that the stated size does not suit have no constants that suit it.
        first.graph()
    return _Importer(model, path, how, Stated(replaced, first.operations)).graph()


@dataclass(slots=True)
class Scope:
    """Values by name, within a graph, a branch of it, or a function.

    Attributes:
        importer: who imports.
        outer: what surrounds a branch.
        opsets: versions of operator sets.
        depth: how many scopes there are around.
        values: values by name; None for those that an operator was to give that was refused.
        absent: names of a function's operands that are left out, which count as not given.
    """

    importer: _Importer
    opsets: Mapping[str, int]
    outer: Scope | None = None
    depth: int = 0
    values: dict[str, Tensor | None] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def find(self, name: str) -> Tensor | None:
        """The value of a name; None if it was refused.

        Raises:
            FormatError: nothing has given it.
        """
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise FormatError(f"{name!r} is read before anything gives it", path=self.importer.path)

    def constant(self, name: str) -> Array | None:
        """Elements of a constant; None for what is computed or not known yet."""
        scope: Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.outer
        tensor = None if scope is None else scope.values[name]
        return None if tensor is None else tensor.data

    def define(self, name: str, tensor: Tensor | None) -> None:
        """Give a name its value.

        Raises:
            FormatError: it has one.
        """
        if name in self.values:
            raise FormatError(f"{name!r} is given twice", path=self.importer.path)
        self.values[name] = tensor

    def inner(self, opsets: Mapping[str, int], *, sees: bool) -> Scope:
        """A scope inside this one; it `sees` the values of this one or not.

        Raises:
            FormatError: there are too many inside one another.
        """
        if self.depth >= DEEPEST:
            raise FormatError(
                f"more than {DEEPEST} functions and branches inside one another",
                path=self.importer.path,
            )
        return Scope(self.importer, opsets, self if sees else None, self.depth + 1)

    def body(self, body: GraphProto) -> Callable[[Sequence[Tensor]], list[Tensor]]:
        """What gives the results of a graph inside an operator, each time anew, of its inputs.

        Raises:
            Refusal: it has constants without counterpart, or when it is called, operators.
        """
        outer, importer = self.inner(self.opsets, sees=True), self.importer
        names = [info.name for info in body.output]
        # Bodies of loops inside loops are asked for again and again.
        if id(body) not in importer.bodies:
            before = len(importer.rejects)
            importer.constants(body, outer)
            importer.demand_imported(before, "a branch")
            importer.bodies[id(body)] = (body, outer.values)
        outer.values = importer.bodies[id(body)][1]

        def results(inputs: Sequence[Tensor]) -> list[Tensor]:
            importer.demand_room()
            scope, before = outer.inner(self.opsets, sees=True), len(importer.rejects)
            if len(inputs) != len(body.input):
                what = f"{len(inputs)} values for a body of {len(body.input)} inputs"
                raise Refusal("onnx-type-rule", what)
            for info, tensor in zip(body.input, inputs, strict=True):
                scope.define(info.name, tensor)
            importer.nodes(body.node, scope, names)
            importer.demand_imported(before, "a branch")
            found = [tensor for tensor in map(scope.find, names) if tensor is not None]
            if len(found) < len(names):
                raise Refusal("onnx-run-time-parameter", "boxes are chosen inside a branch")
            return found

        return results


class _Importer:
    """Makes a graph of a model.

    Args:
        model: the model.
        path: name of the file.
        how: what to read of it.
        stated: the model with the shapes that it states, if inputs get others.
    """

    def __init__(
        self, model: ModelProto, path: str, how: Reading, stated: Stated | None = None
    ) -> None:
        self.model, self.path, self.stated = model, path, stated
        self.shapes, self.fixed, self.arrays = dict(how.shapes), dict(how.values), dict(how.arrays)
        self.operations: dict[str, Operation] = {}
        self.opsets = reader.operator_sets(model, path)
        self.result = Graph(model.graph.name or path.rpartition("/")[2] or "main")
        self.build = Builder(self.result)
        self.build.keeps_integers = not is_dynamic(model.graph)
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.rejects: list[Diagnostic] = []
        self.count = 0
        # By identity, with what has it, so that nothing else gets it.
        self.bodies: dict[int, tuple[GraphProto, dict[str, Tensor | None]]] = {}
        # What a choice of boxes that is left out reads, by name.
        self.chosen_from: dict[str, Tensor] = {}
        self.leaves_out = CHOOSERS if how.before_choice and chooses_boxes(model.graph) else ()
        self.held: dict[int, tuple[TensorProto, Array]] = {}

    def graph(self) -> Graph:
        proto = self.model.graph
        scope = Scope(self, self.opsets)
        self.constants(proto, scope)
        self.inputs(proto, scope)
        self.nodes(proto.node, scope, [info.name for info in proto.output])
        found: list[tuple[str, str]] = []
        for name, tensor, code in self.outputs(proto, scope) if not self.rejects else ():
            try:
                found.append((name, self.output(name, tensor, code)))
            except Refusal as refusal:
                self.reject(refusal, f"output {name!r}")
        if self.rejects:
            raise UnsupportedError(
                f"{len(self.rejects)} of {len(proto.node)} operators cannot be imported",
                rejects=self.rejects,
                where=self.path,
                hint=_remedy(proto) or (HINT if self.stated else ""),
            )
        if self.build.left_real:
            self.result.remarks.append(left_real(self.build.left_real, self.result.name))
        if self.chosen_from:
            self.result.remarks.append(choice_left_out(proto, scope.constant))
        self.name_outputs(found)
        self.result.prune()
        return self.result

    # --- borders --------------------------------------------------------------------------------

    def constants(self, proto: GraphProto, scope: Scope) -> None:
        """Define the constants of a graph."""
        for tensor in proto.initializer:
            try:
                scope.define(
                    tensor.name, self.build.constant(reader.array(tensor, self.path), tensor.name)
                )
            except Refusal as refusal:
                self.reject(refusal, f"constant {tensor.name!r}")
                scope.define(tensor.name, None)
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            self.reject(Refusal("onnx-element-type", "a sparse constant"), f"constant {name!r}")
            scope.define(name, None)

    def inputs(self, proto: GraphProto, scope: Scope) -> None:
        """Define the inputs of the model; older models list constants among them."""
        infos = [info for info in proto.input if info.name not in scope.values]
        names = [info.name for info in infos]
        self.shapes = by_input(self.shapes, names, self.path)
        self.fixed = by_input(self.fixed, names, self.path)
        self.arrays = of_arrays(self.arrays, names)
        images = image_inputs([proto.node[number] for number in runnable(proto.node)])
        for info in infos:
            self.input(info, scope, info.name in images)

    def input(self, info: Any, scope: Scope, image: bool) -> None:
        """Define one input."""
        where = f"input {info.name!r}"
        try:
            if not info.type.HasField("tensor_type"):
                raise Refusal("onnx-sequence", "an input that is no tensor")
            dtype = reader.element_type(info.type.tensor_type.elem_type)
        except Refusal as refusal:
            self.reject(refusal, where)
            scope.define(info.name, None)
            return
        fixed = reader.fixed_input(info, (self.shapes, self.fixed), dtype, self.path)
        if fixed is not None:
            scope.define(info.name, self.build.constant(fixed, info.name))
            return
        if self.stated is not None and info.name in self.stated.shapes:
            shape = self.shapes[info.name]
        else:
            given = self.shapes.get(info.name, self.arrays.get(info.name))
            shape = reader.input_shape(info, given, self.path)
        type = TensorType(shape, dtype)
        budget.demand(type.nbytes, f"input {info.name!r}", where=self.path)
        if info.name in self.result.values:
            raise FormatError(f"{info.name!r} is given twice", path=self.path)
        self.result.add_input(info.name, type)
        build = self.build
        build.stem = info.name
        tensor = build.variable(info.name)
        if image and tensor.rank > 2:
            # What reads the input wants channels last, and so do operators on elements before it.
            order = channels_last(tensor.rank)
            tensor = build.variable(build.value(tensor, order), order)
        if graph_type(dtype) is not dtype:
            tensor = build.unary("cast", tensor, dtype=graph_type(dtype))
        scope.define(info.name, tensor)

    def outputs(self, proto: GraphProto, scope: Scope) -> Iterator[tuple[str, Tensor, int]]:
        """Name, value and ONNX's type of outputs; of those that are chosen, what they are of."""
        found = {info.name: scope.find(info.name) for info in proto.output}
        for info in proto.output:
            tensor = found[info.name]
            if tensor is not None:
                yield info.name, tensor, info.type.tensor_type.elem_type
        for name, tensor in self.chosen_from.items():
            if name not in found:
                yield name, tensor, 0

    def output(self, name: str, tensor: Tensor, code: int) -> str:
        """The graph's value of an output, in ONNX's order and type, under a name of its own."""
        build, graph = self.build, self.result
        if name in graph.inputs:
            return name
        build.stem = name
        found = build.value(tensor, identity(tensor.rank))
        dtype = reader.element_type(code) if code else graph.type(found).dtype
        if graph_type(dtype) is graph.type(found).dtype is not dtype:
            found = build.emit("cast", [found], dtype=dtype)
        return found

    def name_outputs(self, found: Sequence[tuple[str, str]]) -> None:
        """Make values the outputs of the graph, with the names of the model.

        Args:
            found: name and value of each output; one value may be several outputs.
        """
        graph = self.result
        names: dict[str, str] = {}

        def rename(old: str, new: str) -> None:
            graph.rename_output(old, new)
            for original in [*(key for key, name in names.items() if name == old), old]:
                names[original] = new

        for name, original in found:
            value = names.get(original, original)
            if value == name and name in graph.inputs:
                graph.outputs.append(name)
                continue
            if graph.producer(value) is None or value in graph.outputs:
                self.build.stem = name
                value = self.build.copy(value)
            if value != name:
                if name in graph.values:
                    rename(name, graph.fresh(f"{name}/stored"))
                rename(value, name)
            graph.outputs.append(name)

    # --- nodes ----------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[NodeProto], scope: Scope, outputs: Sequence[str]) -> None:
        """Import those nodes that the outputs depend on."""
        nodes = recognized(real_products(nodes), scope.constant)
        for number in needed(nodes, outputs):
            node = nodes[number]
            names = ["" if name in scope.absent else name for name in node.input]
            operands = [scope.find(name) if name else None for name in names]
            lacking = any(t is None and name for t, name in zip(operands, names, strict=True))
            varying = any(t is not None and t.data is None for t in operands)
            if lacking or (node.op_type in self.leaves_out and varying):
                # An operand was refused, which has been said, or belongs to a choice.
                self.define(node, scope, [None] * len(node.output))
                self.note_choice(names, operands)
                continue
            try:
                self.define(node, scope, self.results(node, scope, operands, number))
            except Refusal as refusal:
                self.reject(refusal, _place(number, node))
                self.define(node, scope, [None] * len(node.output))

    def note_choice(self, names: Sequence[str], operands: Sequence[Tensor | None]) -> None:
        """Note what a choice that is left out reads."""
        if not self.leaves_out:
            return
        for name, tensor in zip(names, operands, strict=True):
            if tensor is not None and tensor.data is None:
                self.chosen_from[name] = tensor

    def demand_room(self) -> None:
        """Count an operator, or a body, and refuse models that become too many.

        Raises:
            UnsupportedError: this one does.
        """
        self.count += 1
        if self.count > LARGEST or len(self.result.values) > 4 * LARGEST:
            raise UnsupportedError(
                f"the model becomes more than {LARGEST} operators", where=self.path
            )

    def define(self, node: NodeProto, scope: Scope, results: Sequence[Tensor | None]) -> None:
        """Give results of a node their names."""
        for name, tensor in zip(node.output, results, strict=False):
            if name:
                scope.define(name, tensor)

    def results(
        self, node: NodeProto, scope: Scope, operands: Sequence[Tensor | None], number: int
    ) -> Sequence[Tensor | None]:
        """The results of a node.

        Raises:
            Refusal: it has no counterpart.
        """
        domain = reader.DOMAINS.get(node.domain, node.domain)
        build = self.build
        build.stem = next(filter(None, node.output), node.op_type)
        build.origin = Origin(self.path, 0, number)
        self.demand_room()
        opset = scope.opsets.get(domain, 1)
        importer = IMPORTERS.get((domain, node.op_type))
        function = self.functions.get((node.domain, node.op_type))
        if function is None and importer is None and not (domain == "" and node.op_type in FOLDS):
            function = definition(node, domain, opset, operands)
            if function is None:
                where = f" of domain {domain}" if domain else ""
                raise Refusal(
                    "onnx-operator",
                    f"no counterpart of {node.op_type}{where}",
                    "operators that are read are listed in docs/onnx.md",
                )
        if function is not None:
            return self.called(function, node, scope, operands)
        while operands and operands[-1] is None:
            operands = operands[:-1]
        operation = Operation(
            node.op_type,
            opset,
            operands,
            tuple(node.output),
            build,
            self.fields(node),
            scope.body,
        )
        constant = folded(operation) if domain == "" else None
        if constant is not None:
            return [constant]
        if importer is None:
            raise Refusal("onnx-run-time-parameter", "the operator is known for constants only")
        try:
            if scope.depth == 0:
                self.check_size(build.stem, operation)
            with np.errstate(all="ignore"):
                found = importer(operation)
        except _UNFIT as error:
            what = f"operands or attributes do not fit {node.op_type}: {error}"
            raise Refusal("onnx-type-rule", what) from None
        results = [found] if isinstance(found, Tensor) else list(found)
        if sum(map(bool, node.output[len(results) :])):
            raise Refusal("onnx-attribute", f"{len(node.output)} results; {len(results)} are known")
        return results

    def check_size(self, name: str, operation: Operation) -> None:
        """Note an operator of the model itself; refuse it if it is for the stated size.

        Raises:
            Refusal: its constants are.
        """
        self.operations[name] = operation
        before = None if self.stated is None else self.stated.operations.get(name)
        if before is not None:
            check_size(before, operation)

    def fields(self, node: NodeProto) -> dict[str, Any]:
        """Attributes of a node as Python values."""
        return {attribute.name: self.field(attribute) for attribute in node.attribute}

    def field(self, attribute: AttributeProto) -> Any:
        """One attribute as a Python value."""
        if attribute.type == attribute.TENSOR:
            tensor = attribute.t
            if id(tensor) not in self.held:
                self.held[id(tensor)] = (tensor, reader.array(tensor, self.path))
            return self.held[id(tensor)][1]
        if attribute.type == attribute.GRAPH:
            return attribute.g
        try:
            return reader.library().helper.get_attribute_value(attribute)
        except ValueError as error:
            raise Refusal("onnx-attribute", f"attribute {attribute.name!r}: {error}") from None

    def called(
        self, function: Any, node: NodeProto, scope: Scope, operands: Sequence[Tensor | None]
    ) -> Sequence[Tensor | None]:
        """The results of an operator that is made of others.

        Raises:
            Refusal: it has operators without counterpart.
        """
        opsets = {reader.DOMAINS.get(e.domain, e.domain): e.version for e in function.opset_import}
        inner = scope.inner(opsets or scope.opsets, sees=False)
        for index, name in enumerate(function.input):
            inner.define(name, operands[index] if index < len(operands) else None)
        inner.absent.update(
            name
            for index, name in enumerate(function.input)
            if index >= len(operands) or operands[index] is None
        )
        before = len(self.rejects)
        wanted = [name for name, used in zip(function.output, node.output, strict=False) if used]
        self.nodes(bound(function, node), inner, wanted)
        self.demand_imported(before, function.name)
        return [inner.find(name) if name in wanted else None for name in function.output]

    def demand_imported(self, before: int, what: str) -> None:
        """Make one refusal of those that came after some.

        Raises:
            Refusal: there are any.
        """
        inside = self.rejects[before:]
        del self.rejects[before:]
        if inside:
            reason = f"inside {what}, {inside[0].where}: {inside[0].what}"
            raise Refusal(inside[0].code, reason, inside[0].hint)

    def reject(self, refusal: Refusal, where: str) -> None:
        """Note a refusal."""
        self.rejects.append(
            Diagnostic(Severity.ERROR, refusal.rule, where, refusal.reason, hint=refusal.hint)
        )


def _remedy(proto: GraphProto) -> str:
    """What to do about a model with operators that cannot be imported; empty if nobody knows."""
    if not chooses_boxes(proto):
        return ""
    return (
        "the model selects boxes itself: use --detections, which leaves that out, or export it "
        "without NonMaxSuppression, as Ultralytics does with nms=False, and of torchvision's "
        "detectors only the backbone and the head, as in docs/detections.md"
    )


def _place(number: int, node: NodeProto) -> str:
    name = next(filter(None, node.output), "no output")
    return f"operator {number} ({node.op_type}, {name!r})"

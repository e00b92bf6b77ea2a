"""From TFLite models to graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from fitzroy.base import budget
from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import FormatError, InternalError, UnsupportedError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.shapes import Shape
from fitzroy.compiler.frontends.tflite.control import chosen, demand_types, spliced, unrolled
from fitzroy.compiler.frontends.tflite.names import named
from fitzroy.compiler.frontends.tflite.operators import Operators, declaration
from fitzroy.compiler.frontends.tflite.shapes import input_shapes, stated_extents
from fitzroy.compiler.frontends.tflite.variables import Variables, same_type
from fitzroy.compiler.frontends.tflite.volumes import convolved_volume
from fitzroy.compiler.ir import NO_ATTRIBUTES, Graph, Node, Origin, Value
from fitzroy.compiler.ops.definition import (
    WIDE_ACTIVATIONS,
    TypeRuleError,
    demand,
)
from fitzroy.compiler.ops.opaque import Opaque, opaque_attributes
from fitzroy.compiler.reference import evaluate
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints


def import_model(
    model: tflite.Model,
    *,
    path: str = "",
    subgraph: int = 0,
    shapes: Mapping[str, Shape] | None = None,
) -> Graph:
    """The graph of one subgraph of a model.

    Variables, which hold state between runs, are taken at their initial value; a remark of the
    graph says so where operators change them. Operators without counterpart become opaque ones,
    whose results have the types that the file says.

    Args:
        model: a model as `tflite.read_model` gives it.
        path: name of the file, for errors and origins.
        subgraph: which of the model's subgraphs.
        shapes: shapes of inputs by name or number, for extents that the file leaves open; None
            takes them as the file has them, as LiteRT does until inputs are resized.

    Raises:
        UnsupportedError: operators exchange tensors of types that graphs do not have; with one
            diagnostic for each. Or an input's extents are open, and no shape is given.
        UsageError: a given shape does not fit.
        FormatError: tensors that do not fit together.
        CapacityError: a variable takes more memory than the budget has.
    """
    subgraphs = model.subgraphs or []
    if not 0 <= subgraph < len(subgraphs):
        raise FormatError(f"subgraph {subgraph} of {len(subgraphs)}", path=path, table="Model")
    importer = _Importer(named(model), path, subgraph)
    if shapes is not None:
        importer.resize(shapes)
    graph = importer.graph()
    graph.remarks += [
        Diagnostic(Severity.WARNING, "stale-metadata", path or graph.name, f"metadata: {text}")
        for text in tflite.stale_metadata(model)
    ]
    graph.remarks += _left_out(model, subgraph, path or graph.name)
    if model.archive is not None:
        # Few models have packed files.
        from fitzroy.formats.labels import labels_of

        found = labels_of(model)
        graph.labels, graph.files = found.labels, dict(model.archive.files)
        graph.remarks += found.remarks(path or graph.name)
    return graph


def _left_out(model: tflite.Model, subgraph: int, where: str) -> list[Diagnostic]:
    """A remark on signatures of other subgraphs than the one that becomes a graph."""
    others = [
        f"{item.signature_key or ''!r}"
        for item in model.signature_defs or ()
        if item.subgraph_index != subgraph
    ]
    if not others:
        return []
    what = f"other subgraphs of the model are left out: signatures {', '.join(others)}"
    hint = "convert each signature to a model of its own to have it, too"
    return [Diagnostic(Severity.WARNING, "other-signatures", where, what, hint=hint)]


class _CallsItself(TypeRuleError):
    """A subgraph that is called by what it calls, which nothing can run."""


def _room(model: tflite.Model) -> int:
    """Most operators of the subgraphs that operators call, each as often as it is called."""
    return 256 + 2 * sum(len(subgraph.operators or ()) for subgraph in model.subgraphs or ())


class _Importer:
    def __init__(
        self, model: tflite.Model, path: str, index: int, caller: _Importer | None = None
    ) -> None:
        self.model, self.path, self.index = model, path, index
        self.callers: tuple[int, ...] = (*(caller.callers if caller else ()), index)
        self.room: list[int] = caller.room if caller else [_room(model)]
        self.variables = Variables()
        assert model.subgraphs is not None
        self.subgraph = model.subgraphs[index]
        self.tensors = self.subgraph.tensors or []
        name = self.subgraph.name or path.rpartition("/")[2] or "main"
        self.result = Graph(name)
        self.names: dict[int, str] = {}
        self.produced: set[int] = set()
        self.foreign: dict[int, str] = {}
        self.operators = Operators(self.result, path)
        self.shapes: dict[int, Shape] = {}
        # Whether shapes of inputs, and with them of results, are others than in the file.
        self.resized = False
        self.rejects: list[Diagnostic] = []
        self.inlined = False

    def graph(self) -> Graph:
        graph = self.result
        operators = self.subgraph.operators or []
        produced = self.produced
        for index in (i for op in operators for i in ints(op.outputs)):
            if index in produced:
                raise self.malformed(index, "is produced by two operators")
            produced.add(index)
        for index in dict.fromkeys(ints(self.subgraph.inputs)):
            if index in produced:
                raise self.malformed(index, "is an input and an operator's result")
            name = self.name(index)
            try:
                type = self.type(index)
            except UnsupportedError as error:
                raise self.foreign_input(index, error) from None
            graph.add_input(name, type.with_shape(self.shape(index)))
        for index, tensor in enumerate(self.tensors):
            if index in self.names:
                continue
            try:
                data = None if index in produced else self.constant(index, tensor)
                type = self.type(index)
            except UnsupportedError as error:
                self.foreign[index] = f"{error.where} has {error.what}"
                continue
            if data is not None:
                graph.add_value(Value(self.name(index), type, data))
            elif index in produced:
                graph.add_value(Value(self.name(index), type.with_shape(self.shape(index))))
        for number, operator in enumerate(operators):
            self.add(number, operator)
        if self.rejects:
            raise UnsupportedError(
                f"{len(self.rejects)} of {len(operators)} operators cannot be imported",
                rejects=self.rejects,
                where=self.path,
            )
        for index in ints(self.subgraph.outputs):
            if index not in self.names:
                raise self.malformed(index, "is an output that nothing produces")
            graph.outputs.append(self.names[index])
        if self.variables.changed:
            names = ", ".join(sorted(name for _, name in self.variables.changed))
            what = f"every inference begins with the first values of the variables {names}"
            hint = "what an inference assigns to them does not last until the next"
            remark = Diagnostic(Severity.WARNING, "initial-state", self.path, what, hint=hint)
            graph.remarks.append(remark)
        if len(self.callers) == 1 and (self.variables.handles or self.inlined):
            # Values that a variable or a branch gave another name have no source of their own.
            graph.prune()
        try:
            graph.nodes()
        except InternalError:
            table = f"SubGraph {self.index}"
            raise FormatError("the operators form a cycle", path=self.path, table=table) from None
        return graph

    def malformed(self, tensor: int, what: str) -> FormatError:
        name = self.tensors[tensor].name
        table = f"SubGraph {self.index}, Tensor {tensor}"
        return FormatError(f"tensor {name!r} {what}", path=self.path, table=table)

    def foreign_input(self, tensor: int, error: UnsupportedError) -> UnsupportedError:
        """The error of an input of a type that graphs do not have; it names what reads it."""
        readers = [
            Diagnostic(Severity.ERROR, "tflite-operator", self.where(number, operator), "reads it")
            for number, operator in enumerate(self.subgraph.operators or ())
            if tensor in ints(operator.inputs)
        ]
        what = f"input {self.tensors[tensor].name!r} has {error.what}"
        return UnsupportedError(what, rejects=readers, where=self.path, hint=error.hint)

    def where(self, number: int, operator: tflite.Operator) -> str:
        """An operator, as errors name it."""
        name = tflite.operator_name(self.model, operator)
        return f"operator {number} ({name}, {self.label(operator)})"

    def name(self, index: int) -> str:
        name = self.tensors[index].name
        assert name, "names of tensors are made complete before"
        self.names[index] = name
        if self.resized or -1 in ints(self.tensors[index].shape_signature):
            self.operators.open.add(self.names[index])
        return self.names[index]

    def resize(self, shapes: Mapping[str, Shape]) -> None:
        """Take shapes of inputs by name or number; of the others, those of the file.

        Raises:
            UnsupportedError: an input's extents are open, and no shape is given.
            UsageError: a given shape does not fit.
        """
        self.shapes = input_shapes(self.subgraph, shapes, self.path)
        self.resized = any(
            ints(self.tensors[index].shape) != shape for index, shape in self.shapes.items()
        )

    def shape(self, index: int) -> Shape:
        """The shape of an input or a result; extents that nothing says yet count 0."""
        if index in self.shapes:
            return self.shapes[index]
        shape = self.type(index).shape
        if not self.resized or index not in self.produced:
            return shape
        return tuple(extent or 0 for extent in stated_extents(self.tensors[index]))

    def type(self, index: int) -> TensorType:
        type = tflite.type_of(self.tensors[index], self.path)
        quantization = type.quantization
        # Only 8-, 16- and 32-bit integers stand for real numbers; floats keep stray parameters.
        if quantization is not None and not type.dtype.is_integer:
            return replace(type, quantization=None)
        return type

    def constant(self, index: int, tensor: tflite.Tensor) -> Array | None:
        data = tflite.constant(self.model, tensor, self.path)
        if data is not None:
            return data.astype(data.dtype.newbyteorder("="), copy=False)
        type = self.type(index)
        if tensor.is_variable:
            # A file gives only its shape.
            budget.demand(type.nbytes, f"variable {tensor.name!r}", where=self.path)
            zero = 0 if type.quantization is None else type.quantization.zero_point[0]
            return np.full(type.shape, zero, type.dtype.numpy)
        return np.empty(type.shape, type.dtype.numpy) if type.size == 0 else None

    def add(self, number: int, operator: tflite.Operator) -> None:
        """What an operator stands for in the graph: an opaque node if there is nothing else."""
        name = tflite.operator_name(self.model, operator)
        self.operators.added = []
        try:
            if name in STRUCTURAL:
                STRUCTURAL[name](self, operator)
            else:
                self.node(number, operator, name)
        except (TypeRuleError, UnsupportedError) as error:
            hint = self.hint(operator) if isinstance(error, TypeRuleError) else error.hint
            what = str(error) if isinstance(error, TypeRuleError) else error.what
            kept = not self.resized and not isinstance(error, _CallsItself)
            if kept and self.is_separate(operator):
                self.leave(number, operator, what, hint)
                return
            where = self.where(number, operator)
            self.rejects.append(
                Diagnostic(Severity.ERROR, "tflite-operator", where, what, hint=hint)
            )

    def is_separate(self, operator: tflite.Operator) -> bool:
        """Whether all that an operator computes, or that others compute for it, is in the graph."""
        made, read = {*ints(operator.outputs)}, {*ints(operator.inputs)}
        return bool(made) and not self.foreign.keys() & (made | (read & self.produced))

    def leave(self, number: int, operator: tflite.Operator, reason: str, hint: str) -> None:
        """Add an opaque node for an operator, in place of what has been added for it."""
        made, read = ints(operator.outputs), ints(operator.inputs)
        code = (self.model.operator_codes or [])[operator.opcode_index]
        name = tflite.code_name(code)
        self.operators.undo()
        whole = not self.foreign.keys() & {*read}
        attributes = opaque_attributes(operator, code, name, reason, whole=whole)
        outputs = tuple(self.names[index] for index in made)
        inputs = tuple(self.names.get(index) for index in read)
        for index, value in zip(made, outputs, strict=True):
            self.result.set_value(Value(value, self.type(index)))
        origin = Origin(self.path, self.index, number, name)
        attributes = replace(attributes, hint=hint)
        self.result.add_node(Node(outputs[0], Opaque.name, inputs, outputs, attributes, origin))

    def hint(self, operator: tflite.Operator) -> str:
        """What to do about an operator whose types do not fit."""
        for index in (*ints(operator.inputs), *ints(operator.outputs)):
            tensor = self.tensors[index] if index >= 0 else tflite.Tensor()
            if index in self.foreign and tensor.type in tflite.TYPE_HINTS:
                return tflite.TYPE_HINTS[tensor.type]
            if tensor.type == tflite.TensorType.INT16 and tensor.quantization is not None:
                return WIDE_ACTIVATIONS
        return ""

    # --- variables and subgraphs -----------------------------------------------------------------

    def operands(self, operator: tflite.Operator, count: int, results: int) -> tuple[int, ...]:
        """Tensors that an operator reads and writes, as many as it has to have."""
        inputs, outputs = ints(operator.inputs), ints(operator.outputs)
        if (len(inputs), len(outputs)) != (count, results) or min((*inputs, *outputs)) < 0:
            raise TypeRuleError(f"{len(inputs)} operands and {len(outputs)} results")
        return (*inputs, *outputs)

    def var_handle(self, operator: tflite.Operator) -> None:
        (handle,) = self.operands(operator, 0, 1)
        options = operator.builtin_options
        if not isinstance(options, tflite.VarHandleOptions):
            raise TypeRuleError("the operator has no options")
        key = (options.container or "", options.shared_name or "")
        self.variables.handles[handle] = key

    def read_variable(self, operator: tflite.Operator) -> None:
        handle, result = self.operands(operator, 1, 1)
        key = self.variables.of(handle)
        held = self.variables.value(key)
        same_type(key[1], self.result.type(held), self.type(result))
        self.names[result] = held

    def assign_variable(self, operator: tflite.Operator) -> None:
        inputs = ints(operator.inputs)
        if len(inputs) != 2 or inputs[1] not in self.names:
            raise TypeRuleError("no handle and no value to assign")
        key = self.variables.of(inputs[0])
        self.variables.held[key] = self.names[inputs[1]]
        self.variables.changed.add(key)

    def call_once(self, operator: tflite.Operator) -> None:
        options = operator.builtin_options
        if not isinstance(options, tflite.CallOnceOptions):
            raise TypeRuleError("the operator has no options")
        inner = self.inner(options.init_subgraph_index)
        graph = inner.graph()
        if graph.inputs:
            raise TypeRuleError("the subgraph that runs once has inputs")
        for key, name in inner.variables.held.items():
            (data,) = evaluate(graph.cut([name]), {}).values()
            quantization = graph.type(name).quantization
            self.variables.held[key] = self.result.add_constant(key[1], data, quantization)

    def inner(self, index: int) -> _Importer:
        """What imports a subgraph that an operator calls.

        Raises:
            TypeRuleError: it is being imported already, or too much is.
        """
        if index in self.callers:
            raise _CallsItself(f"subgraph {index} calls itself")
        subgraph = (self.model.subgraphs or [])[index]
        # Branches in branches may stand for far more operators than the file has.
        self.room[0] -= 1 + len(subgraph.operators or ())
        if self.room[0] < 0:
            most = _room(self.model)
            raise TypeRuleError(f"subgraphs that call others come to over {most} operators")
        return _Importer(self.model, self.path, index, self)

    def called(self, index: int) -> Graph:
        """The graph of a subgraph that an operator calls.

        Raises:
            TypeRuleError: it assigns to variables, which would have to last beyond it.
        """
        inner = self.inner(index)
        graph = inner.graph()
        if inner.variables.changed:
            raise TypeRuleError(f"subgraph {index} assigns to variables")
        return graph

    def if_(self, operator: tflite.Operator) -> None:
        """Put the branch that a constant condition takes into the graph, or both."""
        options, inputs = operator.builtin_options, ints(operator.inputs)
        if not isinstance(options, tflite.IfOptions) or not inputs:
            raise TypeRuleError("the operator has no options, or no condition")
        demand(all(index in self.names for index in inputs), "an operand is absent")
        # Also if it stays an operator: nodes of a branch that does not fit are left over.
        self.inlined = True
        condition, *given = (self.names[index] for index in inputs)
        data = self.result.value(condition).data
        indices = (options.then_subgraph_index, options.else_subgraph_index)
        results = ints(operator.outputs)
        if data is not None and data.size == 1:
            graph = self.called(indices[0] if data.item() else indices[1])
            demand_types(self.result, given, graph, graph.inputs)
            demand(len(results) == len(graph.outputs), "a branch has other results")
            names = spliced(self.result, graph, given)
        else:
            first, second = map(self.called, indices)
            counts = {len(results), len(first.outputs), len(second.outputs)}
            demand(len(counts) == 1, "the branches have other results")
            names = chosen(self.result, condition, (first, second), given)
        self.names.update(zip(results, names, strict=True))

    def while_(self, operator: tflite.Operator) -> None:
        """Put the body of a loop into the graph as often as it runs, if constants say that."""
        options, inputs = operator.builtin_options, ints(operator.inputs)
        if not isinstance(options, tflite.WhileOptions) or not inputs:
            raise TypeRuleError("the operator has no options, or no operands")
        demand(all(index in self.names for index in inputs), "an operand is absent")
        test, body = map(self.called, (options.cond_subgraph_index, options.body_subgraph_index))
        values = [self.result.value(self.names[index]) for index in inputs]
        graph, results = unrolled(test, body, values), ints(operator.outputs)
        demand(len(results) == len(graph.outputs), "the loop has other results")
        given = [value.name for value in values if value.data is None]
        names = spliced(self.result, graph, given)
        self.names.update(zip(results, names, strict=True))
        self.inlined = True

    def conv_3d(self, operator: tflite.Operator) -> None:
        """Put convolutions of the layers of a volume into the graph."""
        inputs, outputs = ints(operator.inputs), ints(operator.outputs)
        demand(all(index in self.names for index in inputs if index >= 0), "an operand is absent")
        names = [None if index < 0 else self.names[index] for index in inputs]
        demand(len(names) in (2, 3) and len(outputs) == 1, "no volume, or no filter")
        before = {node.name for node in self.result.nodes()}
        name = convolved_volume(self.result, names, operator.builtin_options)
        nodes = self.result.nodes()
        self.operators.added = [node.name for node in nodes if node.name not in before]
        same_type("the result", self.result.type(name), self.type(outputs[0]))
        self.names[outputs[0]] = name
        self.inlined = True

    # --- operators -------------------------------------------------------------------------------

    def label(self, operator: tflite.Operator) -> str:
        outputs = ints(operator.outputs)
        return repr(self.tensors[outputs[0]].name) if outputs else "no output"

    def node(self, number: int, operator: tflite.Operator, name: str) -> None:
        """Add the nodes of the declared operator for one of TFLite.

        Raises:
            TypeRuleError: there is none, or its operands or options are beyond it.
        """
        made, read = ints(operator.outputs), ints(operator.inputs)
        demand(bool(made), "the operator has no output")
        for index in (*made, *read):
            side = "result" if index in made else "operand"
            demand(index not in self.foreign, f"its {side} {self.foreign.get(index)}")
            if index >= 0 and index not in self.names:
                raise self.malformed(index, f"is read by operator {number} but nothing produces it")
        inputs = tuple(None if i < 0 else self.names[i] for i in read)
        outputs = tuple(self.names[i] for i in made)
        origin = Origin(self.path, self.index, number, name)
        node = Node(outputs[0], Opaque.name, inputs, outputs, NO_ATTRIBUTES, origin)
        code = (self.model.operator_codes or [])[operator.opcode_index]
        known, options = declaration(operator, code, name)
        if tflite.is_custom(code):
            # Files leave the types of custom operators' results open.
            self.operators.open.update(outputs)
        self.operators.place(node, name, known, options)


STRUCTURAL: dict[str, Callable[[_Importer, tflite.Operator], None]] = {
    "ASSIGN_VARIABLE": _Importer.assign_variable,
    "CALL_ONCE": _Importer.call_once,
    "CONV_3D": _Importer.conv_3d,
    "IF": _Importer.if_,
    "READ_VARIABLE": _Importer.read_variable,
    "VAR_HANDLE": _Importer.var_handle,
    "WHILE": _Importer.while_,
}
"""Builtin operators that say how a graph is made, and that it does not have itself."""


def is_faithful(model: tflite.Model, graph: Graph) -> bool:
    """Whether nodes of a graph can take the place of operators of the model's main subgraph.

    They cannot where variables and branches have become something else, or inputs have other
    shapes than in the model.
    """
    assert model.subgraphs is not None
    main = model.subgraphs[0]
    given = dict.fromkeys(ints(main.inputs))
    for name, index in zip(graph.inputs, given, strict=True):
        if graph.type(name).shape != ints((main.tensors or [])[index].shape):
            return False
    kept = {node.origin.index for node in graph.nodes() if node.origin is not None}
    return all(
        number in kept or tflite.operator_name(model, operator) not in STRUCTURAL
        for number, operator in enumerate(main.operators or ())
    ) and not any(node.origin is not None and node.origin.subgraph for node in graph.nodes())

"""Other weights for a compiled model: those of its source after it was trained again.

A compiled package stays as it is, except for the bytes of the weights with their scales, biases
and zero points, and for the one scale and zero point that instructions hold if weights have no
scale per channel. Everything else that instructions depend on must be as it was: structure,
activations that no convolution rescales, clamps, and the vectors that operators keep in memory.

The layout of the weights comes from the source before training, found in the blobs by its content,
or without it from the order and sizes of the operands and from the loops of the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitzroy.base.diagnostics import Diagnostic, Severity
from fitzroy.base.errors import LinkError, UnsupportedError
from fitzroy.compiler.frontends.tflite import import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.parameters.operands import mapped_nodes
from fitzroy.compiler.targets.edgetpu.patching.alone import changes_alone
from fitzroy.compiler.targets.edgetpu.patching.changes import (
    ORIGINAL,
    RECOMPILE,
    Changes,
    Task,
    changes_from,
)
from fitzroy.compiler.targets.edgetpu.patching.matching import (
    ADJUSTABLE,
    differences,
    sites,
    tensor_operations,
)
from fitzroy.compiler.targets.edgetpu.patching.structure import FREEZE, check_layers, correspondence
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile, caching_token, write_package
from fitzroy.formats.flat import ints
from fitzroy.hw_models.parameters import Layout

# --- reports -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatchedOperand:
    """What became of the weights of one operator.

    Attributes:
        operator: the operator, and the gate of a recurrent one.
        executable: number of the executable whose parameters hold them.
        offset: byte offset in those parameters.
        nbytes: size in bytes.
        changed: how many bytes differ.
        layout: how they lie there; None if only the lowering of the operator knows.
        instructions: instructions whose constants were changed.
        constants: what these hold instead: name, earlier and present value.
    """

    operator: str
    executable: int
    offset: int
    nbytes: int
    changed: int
    layout: Layout | None
    instructions: int = 0
    constants: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PatchReport:
    """What became of a package.

    Attributes:
        operands: the operands in the order of operators.
        token: caching tokens before and after.
        checked: operators whose constants in the program were compared.
        diagnostics: what could not be compared, and what changes for the runtime.
    """

    operands: tuple[PatchedOperand, ...]
    token: tuple[int, int]
    checked: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def changed(self) -> int:
        """Bytes of parameters that differ."""
        return sum(operand.changed for operand in self.operands)

    @property
    def instructions(self) -> int:
        """Instructions whose constants were changed."""
        return sum(operand.instructions for operand in self.operands)


@dataclass(frozen=True, slots=True)
class ModelReport:
    """What became of a model.

    Attributes:
        packages: one report for each package, in order of the operators.
        constants: names of constants of other operators that were replaced.
        diagnostics: what changes for the runtime.
    """

    packages: tuple[PatchReport, ...]
    constants: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the model differs from what it was."""
        packages = any(report.changed or report.instructions for report in self.packages)
        return packages or bool(self.constants)


Patched = tuple[PackageFile, PatchReport]
"""A package with other weights and its earlier token, and what became of it."""


# --- packages ------------------------------------------------------------------------------------


def patch_weights(
    package: PackageFile, retrained: Graph, original: Graph | None = None
) -> tuple[PackageFile, PatchReport]:
    """A package with the weights of its source after training.

    Args:
        package: the compiled package; it is not changed.
        retrained: the whole source after training, as the TFLite frontend gives it.
        original: the source from which the package was compiled. Without it, weights are found by
            order and sizes, which must be unambiguous, and fewer activations can be compared.

    Raises:
        LinkError: the sources and the package do not belong together, or there are several ways to
            take them.
        UnsupportedError: with one diagnostic per operator that needs another program.
    """
    patched, report = _patch(package, retrained, original)
    return _with_token([(patched, report)])[0]


def _patch(
    package: PackageFile, retrained: Graph, original: Graph | None
) -> tuple[PackageFile, PatchReport]:
    """A package with other weights and its earlier token."""
    main = package.main
    names = None if original is None else correspondence(original, retrained)
    source = retrained if original is None else original
    nodes = mapped_nodes(source, main.inputs, main.outputs)
    pairs = nodes if names is None else [retrained.node(names.nodes[n.name]) for n in nodes]
    check_layers(main, retrained, None if names is None else names.values)
    found = tensor_operations(main)
    task = Task(package, retrained, pairs, found, sites(found))
    changes = changes_alone(task) if original is None else changes_from(task, original, nodes)
    if changes.rejects:
        raise UnsupportedError(
            f"{len(changes.rejects)} operators need another program",
            rejects=changes.rejects,
            where=package.path,
        )
    return _spliced(task, changes)


# --- carrying it out -----------------------------------------------------------------------------


def _spliced(task: Task, changes: Changes) -> tuple[PackageFile, PatchReport]:
    """The package with the planned bytes and constants."""
    blobs = [blob.copy() for blob in task.blobs]
    main, package = task.package.main, task.package
    chunks = [
        bytearray() if stream.bitstream is None else bytearray(stream.bitstream.tobytes())
        for stream in main.instruction_bitstreams or ()
    ]
    constants, counts = _rewrite(task, changes, chunks)
    patched = []
    for location, layout in changes.parts:
        data = location.operand.pack(layout)
        held = blobs[location.blob][location.offset : location.end]
        name = location.operand.node.name
        patched.append(
            PatchedOperand(
                location.operand.name, location.blob, location.offset, data.size,
                int((held != data).sum()), layout, counts.get(name, 0), constants.get(name, ()),
            )
        )  # fmt: skip
        held[:] = data
    streams = [
        dataclasses.replace(stream, bitstream=np.frombuffer(bytes(chunk), np.uint8))
        for stream, chunk in zip(main.instruction_bitstreams or (), chunks, strict=True)
    ]
    executables = []
    for executable, blob in zip(package.executables, blobs, strict=True):
        copy = dataclasses.replace(executable)
        if executable.parameters is not None:
            copy.parameters = blob
        if executable is main and counts:
            copy.instruction_bitstreams = streams
        executables.append(copy)
    token = main.parameter_caching_token
    report = PatchReport(
        tuple(patched), (token, token), tuple(changes.checked), tuple(changes.notes)
    )
    return dataclasses.replace(package, executables=executables, offsets=()), report


_Constants = tuple[tuple[str, float, float], ...]


def _rewrite(
    task: Task, changes: Changes, chunks: Sequence[bytearray]
) -> tuple[dict[str, _Constants], dict[str, int]]:
    """Write the adjustable constants of instructions.

    Returns:
        What was changed for each operator, and in how many instructions.
    """
    constants: dict[str, _Constants] = {}
    counts: dict[str, int] = {}
    for name, (stage, number) in changes.stages.items():
        site = task.sites[number]
        names = [n for n in differences(stage, site.first) if n in ADJUSTABLE]
        if not names:
            continue
        values = {n: getattr(stage, n) for n in names}
        constants[name] = tuple((n, getattr(site.first, n), values[n]) for n in names)
        counts[name] = len(site.operations)
        for position, operation in site.operations.items():
            raw = dataclasses.replace(operation, **values).pack()
            size = operation.width // 8
            at = slice(position.offset, position.offset + size)
            chunks[position.chunk][at] = raw.to_bytes(size, "little")
    return constants, counts


# --- tokens --------------------------------------------------------------------------------------


def _with_token(results: Sequence[Patched]) -> list[Patched]:
    """Packages with other tokens where parameters have changed.

    Runtimes take parameters with a known token for cached. Packages that share a token still do.
    """
    groups: dict[int, list[Patched]] = {}
    for package, report in results:
        groups.setdefault(report.token[0], []).append((package, report))
    tokens = {
        token: caching_token(
            item.parameters
            for package, _ in group
            for item in package.executables
            if item.parameters is not None
        )
        for token, group in groups.items()
        if token and any(report.changed for _, report in group)
    }
    return [_tokened(*result, tokens.get(result[1].token[0])) for result in results]


def _tokened(package: PackageFile, report: PatchReport, token: int | None) -> Patched:
    if token is None:
        return package, report
    note = Diagnostic(
        Severity.NOTE,
        "edgetpu-patch-token",
        package.path or "package",
        f"the parameters have the token {token:#018x} in place of {report.token[0]:#018x}",
        reason="models of other files that were compiled together with it no longer share the "
        "chip's memory with it: the runtime loads parameters whenever it changes between them",
    )
    executables = [
        dataclasses.replace(item, parameter_caching_token=token) for item in package.executables
    ]
    return (
        dataclasses.replace(package, executables=executables),
        dataclasses.replace(
            report, token=(report.token[0], token), diagnostics=(*report.diagnostics, note)
        ),
    )


# --- models --------------------------------------------------------------------------------------


def patch_model(
    model: tflite.Model,
    retrained: tflite.Model,
    original: tflite.Model | None = None,
    *,
    path: str = "",
    retrained_path: str = "",
    original_path: str = "",
) -> tuple[tflite.Model, ModelReport]:
    """A compiled model with the weights of its source after training.

    Constants of operators that compilers left on the CPU are replaced too, by their names.

    Args:
        model: the compiled model; it is not changed.
        retrained: the source after training.
        original: the source from which the model was compiled; see `patch_weights`.
        path: name of the compiled model's file, for errors.
        retrained_path: name of the retrained source's file.
        original_path: name of the original source's file.

    Raises:
        LinkError: the model has no package, or sources and model do not belong together.
        UnsupportedError: with one diagnostic per operator that needs another program.
        FormatError: malformed files.
    """
    found = custom_op.extract(model, path)
    if not found:
        raise LinkError(
            "the model has no package", where=path, hint="give a model compiled for the Edge TPU"
        )
    results = []
    for op in found:
        after = import_model(retrained, path=retrained_path, subgraph=op.subgraph)
        before = (
            None
            if original is None
            else import_model(original, path=original_path, subgraph=op.subgraph)
        )
        results.append(_patch(op.read(), after, before))
    return with_packages(model, results, retrained, original, path)


def with_packages(
    model: tflite.Model,
    results: Sequence[Patched],
    retrained: tflite.Model,
    original: tflite.Model | None = None,
    path: str = "",
) -> tuple[tflite.Model, ModelReport]:
    """A compiled model with patched packages, and the constants of its other operators.

    Args:
        model: the compiled model; it is not changed.
        results: its packages with other weights, in order, each with what became of it.
        retrained: the source after training.
        original: the source from which the model was compiled, if its tensors have other names.
        path: name of the compiled model's file, for errors.

    Raises:
        LinkError: a constant of the model has no counterpart in the retrained source.
    """
    patched, constants = _cpu_constants(model, retrained, original, path)
    results = _with_token(results)
    for index, (package, _) in enumerate(results):
        patched = custom_op.replace(patched, index, write_package(package))
    reports = tuple(report for _, report in results)
    notes = {note: None for report in reports for note in report.diagnostics}
    return patched, ModelReport(reports, constants, tuple(notes))


def _cpu_constants(
    model: tflite.Model, retrained: tflite.Model, original: tflite.Model | None, path: str
) -> tuple[tflite.Model, tuple[str, ...]]:
    """Replace constants of operators on the CPU, and check what these compute.

    Raises:
        LinkError: a tensor is absent from the retrained source or has another type there.
    """
    buffers = list(model.buffers or ())
    written: dict[int, tuple[str, bytes]] = {}
    names, subgraphs = [], []
    for number, subgraph in enumerate(model.subgraphs or ()):
        sources = _tensors(retrained, number, original)
        used = {i for operator in subgraph.operators or () for i in ints(operator.inputs)}
        tensors = list(subgraph.tensors or ())
        for index, tensor in enumerate(tensors):
            held = tflite.constant(model, tensor, path) if index in used else None
            name, source = tensor.name or "", sources.get(tensor.name or "")
            if source is None:
                if held is not None:
                    raise LinkError(
                        f"the constant {name!r} is not in the retrained source",
                        where=path,
                        hint=ORIGINAL if original is None else RECOMPILE,
                    )
                continue
            data = None if held is None else tflite.constant(retrained, source)
            _check_tensor(tensor, source, held is None or data is None, path)
            if held is None or data is None:
                continue
            content = data.tobytes()
            other = written.setdefault(tensor.buffer, (name, content))
            if other[1] != content:
                raise LinkError(
                    f"{other[0]!r} and {name!r} share their data, which now differs",
                    where=path,
                    hint=RECOMPILE,
                )
            if content != held.tobytes():
                buffers[tensor.buffer] = tflite.Buffer(data=np.frombuffer(content, np.uint8))
                names.append(name)
            tensors[index] = dataclasses.replace(tensor, quantization=source.quantization)
        subgraphs.append(dataclasses.replace(subgraph, tensors=tensors))
    return dataclasses.replace(model, buffers=buffers, subgraphs=subgraphs), tuple(names)


def _check_tensor(tensor: tflite.Tensor, source: tflite.Tensor, computed: bool, path: str) -> None:
    """Check that a tensor of the compiled model fits that of the source.

    Kernels read the quantization of constants from the model, so that it may change.
    """
    before, after = tflite.type_of(tensor, path), tflite.type_of(source)
    if not computed:
        before, after = (dataclasses.replace(t, quantization=None) for t in (before, after))
    if before != after:
        raise LinkError(
            f"the tensor {tensor.name!r} is {after} in the retrained source",
            reason=f"{before} in the compiled model",
            where=path,
            hint=FREEZE,
        )


def _tensors(
    retrained: tflite.Model, subgraph: int, original: tflite.Model | None
) -> dict[str, tflite.Tensor]:
    """Tensors of the retrained source by the names that they have in the original one."""
    new = _of_subgraph(retrained, subgraph)
    by_name = {tensor.name or "": tensor for tensor in new}
    if original is None:
        return by_name
    # The graphs correspond operator by operator, whatever the names.
    for x, y in _operands(original, subgraph, retrained):
        by_name[x] = y
    return by_name


def _operands(
    original: tflite.Model, subgraph: int, retrained: tflite.Model
) -> Iterator[tuple[str, tflite.Tensor]]:
    """Names of the original's tensors with the tensors of the retrained source.

    Raises:
        LinkError: they have different numbers of operators.
    """
    old, new = _of_subgraph(original, subgraph), _of_subgraph(retrained, subgraph)
    pairs = (
        (original.subgraphs or [])[subgraph].operators or (),
        (retrained.subgraphs or [])[subgraph].operators or (),
    )
    if len(pairs[0]) != len(pairs[1]):
        raise LinkError(
            f"the retrained source has {len(pairs[1])} operators, the original one {len(pairs[0])}",
            hint=RECOMPILE,
        )
    for a, b in zip(*pairs, strict=True):
        # Operands that may be absent come last.
        for before, after in ((a.inputs, b.inputs), (a.outputs, b.outputs)):
            for x, y in zip(ints(before), ints(after), strict=False):
                if x >= 0 and y >= 0:
                    yield old[x].name or "", new[y]


def _of_subgraph(model: tflite.Model, number: int) -> Sequence[tflite.Tensor]:
    subgraphs = model.subgraphs or []
    return subgraphs[number].tensors or () if number < len(subgraphs) else ()

"""Files that hold Edge TPU programs: compiled TFLite models, bare packages, bare executables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from fitzroy.base.errors import UsageError
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.formats.compilation_record import (
    CompilationRecord,
    PackageRecord,
    Step,
    attached,
    read_record,
)
from fitzroy.formats.darwinn import Package, PackageFile
from fitzroy.formats.detect import FileKind, detect
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES


@dataclass(frozen=True)
class Container:
    """A file and the packages in it.

    Attributes:
        kind: what the file is.
        data: its bytes.
        packages: in order of the operators that carry them.
        path: name of the file, for errors.
        model: the TFLite model, if it is one.
        record: what the compiler knew of the packages, if the model has it.
    """

    kind: FileKind
    data: bytes
    packages: tuple[PackageFile, ...]
    path: str = ""
    model: tflite.Model | None = field(default=None, repr=False)
    record: CompilationRecord | None = field(default=None, repr=False)

    def steps(self, number: int) -> tuple[Step, ...]:
        """Where the steps of the source's layers begin in a package; nothing if that is not known.

        A record of another program, which somebody has changed since, says nothing.
        """
        entry = _entry(self.record, number, self.packages)
        return () if entry is None else entry.steps

    def replaced(self, packages: Sequence[PackageFile]) -> bytes:
        """The file with other packages; the same bytes if they are equal.

        Raises:
            FormatError: a package that no runtime would load.
        """
        changed = [
            index
            for index, (old, new) in enumerate(zip(self.packages, packages, strict=True))
            if new is not old and darwinn.diff(old, new)
        ]
        if not changed:
            return self.data
        if self.kind is FileKind.EXECUTABLE:
            return darwinn.write_executable(packages[0].main)
        if self.model is None:
            return darwinn.write_package(packages[0])
        model = self.model
        for index in changed:
            model = custom_op.replace(model, index, darwinn.write_package(packages[index]))
        return tflite.write_model(self._recorded(model, packages))

    def _recorded(self, model: tflite.Model, packages: Sequence[PackageFile]) -> tflite.Model:
        """The model with its compilation record, of programs that may have more chunks in front."""
        record = self.record
        if record is None or len(record.packages) != len(packages):
            return model
        entries = []
        for item, old, new in zip(record.packages, self.packages, packages, strict=True):
            before, after = chunk_bundles(old), chunk_bundles(new)
            added = len(after) - len(before)
            known = added > 0 and before == item.bundles == after[added:]
            entries.append(item.after(after[:added]) if known else item)
        return attached(model, dataclasses.replace(record, packages=tuple(entries)))


def read_container(data: bytes, path: str = "") -> Container:
    """Read a file and all packages in it.

    Raises:
        FormatError: no known format, or malformed.
        UsageError: the file holds no Edge TPU program.
        UnsupportedError: a package for a later runtime, or for several chips.
    """
    kind = detect(data, path)
    if kind is FileKind.DARWINN:
        return Container(kind, data, (darwinn.read_package(data, path),), path)
    if kind is FileKind.EXECUTABLE:
        executable = darwinn.read_executable(data, path)
        package = PackageFile(package=Package(), executables=[executable], path=path)
        return Container(kind, data, (package,), path)
    if kind is not FileKind.TFLITE:
        raise UsageError(
            f"an Edge TPU program is wanted, this is {kind.value}",
            where=path,
            hint="give a compiled model (*_edgetpu.tflite) or a DarwiNN package",
        )
    model = tflite.read_model(data, path=path)
    operators = custom_op.extract(model, path, data)
    if not operators:
        raise UsageError(
            "the model has no Edge TPU operator",
            where=path,
            hint="give a compiled model (*_edgetpu.tflite)",
        )
    packages = tuple(item.read() for item in operators)
    record = read_record(model, path)
    for number, item in enumerate(packages):
        entry = _entry(record, number, packages)
        item.source = () if entry is None else entry.source
    return Container(kind, data, packages, path, model, record)


def _entry(
    record: CompilationRecord | None, number: int, packages: Sequence[PackageFile]
) -> PackageRecord | None:
    """What a record says of a package; None if it says nothing, or is of another program."""
    if record is None or number >= min(len(record.packages), len(packages)):
        return None
    entry = record.packages[number]
    return entry if entry.bundles == chunk_bundles(packages[number]) else None


def chunk_bundles(package: PackageFile) -> tuple[int, ...]:
    """Bundles of every chunk of a package's main program, START and END included."""
    return tuple(
        0 if stream.bitstream is None else len(stream.bitstream) // BUNDLE_BYTES
        for stream in package.main.instruction_bitstreams or ()
    )


def wrapped(package: PackageFile, name: str = "main") -> tflite.Model:
    """A model whose only operator runs a package; its tensors are the package's layers.

    Raises:
        FormatError: a package that no runtime would load, or a layer that no tensor can be.
    """
    main = package.main
    return custom_op.wrap(
        darwinn.write_package(package),
        {name: custom_op.layer_type(layer) for name, layer in main.inputs.items()},
        {name: custom_op.layer_type(layer) for name, layer in main.outputs.items()},
        name=name,
    )

"""Packages with edited instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fitzroy.base.errors import LinkError
from fitzroy.formats.darwinn import Executable, ExecutableType, InstructionBitstream, PackageFile
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.edgetpu.scalar import STEP_BUDGET
from fitzroy.hw_models.isa.program import assemble
from fitzroy.hw_models.isa.text import Chunk
from fitzroy.linker.objects.assembly import Program, executable_chunks
from fitzroy.linker.objects.symbols import field_of, parse_reference
from fitzroy.linker.resolve.fields import bitstream
from fitzroy.linker.schedule.derive import derive_executable
from fitzroy.linker.schedule.hints import to_hints


def with_programs(
    packages: Sequence[PackageFile],
    programs: Sequence[Program],
    *,
    budget: int = STEP_BUDGET,
) -> list[PackageFile]:
    """Packages with the instructions of a listing; executables that it leaves out stay.

    The host's script is derived anew for instructions that changed.

    Args:
        packages: the packages.
        programs: what the listing says.
        budget: most steps of the scalar core to execute for a program's script.

    Raises:
        LinkError: the listing has other packages or executables, or changed instructions that
            make no program.
        FormatError: a symbol that cannot be left to the driver.
    """
    result = list(packages)
    for program in programs:
        name = program.type.name.lower()
        if not 0 <= program.package < len(result):
            raise LinkError(
                f"the listing has package {program.package}",
                reason=f"the model has {len(result)}",
                hint="give the listing of the same model",
            )
        file = result[program.package]
        numbers = [n for n, item in enumerate(file.executables) if item.type == program.type]
        if not numbers:
            kinds = ", ".join(ExecutableType(e.type).name.lower() for e in file.executables)
            raise LinkError(
                f"the listing has an executable {name} of package {program.package}",
                reason=f"the package has {kinds}",
            )
        executable = file.executables[numbers[0]]
        edited = _edited(executable, program.chunks, file.path, budget)
        if edited is not executable:
            executables = list(file.executables)
            executables[numbers[0]] = edited
            result[program.package] = replace(file, executables=executables)
    return result


def _edited(executable: Executable, chunks: Sequence[Chunk], path: str, budget: int) -> Executable:
    """The executable with other instructions; itself if they are the same."""
    old = executable_chunks(executable, path)
    same = len(old) == len(chunks) and all(
        one.symbols == other.symbols and assemble(one.instructions) == assemble(other.instructions)
        for one, other in zip(old, chunks, strict=True)
    )
    if same:
        return executable
    layers = {
        SymbolKind.INPUT: executable.inputs,
        SymbolKind.OUTPUT: executable.outputs,
    }
    for number, chunk in enumerate(chunks):
        for bit, expression in chunk.symbols.items():
            reference = parse_reference(expression)
            known = layers.get(reference.kind)
            if known is not None and reference.name not in known:
                kind = reference.kind.name.lower()
                raise LinkError(
                    f"there is no {kind} {reference.name!r}",
                    reason=f"the executable has {', '.join(map(repr, known)) or 'none'}",
                    where=f"line {chunk.lines.get(bit, 0)} of the listing, chunk {number}",
                )
    result = replace(executable, instruction_bitstreams=[_bitstream(chunk) for chunk in chunks])
    return replace(result, dma_hints=to_hints(derive_executable(result, budget=budget)))


def _bitstream(chunk: Chunk) -> InstructionBitstream:
    """A chunk with its symbols as field offsets.

    Raises:
        FormatError: a symbol that cannot be left to the driver.
    """
    fields = [
        field_of(parse_reference(expression), bit)
        for bit, expression in sorted(chunk.symbols.items())
    ]
    return bitstream(chunk.instructions, fields)

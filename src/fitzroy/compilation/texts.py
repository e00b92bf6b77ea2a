"""The forms that a model took on its way to the Edge TPU, as files of text."""

from __future__ import annotations

from collections.abc import Iterator

from fitzroy.compilation.edgetpu import EdgeTpuCompilation, MappedSegment, form
from fitzroy.compiler.ir import print_graph
from fitzroy.compiler.targets.edgetpu.partition.parts import Parts
from fitzroy.compiler.targets.edgetpu.program.emitted import Emitted
from fitzroy.compiler.targets.edgetpu.program.stages import text
from fitzroy.hw_models.isa.program import positions
from fitzroy.linker.objects.assembly import executable_chunks, package_listing
from fitzroy.linker.schedule.derive import derive_executable


def forms(result: EdgeTpuCompilation) -> dict[str, str]:
    """All forms that a model took on its way, as files: their names and texts.

    Every form is verified.

    Raises:
        InternalError: a form breaks its rules.
    """
    parts = Parts.of(result.placements)
    parts.check()
    files = {
        "0-graph.ir": print_graph(result.graph, data=False),
        "1-parts.txt": text(parts.lines()),
    }
    for number, part in enumerate(result.segments):
        for stage, item in enumerate(part.forms, 2):
            item.check()
            files[f"part-{number}-{stage}-{item.stage}.txt"] = text(item.lines())
        last = 2 + len(part.forms)
        files[f"part-{number}-{last}-program.s"] = text(_program(part, number))
        script = derive_executable(part.package.main)
        files[f"part-{number}-{last + 1}-script.txt"] = text(map(str, script.steps))
    return files


def _program(part: MappedSegment, number: int) -> Iterator[str]:
    """The package as assembly text, in which comments say where steps begin."""
    marks = {(mark.chunk, mark.bundle + 1): mark.name for mark in form(part, Emitted).marks}
    places = iter(
        [
            (index, bundle) if executable is part.package.main else None
            for executable in part.package.executables
            for index, chunk in enumerate(executable_chunks(executable))
            # START and END follow from the rest and have no lines.
            for bundle, _ in [*positions(chunk.instructions)][1:-1]
        ]
    )
    for line in package_listing([(number, part.package)]):
        # Instructions stand four columns in, what belongs to them further.
        if line.startswith("    ") and line[4:5].strip():
            place = next(places)
            if place in marks:
                yield ""
                yield f"; {marks[place]}"
        yield line

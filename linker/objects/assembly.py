"""Assembly text of packages: one listing of all programs, and back.

Directives: ``.chip`` names the chip, ``.package`` begins the package of the n-th Edge TPU
operator of a model, ``.executable`` one of its executables by type, ``.chunk`` an instruction
chunk. Everything else is instructions (`fitzroy.hw_models.isa.text`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fitzroy.base.bits import integer
from fitzroy.base.errors import FormatError
from fitzroy.formats.darwinn import Executable, ExecutableType, PackageFile
from fitzroy.hw_models.isa.program import bundle_count, disassemble
from fitzroy.hw_models.isa.text import Chunk, ChunkParser, Numbering, listing, uncommented
from fitzroy.linker.objects.symbols import parse_reference, reference_of
from fitzroy.linker.resolve.fields import address_field

CHIPS = ("beagle",)
_TYPES = {kind.name.lower(): kind for kind in ExecutableType}


@dataclass
class Program:
    """The instructions of one executable of a package.

    Attributes:
        package: which Edge TPU operator of the model.
        type: which executable of its package.
        chunks: instructions and symbols.
    """

    package: int
    type: ExecutableType
    chunks: list[Chunk] = field(default_factory=list)


def executable_chunks(executable: Executable, path: str = "") -> list[Chunk]:
    """Instructions of an executable with the expressions of its field offsets.

    Raises:
        FormatError: a bitstream that is not instructions.
    """
    chunks = []
    for stream in executable.instruction_bitstreams or ():
        data = b"" if stream.bitstream is None else stream.bitstream.tobytes()
        symbols = {
            offset.offset_bit: reference_of(address_field(offset)).text()
            for offset in stream.field_offsets or ()
        }
        chunks.append(Chunk(disassemble(data, path=path), symbols))
    return chunks


def package_listing(
    packages: Iterable[tuple[int, PackageFile]], *, comments: bool = True
) -> Iterator[str]:
    """Lines of the programs of packages.

    Args:
        packages: packages with the numbers of their operators.
        comments: add sizes as comments.

    Yields:
        Lines without newline.

    Raises:
        FormatError: a bitstream that is not instructions.
    """
    chip = None
    for number, file in packages:
        for executable in file.executables:
            if executable.chip != chip:
                chip = executable.chip
                check_chip(chip or "")
                yield f".chip {chip}"
            yield ""
            yield f".package {number}"
            yield f".executable {ExecutableType(executable.type).name.lower()}"
            yield from program_listing(executable_chunks(executable, file.path), comments=comments)


def program_listing(chunks: Sequence[Chunk], *, comments: bool = True) -> Iterator[str]:
    """Lines of the chunks of one program."""
    numbering = Numbering()
    for index, chunk in enumerate(chunks):
        line = f".chunk {index}"
        if comments:
            line = f"{line:<60}; {bundle_count(chunk.instructions)} bundles"
        yield line
        yield from listing(
            chunk.instructions, symbols=chunk.symbols, numbering=numbering, comments=comments
        )


def parse_packages(text: str, path: str = "") -> list[Program]:
    """The programs of a listing.

    Raises:
        FormatError: names the line.
    """
    return _PackageReader(path).read(text)


@dataclass
class DirectiveReader:
    """Reads a text of directives and instructions; subclasses say what directives mean.

    Attributes:
        path: name of the file, for errors.
        directives: what to call with the arguments of each directive.
    """

    path: str
    directives: dict[str, Callable[[str], None]] = field(default_factory=dict)

    def read_lines(self, text: str, instruction: Callable[[int, str], None]) -> None:
        """Call a handler for every line that is not empty.

        Raises:
            FormatError: names the line.
        """
        for number, raw in enumerate(text.splitlines(), start=1):
            line = uncommented(raw)
            if not line:
                continue
            if line[0] != ".":
                instruction(number, line)
                continue
            name, _, arguments = line[1:].partition(" ")
            try:
                if name not in self.directives:
                    known = ", ".join(f".{directive}" for directive in self.directives)
                    raise FormatError(f"unknown directive .{name[:40]}", hint=f"known are {known}")
                self.directives[name](arguments.strip())
            except FormatError as error:
                where = error.table if error.table.startswith("line") else f"line {number}"
                raise FormatError(
                    error.what, path=self.path, table=where, hint=error.hint
                ) from None


class _PackageReader(DirectiveReader):
    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            {
                "chip": self._chip,
                "package": self._package,
                "executable": self._executable,
                "chunk": self._chunk,
            },
        )
        self._parser = ChunkParser(path)
        self._programs: list[Program] = []
        self._seen: set[tuple[int, ExecutableType]] = set()
        self._program: Program | None = None
        self._number = 0
        self._open = False

    def read(self, text: str) -> list[Program]:
        self.read_lines(text, self._instruction)
        self._close()
        return self._programs

    def _chip(self, name: str) -> None:
        self._close()
        self._program = None
        check_chip(name)

    def _package(self, number: str) -> None:
        self._close()
        self._number = integer(number)
        self._program = None

    def _executable(self, name: str) -> None:
        self._close()
        if name not in _TYPES:
            raise FormatError(
                f"{name[:40]!r} is not an executable", hint=f"known are {', '.join(_TYPES)}"
            )
        kind = _TYPES[name]
        if (self._number, kind) in self._seen:
            raise FormatError(f"package {self._number} has two executables {name}")
        self._seen.add((self._number, kind))
        self._program = Program(self._number, kind)
        self._programs.append(self._program)
        self._parser.restart_numbering()

    def _chunk(self, number: str) -> None:
        self._close()
        if self._program is None:
            raise FormatError("a chunk before any .executable of the package")
        if integer(number) != len(self._program.chunks):
            raise FormatError(f"chunk {number[:20]}, {len(self._program.chunks)} is next")
        self._open = True

    def _instruction(self, number: int, line: str) -> None:
        if not self._open:
            raise FormatError(
                "an instruction outside a chunk",
                path=self.path,
                table=f"line {number}",
                hint="begin with .executable and .chunk 0",
            )
        self._parser.line(number, line)

    def _close(self) -> None:
        if self._open:
            chunk = self._parser.finish()
            for expression in chunk.symbols.values():
                parse_reference(expression)
            if self._program is not None:
                self._program.chunks.append(chunk)
            self._open = False


def check_chip(name: str) -> None:
    """Refuse other chips.

    Raises:
        FormatError: the chip is not known.
    """
    if name not in CHIPS:
        raise FormatError(f"{name[:40]!r} is not a known chip", hint=f"known: {', '.join(CHIPS)}")

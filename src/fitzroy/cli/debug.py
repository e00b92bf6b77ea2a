"""``fitzroy debug``: stop a compiled model on the simulated chip, and look."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.bits import integer
from fitzroy.base.errors import FitzroyError, FormatError, SimulationError, UsageError
from fitzroy.base.files import read_file
from fitzroy.cli import chip_state
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import (
    CompiledFile,
    Given,
    PackageNumber,
    Printed,
    Seed,
    SourceFile,
    Verb,
)
from fitzroy.cli.sim import readable
from fitzroy.cli.terminal import Terminal, count, error_document
from fitzroy.execution.inputs import Port, read_inputs

if TYPE_CHECKING:
    from fitzroy.driver.runtime.debugger import Debugger

_PROMPT = "(fitzroy) "


@dataclass(frozen=True)
class Script:
    """Commands that need no keyboard.

    Attributes:
        execute: commands.
        commands: a file of further ones.
    """

    execute: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            "--execute",
            metavar="COMMAND",
            help="Execute a command; may be given several times.",
            show_default=False,
        ),
    ] = None
    commands: Annotated[
        str | None,
        typer.Option(
            "--commands",
            metavar="FILE",
            help="Execute the commands of a file, one per line, after those of -x.",
            show_default=False,
        ),
    ] = None

    @property
    def lines(self) -> list[str] | None:
        """The commands; None if there are no such options.

        Raises:
            UsageError: the file cannot be read.
            FormatError: it is no text.
        """
        if self.execute is None and self.commands is None:
            return None
        lines = list(self.execute or ())
        if self.commands is not None:
            try:
                lines += read_file(self.commands).decode().splitlines()
            except UnicodeDecodeError as error:
                raise FormatError(
                    "commands must be UTF-8 text", path=self.commands, offset=error.start
                ) from None
        return lines


def debug(
    file: CompiledFile,
    given: Given,
    script: Script,
    printed: Printed,
    package: PackageNumber = None,
    seed: Seed = None,
    source: SourceFile = None,
) -> None:
    """Step through a compiled Edge TPU model on the simulated chip.

    The scalar core stops before each request to another unit or the host. Queues, flags and
    memories are shown as if it stood still until nothing can move; inspecting them changes nothing.
    Commands come from the keyboard, -x, --commands or a pipe; the command [b]help[/b] lists them.

    A script ends at an invalid command (exit code 2). If the program fails, the script continues,
    so that it can inspect the state, and the exit code is 8.
    """
    from fitzroy.driver.runtime.debugger import Debugger
    from fitzroy.execution.programs import EdgeTpuProgram

    terminal, lines = printed.terminal, script.lines
    if lines is None and printed.json and sys.stdin.isatty():
        raise UsageError("--json needs commands", hint="give them with -x, --commands or a pipe")
    rule = given.rule
    program = EdgeTpuProgram.load(file, package)
    if source is not None:
        program = program.named_by(source)
    if given.inputs and not program.inputs:
        raise UsageError("the program takes no inputs", where=file, hint="leave out --input")
    ports = [Port(name, type) for name, type in program.inputs.items()]
    values = read_inputs(ports, given.inputs or [], rule, file)
    run = program.start(dict(zip(program.inputs, values, strict=True)), seed=seed)
    console = Console(Debugger(run, program.steps), terminal, file)
    if lines is not None:
        code = console.follow(lines)
    elif sys.stdin.isatty():
        code = console.converse()
    else:
        code = console.follow(sys.stdin)
    if code:
        raise typer.Exit(code)


# --- commands ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command gives.

    Attributes:
        data: for JSON.
        show: prints the same for people.
    """

    data: Any
    show: Callable[[Terminal], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        names: its name, then shorter ones.
        arguments: what it takes, as text.
        least: fewest arguments.
        most: most arguments.
        help: what it does.
        function: does it.
        repeats: whether an empty line does it again.
    """

    names: tuple[str, ...]
    arguments: str
    least: int
    most: int
    help: str
    function: Callable[[Console, list[str]], Reply]
    repeats: bool = False


class Console:
    """Executes commands on a debugger.

    Args:
        debugger: the debugger.
        terminal: where replies go.
        path: file of the program.
    """

    def __init__(self, debugger: Debugger, terminal: Terminal, path: str) -> None:
        self.debugger = debugger
        self.path = path
        self._terminal = terminal
        self._interactive = False
        self._impatient = False

    def follow(self, lines: Iterator[str] | Sequence[str]) -> int:
        """Execute a script; returns the exit code.

        Raises:
            UsageError: a command is wrong.
        """
        terminal, replies = self._terminal, []
        code = 0
        for line in lines:
            words = line.partition("#")[0].split()
            if not words:
                continue
            if words[0] in _QUIT:
                break
            entry: dict[str, Any] = {"command": " ".join(words)}
            if not terminal.json:
                terminal.line(f"> {entry['command']}", style="bold")
            try:
                reply = self.execute(words)
            except SimulationError as error:
                code = error.exit_code
                entry["error"] = error_document(readable(error))
                if not terminal.json:
                    terminal.error(readable(error))
            else:
                entry["reply"] = reply.data
                if not terminal.json:
                    reply.show(terminal)
            replies.append(entry)
        if terminal.json:
            terminal.document("debug", {"file": self.path, "commands": replies})
        return code

    def converse(self) -> int:
        """Execute what is typed until the end of input; returns the exit code."""
        with contextlib.suppress(ImportError):
            # Gives `input` a history and editing.
            import readline  # noqa: F401
        self._interactive = True
        terminal = self._terminal
        terminal.note(f"{self.path}: type help for the commands")
        again: list[str] = []
        while True:
            try:
                words = input(_PROMPT).partition("#")[0].split() or again
            except EOFError:
                terminal.line()
                return 0
            except KeyboardInterrupt:
                terminal.line()
                continue
            if not words:
                continue
            if words[0] in _QUIT:
                return 0
            found = _BY_NAME.get(words[0])
            again = words if found is not None and found.repeats else []
            try:
                self.execute(words).show(terminal)
            except FitzroyError as error:
                terminal.error(readable(error))

    def execute(self, words: Sequence[str]) -> Reply:
        """Execute one command.

        Raises:
            UsageError: there is no such command, or its arguments are wrong.
            SimulationError: the program fails.
        """
        name, *arguments = words
        command = _BY_NAME.get(name)
        if command is None:
            raise UsageError(f"there is no command {name[:40]!r}", hint="try help")
        if not command.least <= len(arguments) <= command.most:
            raise _misused(command)
        try:
            return command.function(self, arguments)
        except FormatError as error:
            # Numbers are parsed as in assembly.
            raise UsageError(error.what, hint=_usage(command)) from None

    # Going on.

    def _went(self, hits: Sequence[int] = ()) -> Reply:
        found = chip_state.place(self.debugger) | {"breakpoints": list(hits)}

        def show(terminal: Terminal) -> None:
            if hits:
                terminal.line(f"breakpoint {', '.join(map(str, hits))}")
            chip_state.show_place(terminal, found)
            outputs = self.debugger.outputs
            if outputs is not None:
                terminal.line(f"{len(outputs.stream)} bytes were sent", indent=2)

        return Reply(found, show)

    def step(self, arguments: list[str]) -> Reply:
        """Go on by events."""
        self.debugger.step(_count(arguments[0]) if arguments else 1)
        return self._went()

    def fence(self, arguments: list[str]) -> Reply:
        """Go on to a fence."""
        return self._resume(self.debugger.at_fence)

    def phase(self, arguments: list[str]) -> Reply:
        """Go on to the end of a phase."""
        return self._resume(self.debugger.at_phase_end)

    def go_on(self, arguments: list[str]) -> Reply:
        """Go on to a breakpoint."""
        return self._resume(lambda: False)

    def _resume(self, until: Callable[[], bool]) -> Reply:
        with self._interruptible():
            return self._went(self.debugger.resume(until, lambda: self._impatient))

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C at the keyboard stop the program rather than the debugger."""
        self._impatient = False
        if not self._interactive or threading.current_thread() is not threading.main_thread():
            yield
            return

        def handler(number: int, frame: FrameType | None) -> None:
            if self._impatient:
                raise KeyboardInterrupt
            self._impatient = True

        before = signal.signal(signal.SIGINT, handler)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    # Breakpoints.

    def break_at(self, arguments: list[str]) -> Reply:
        """Add a breakpoint."""
        number, item = self.debugger.add(arguments[0])
        return _line({"number": number, "place": item.text}, f"breakpoint {number}: {item.text}")

    def delete(self, arguments: list[str]) -> Reply:
        """Remove a breakpoint."""
        number = integer(arguments[0])
        self.debugger.remove(number)
        return _line({"deleted": number}, f"breakpoint {number} is gone")

    def breakpoints(self, arguments: list[str]) -> Reply:
        """List breakpoints."""
        items = self.debugger.breakpoints.items()
        lines = [f"{number}: {item.text}" for number, item in items]
        return _line(
            [{"number": number, "place": item.text} for number, item in items],
            *(lines or ["no breakpoints"]),
        )

    # Looking.

    def where(self, arguments: list[str]) -> Reply:
        """Where everyone is."""
        found, waiting = chip_state.place(self.debugger), chip_state.heads(self.debugger)

        def show(terminal: Terminal) -> None:
            chip_state.show_place(terminal, found)
            chip_state.show_heads(terminal, waiting)

        return Reply({"at": found, "waiting": waiting}, show)

    def list_lines(self, arguments: list[str]) -> Reply:
        """List instructions."""
        numbers = [_natural(argument) for argument in arguments]
        around = numbers[0] if numbers else None
        reach = numbers[1] if len(numbers) > 1 else 5
        lines = self.debugger.listing(reach, reach, around)

        def show(terminal: Terminal) -> None:
            for line in lines:
                mark = "=>" if line.current else "*" if line.breakpoints else ""
                for number, text in enumerate(line.lines):
                    head = f"{mark:>2} {line.bundle:>5}" if not number else " " * 8
                    terminal.line(f"{head}  {text}", style="bold" if line.current else "")

        return Reply(
            [
                {"bundle": line.bundle, "lines": list(line.lines), "current": line.current}
                for line in lines
            ],
            show,
        )

    def registers(self, arguments: list[str]) -> Reply:
        """Registers and predicates."""
        words = {f"s{number}": word for number, word in self.debugger.registers().items()}
        bits = {f"p{number}": value for number, value in self.debugger.predicates().items()}
        return Reply(
            {"registers": words, "predicates": bits},
            lambda terminal: chip_state.show_registers(terminal, words, bits),
        )

    def flags(self, arguments: list[str]) -> Reply:
        """Flags of tiles, or of the scalar core."""
        if arguments == ["scalar"]:
            flags, done = self.debugger.scalar_flags(), self.debugger.done()
            return Reply(
                {"scalar_flags": flags, "done_tiles": done},
                lambda terminal: chip_state.show_scalar(terminal, flags, done),
            )
        tile = _natural(arguments[0]) if arguments else None
        tiles = chip_state.tile_flags(self.debugger, tile)
        return Reply({"flags": tiles}, lambda terminal: chip_state.show_flags(terminal, tiles))

    def queues(self, arguments: list[str]) -> Reply:
        """What the engines are at."""
        from fitzroy.driver.runtime.debugger import check_tile

        items = self.debugger.heads()
        if arguments:
            tile = _natural(arguments[0])
            check_tile(tile)
            items = [item for item in items if item.tiles >> tile & 1]
        else:
            items = [item for item in items if item.tiles]
        shown = [chip_state.head(item) for item in items]
        return Reply(shown, lambda terminal: chip_state.show_heads(terminal, shown))

    def streams(self, arguments: list[str]) -> Reply:
        """What the stream units are at."""
        shown = [chip_state.head(item) for item in self.debugger.heads() if not item.tiles]
        flags, done = self.debugger.scalar_flags(), self.debugger.done()

        def show(terminal: Terminal) -> None:
            chip_state.show_heads(terminal, shown)
            chip_state.show_scalar(terminal, flags, done)

        return Reply({"waiting": shown, "scalar_flags": flags, "done_tiles": done}, show)

    def ring(self, arguments: list[str]) -> Reply:
        """What is on its way."""
        found = chip_state.traffic(self.debugger)
        return Reply(found, lambda terminal: chip_state.show_traffic(terminal, found))

    def examine(self, arguments: list[str]) -> Reply:
        """Words of a memory."""
        memory, *rest = arguments
        form = rest.pop() if rest and rest[-1] in chip_state.FORMATS else "hex"
        numbers = [_natural(item) for item in rest]
        tile = None if memory == "scalar" or not numbers else numbers.pop(0)
        if not 1 <= len(numbers) <= 2 or (tile is None and memory != "scalar"):
            raise _misused(_BY_NAME["x"])
        address = numbers[0]
        amount = numbers[1] if len(numbers) > 1 else _COUNTS.get(memory, 1)
        words, written = self.debugger.examine(memory, tile, address, amount)
        elements = chip_state.values(words, written, form)
        return Reply(
            {
                "memory": memory,
                "tile": tile,
                "address": address,
                "format": form,
                "elements": elements,
            },
            lambda terminal: chip_state.show_values(terminal, elements, address, form),
        )

    def dump(self, arguments: list[str]) -> Reply:
        """Write a memory to a file."""
        wanted = chip_state.Dump.checked(arguments[0], arguments[1])
        for path in wanted.paths:
            check_output(Path(path), [self.path])
        tile = _natural(arguments[2]) if len(arguments) > 2 else None
        files = wanted.files(self.debugger, tile)
        write_files(files)
        written = [os.fspath(path) for path, _ in files]
        return _line({"written": written}, *(f"wrote {path}" for path in written))

    def help(self, arguments: list[str]) -> Reply:
        """What commands there are."""
        if arguments and arguments[0] not in _BY_NAME:
            raise UsageError(f"there is no command {arguments[0][:40]!r}", hint="try help")
        wanted = [_BY_NAME[arguments[0]]] if arguments else COMMANDS
        rows = [(f"{', '.join(item.names)} {item.arguments}".strip(), item.help) for item in wanted]
        if not arguments:
            rows.append((", ".join(_QUIT), "leave"))
        return Reply(dict(rows), lambda terminal: terminal.fields(rows))


_QUIT = ("quit", "q", "exit")
_COUNTS = {"narrow": 16, "scalar": 16, "scaling": 4}
"""Elements that are shown unless told otherwise."""

COMMANDS = (
    Command(
        ("step", "s"), "[N]", 0, 1, "go on by N things that the core asks for", Console.step, True
    ),
    Command(("fence", "f"), "", 0, 0, "go on to the next scalar fence", Console.fence, True),
    Command(("phase", "p"), "", 0, 0, "go on to the end of the phase", Console.phase, True),
    Command(("continue", "c"), "", 0, 0, "go on to a breakpoint or the end", Console.go_on, True),
    Command(
        ("break", "b"),
        "PLACE",
        1,
        1,
        "stop at CHUNK:BUNDLE, BUNDLE, phase:N, phase, fence or an opcode; caching: in front for "
        "the executable that loads parameters",
        Console.break_at,
    ),
    Command(("breaks",), "", 0, 0, "list breakpoints", Console.breakpoints),
    Command(("delete", "d"), "N", 1, 1, "remove a breakpoint", Console.delete),
    Command(("where", "w"), "", 0, 0, "the scalar core, every queue's head", Console.where),
    Command(
        ("list", "l"), "[BUNDLE [N]]", 0, 2, "N instructions before and after", Console.list_lines
    ),
    Command(("registers", "r"), "", 0, 0, "known registers and predicates", Console.registers),
    Command(("flags",), "[TILE | scalar]", 0, 1, "flags, those of all tiles", Console.flags),
    Command(("queues",), "[TILE]", 0, 1, "what the engines of tiles are at", Console.queues),
    Command(("streams",), "", 0, 0, "what pops, infeed and outfeed are at", Console.streams),
    Command(("ring", "traffic"), "", 0, 0, "rows, words and bytes on their way", Console.ring),
    Command(
        ("x",),
        "MEMORY [TILE] ADDRESS [COUNT] [FORMAT]",
        2,
        5,
        "memory: narrow words, wide rows, scaling entries, or scalar words (no tile); "
        f"{', '.join(chip_state.FORMATS)}; - is what nothing has written",
        Console.examine,
    ),
    Command(
        ("dump",),
        "MEMORY FILE [TILE]",
        2,
        3,
        "write a memory to FILE.npy and FILE_written.npy, or both to FILE.npz",
        Console.dump,
    ),
    Command(("help", "h"), "[COMMAND]", 0, 1, "this", Console.help),
)
"""All commands but the one that leaves."""

_BY_NAME: Mapping[str, Command] = {name: item for item in COMMANDS for name in item.names}


def _usage(command: Command) -> str:
    return f"{command.names[0]} {command.arguments}".strip()


def _misused(command: Command) -> UsageError:
    return UsageError(f"{command.names[0]} is used wrongly", hint=f"write {_usage(command)}")


def _line(data: Any, *lines: str) -> Reply:
    def show(terminal: Terminal) -> None:
        for line in lines:
            terminal.line(line)

    return Reply(data, show)


def _natural(text: str) -> int:
    value = integer(text)
    if value < 0:
        raise UsageError(f"{text} is negative")
    return value


def _count(text: str) -> int:
    value = integer(text)
    if value < 1:
        raise UsageError(f"{count(value, 'step')}: at least one")
    return value


debug_command = Verb(
    debug,
    (
        "fitzroy debug model_edgetpu.tflite --input photo.png",
        "fitzroy debug model_edgetpu.tflite -i x.npy -x 'break 0:120' -x c -x where",
        "fitzroy debug model_edgetpu.tflite -i x.npy -x phase -x 'flags 5' --json",
    ),
)

"""The command line: parses arguments, runs a verb, turns every error into text and a code.

Exit codes: 0 success, 2 usage, 3 format, 4 unsupported, 5 capacity, 6 link, 7 device or runtime,
8 simulation, 9 something is not as expected, 70 a fault of FitzRoy, 130 interrupted, 141 the
reader of the output went away.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import typer

import fitzroy
from fitzroy.base import budget
from fitzroy.base.errors import CapacityError, FitzroyError, InternalError, UsageError
from fitzroy.cli.argv import BUDGET, asks_for_json, budget_first, spread
from fitzroy.cli.terminal import Terminal, error_document
from fitzroy.cli.usage import Group
from fitzroy.cli.verbs import Commands

INTERRUPTED = 130
BROKEN_PIPE = 141
DEBUG = "FITZROY_DEBUG"
_PROGRAM = "fitzroy"
_COMPLETION = "_FITZROY_COMPLETE"
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

_USAGE_ERRORS: tuple[type[Exception], ...] = tuple(
    # The base of all parser errors has no public name in typer.
    kind
    for kind in typer.BadParameter.__mro__
    if kind.__name__ == "ClickException"
)

TASKS = {
    "will it run on the chip?": "fitzroy explain model.tflite",
    "quantize a float32 model": "fitzroy quantize model.onnx --calibrate photos/ -o model.tflite",
    "compile, with a report": "fitzroy compile model.tflite --report model.html",
    "run on the simulated chip": "fitzroy sim model_edgetpu.tflite --input photo.png",
    "run on an accelerator": "fitzroy run model_edgetpu.tflite --input photo.png",
    "what is in a file?": "fitzroy inspect model_edgetpu.tflite",
    "what became of an operator?": "fitzroy explore model.tflite",
    "compare two builds": "fitzroy compare old_edgetpu.tflite new_edgetpu.tflite",
    "watch a model in CI": "fitzroy test model.toml",
    "compile for CPUs": "fitzroy compile model.tflite -o model.pte",
}
"""Commands for what people begin with."""

_WIDEST = max(map(len, TASKS.values()))


class _Program(Group):
    """The program."""

    examples = tuple(f"{command:{_WIDEST}}  # {task}" for task, command in TASKS.items())

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()


app = typer.Typer(
    name=_PROGRAM,
    cls=_Program,
    help="Compile, run, inspect and link programs for the Edge TPU.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        Terminal().line(f"{_PROGRAM} {fitzroy.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(
            BUDGET,
            metavar="SIZE",
            help="Memory limit for tensors and buffers whose size a file defines, as in 512MiB; "
            f"goes before or after the command. [dim]default: {budget.VARIABLE}, or 4GiB[/dim]",
            show_default=False,
        ),
    ] = None,
) -> None:
    if memory is not None:
        context.with_resource(budget.limited(budget.parse(memory, BUDGET)))
    if context.invoked_subcommand is None:
        Terminal().raw(context.get_help())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: arguments without the program's name; None takes those of the process.

    Returns:
        the exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _replace_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the encoding of the terminal lacks is shown escaped.
            stream.reconfigure(errors="backslashreplace")
    command = _parser()
    if os.environ.get(_COMPLETION):
        command.main(arguments, prog_name=_PROGRAM, complete_var=_COMPLETION)
    try:
        try:
            code = _invoke(command, arguments)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            code = _fail(error, arguments)
    except BrokenPipeError:
        _silence()
        code = BROKEN_PIPE
    return code


@cache
def _parser() -> Any:
    """What parses arguments; a process that calls `main` again and again makes it once."""
    return typer.main.get_command(app)


def _invoke(command: Any, arguments: Sequence[str]) -> int:
    """Run a verb and deliver what it printed; errors pass through."""
    code = 0
    try:
        with command.make_context(_PROGRAM, budget_first(spread(arguments))) as context:
            command.invoke(context)
    except typer.Exit as stop:
        code = stop.exit_code
    sys.stdout.flush()
    return code


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    """Report an error; returns its exit code."""
    if _interrupted(error):
        Terminal().warn("interrupted")
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        # Only stdout is left: files of the user are read and written by `fitzroy.cli.files`.
        _silence()
        Terminal().error(UsageError("the output cannot be written", reason=error.strerror or ""))
        return UsageError.exit_code
    report = (
        error
        if isinstance(error, FitzroyError)
        else _usage(error)
        if isinstance(error, _USAGE_ERRORS)
        else _exhausted(error)
        if isinstance(error, MemoryError)
        else _fault(error)
    )
    if asks_for_json(arguments):
        Terminal().document("error", {"error": error_document(report)})
        sys.stdout.flush()
    else:
        terminal = Terminal()
        terminal.error(report)
        if os.environ.get(DEBUG):
            terminal.trace("".join(traceback.format_exception(report)))
    return report.exit_code


def _interrupted(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or came up while cleaning up after it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt | typer.Abort):
            return True
        error = error.__context__
    return False


def _usage(error: BaseException) -> UsageError:
    """An error of the argument parser as one of ours."""
    message = str(getattr(error, "message", "")) or str(error)
    with contextlib.suppress(AttributeError):
        message = error.format_message()  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _PROGRAM
    return UsageError(message.strip().rstrip("."), hint=f"see: {path} --help")


def _exhausted(error: MemoryError) -> CapacityError:
    """An allocation that the budget allows, and the machine does not have."""
    return CapacityError(
        "this machine has not enough memory",
        reason=str(error) or "an allocation failed",
        hint="close other programs, or take smaller inputs; with a budget below the machine's "
        f"memory, as in {BUDGET} 1GiB, the error names what wants so much",
    )


def _fault(error: BaseException) -> InternalError:
    """An exception that nobody expected as an error of ours."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(os.path.dirname(last.filename))}/{os.path.basename(last.filename)}"
    fault = InternalError(
        "this is a fault of FitzRoy",
        reason=f"{type(error).__name__}: {error}",
        where=f"{where}:{last.lineno}",
        hint=f"please report it, with the command and the output of {DEBUG}=1",
    )
    fault.__cause__ = error
    return fault


class _Closed(io.TextIOBase):
    """A stdout that was closed before the start: nobody reads it."""

    def fileno(self) -> int:
        return 1

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _replace_closed() -> None:
    """Make streams that were closed before the start ones that can be written to.

    Their descriptors are taken, too, so that no result file gets the number of one, and what a
    library prints does not end up in it.
    """
    for descriptor in range(3):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - stays open until the end


def _silence() -> None:
    """Let the interpreter's last flush go nowhere instead of complaining."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
                continue
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())

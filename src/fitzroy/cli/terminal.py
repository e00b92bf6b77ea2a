"""Everything that is printed goes through here: results on stdout, remarks on stderr.

On a terminal there are colours, rules and a spinner; into a pipe or a file goes plain text whose
lines are never wrapped. Text from files is shown with its control characters escaped.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from fitzroy.base.errors import FitzroyError, FormatError, UnsupportedError
from fitzroy.base.files import text_bytes
from fitzroy.base.progress import Progress, listening
from fitzroy.report.documents import headed

_UNWRAPPED = 100_000

_PATIENCE = 2.0
"""Seconds from which it is said how long something takes."""

_KNOWN = 0.02
"""Share from which what has passed says something about what is left."""

_MEASURED = 0.2
"""Seconds from which they do."""


class _Console(Console):
    """A console that leaves broken pipes to the caller."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: heading.
        right: whether cells are aligned to the right, as numbers are.
        style: rich style of the cells.
        keep: whether the column keeps its width when the table has to shrink.
        short: whether cells that have no room on a terminal lose their middle, and are not wrapped.
        spare: whether the column is left out on a terminal that has no room for all.
    """

    title: str
    right: bool = False
    style: str = ""
    keep: bool = False
    short: bool = False
    spare: bool = False


class Working:
    """What is under way, with the time that it will take once that can be told.

    It is drawn anew several times a second, so that the time goes on while nobody says anything.

    Args:
        what: what is done.
        clock: tells seconds.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began = self._start = clock()
        self._text = self._within = ""
        self._share = 0.0
        self._step = (0.0, 1.0)

    def __call__(self, text: str) -> None:
        """Say what is done now, which may know its share: `fitzroy.base.progress.Progress`."""
        told = text if isinstance(text, Progress) else Progress(text)
        first = told.share or 0.0
        last = told.end or (1.0 if told.share is None else first)
        self._text, self._within, self._step = text, "", (first, last)
        self._move(first)

    def within(self, what: str, share: float) -> None:
        """Say how much is done of what was said last, unless that is said as a whole."""
        first, last = self._step
        if last > first:
            self._within = what
            # Programs have loops, and go back.
            self._move(max(self._share, first + (last - first) * share))

    def _move(self, share: float) -> None:
        if share < self._share:
            # Something else begins.
            self._start = self._clock()
        self._share = share

    def line(self, width: int) -> str:
        """What is done, how much of it, and how long that takes, in some columns."""
        text = ", ".join(filter(None, (self._text, self._within)))
        what = clean(f"{self._what}: {text}" if text else self._what)
        figures = "".join(f", {part}" for part in self._figures())
        return shortened(what, max(width - len(figures), _LEAST_PATH)) + figures

    def _figures(self) -> Iterator[str]:
        now = self._clock()
        passed = now - self._start
        if self._share > 0:
            yield f"{self._share:.0%}"
        # Later steps of what takes long say at once how long they take.
        long = now - self._began > _PATIENCE
        if long and self._share >= _KNOWN and passed > _MEASURED:
            left = passed * (1 - self._share) / self._share
            yield f"{duration(left)} left"
        elif passed > _PATIENCE:
            yield duration(passed)

    def __str__(self) -> str:
        return self.line(_UNWRAPPED)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.line(options.max_width), no_wrap=True, overflow="ellipsis")


class Terminal:
    """Where a verb prints.

    Args:
        json: whether stdout takes one JSON document and nothing else.
        quiet: whether remarks other than warnings and errors are dropped.
    """

    def __init__(self, *, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = quiet
        self._out = _console(stderr=False)
        self._err = _console(stderr=True)

    # --- results ---------------------------------------------------------------------------------

    def document(self, schema: str, value: Mapping[str, object]) -> None:
        """Print a JSON document; numbers that JSON lacks become strings.

        Args:
            schema: what it is, see `fitzroy.report.documents`.
            value: its content.
        """
        content = plain(headed(schema, value))
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        # Names may have controls and marks of direction that JSON does not have to escape.
        safe = text.isascii() and "\x7f" not in text
        self.raw(text if safe else "".join(map(_json_safe, text)))
        self.raw("\n")

    def raw(self, text: str) -> None:
        """Write text to stdout exactly as it is."""
        sys.stdout.write(text)

    def line(
        self, text: str = "", style: str = "", indent: int = 0, *, whole: bool = False
    ) -> None:
        """Print a line to stdout.

        Args:
            text: what it says.
            style: its rich style.
            indent: columns in front of all of its lines.
            whole: whether the text is one line even if it is wider than a terminal, as a command
                that people copy has to be; else a path that would wrap is shortened, and what is
                still too wide is broken between words.
        """
        shown = clean(text)
        if whole:
            self._out.print(Text(" " * indent) + Text(shown, style=style), soft_wrap=True)
            return
        if self._out.is_terminal:
            shown = fitted(shown, self._out.width - indent)
        _indented(self._out, Text(shown, style=style), indent)

    def heading(self, text: str) -> None:
        """Print a heading to stdout."""
        self._out.print()
        self._out.print(Text(clean(text), style="bold"))

    def fields(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print names and what they stand for, in two columns; paths as `line` shows them."""
        if not self._out.is_terminal:
            self._columns([[name, text] for name, text in rows], [False, False])
            return
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="cyan", no_wrap=True)
        grid.add_column(overflow="fold")
        room = self._out.width - 2 - max((cell_len(clean(name)) for name, _ in rows), default=0)
        for name, text in rows:
            grid.add_row(clean(name), fitted(clean(text), room))
        self._out.print(grid)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        """Print a table to stdout."""
        if not self._out.is_terminal:
            titles = [column.title for column in columns]
            self._columns([titles, *rows], [column.right for column in columns])
            return
        columns, rows = _affordable(columns, rows, self._out.width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                style=column.style,
                no_wrap=column.right or column.keep,
                overflow="fold",
            )
        for row in _fitting(columns, rows, self._out.width):
            table.add_row(*map(clean, row))
        self._out.print(table)

    def _columns(self, rows: Sequence[Sequence[str]], right: Sequence[bool]) -> None:
        """Print rows in columns that are as wide as needed."""
        cells = [list(map(clean, row)) for row in rows]
        widths = [max(map(cell_len, column), default=0) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = [
                " " * (width - cell_len(cell)) + cell
                if flush
                else cell + " " * (width - cell_len(cell))
                for cell, width, flush in zip(row, widths, right, strict=True)
            ]
            self.raw("  ".join(padded).rstrip() + "\n")

    # --- remarks ---------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Print a remark to stderr, unless quiet."""
        if not self.quiet:
            shown = clean(text)
            if self._err.is_terminal:
                shown = fitted(shown, self._err.width)
            self._remark("", "", shown)

    def warn(self, text: str, details: Sequence[str] = ()) -> None:
        """Print a warning to stderr."""
        self._remark("warning", "bold yellow", text)
        for detail in details:
            self._detail("", detail)

    def error(self, error: FitzroyError) -> None:
        """Print an error to stderr: what failed, why, where, and what to do about it."""
        self._remark("error", "bold red", error.what)
        for name, text in _parts(error):
            self._detail(name, text)
        if isinstance(error, UnsupportedError):
            for reject in error.rejects:
                text = f"{reject.where}: {reject.what}"
                self._detail("-", f"{text}: {reject.reason}" if reject.reason else text)
                if reject.hint:
                    self._detail("", f"  hint: {reject.hint}")

    def trace(self, text: str) -> None:
        """Print a traceback to stderr as it is."""
        self._err.file.write(text)

    @contextlib.contextmanager
    def working(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal's stderr that something is under way.

        Yields:
            a function that replaces the text.
        """
        if self.quiet or not self._err.is_terminal:
            yield lambda _: None
            return
        shown = Working(what)
        with self._err.status(shown, spinner="dots"), listening(shown.within):
            yield shown

    def _remark(self, label: str, style: str, text: str) -> None:
        line = Text.assemble((f"{label}: ", style), clean(text)) if label else Text(clean(text))
        self._err.print(line, soft_wrap=not self._err.is_terminal)

    def _detail(self, label: str, text: str) -> None:
        first, *others = clean(text, lines=True).split("\n")
        mark = f"{label}: " if label not in ("", "-") else f"{label} " if label else ""
        content = Text.assemble((mark, "cyan"), "\n".join([first, *("  " + o for o in others)]))
        _indented(self._err, content, 2)


def _indented(console: Console, text: Text, indent: int) -> None:
    """Print text; on a terminal, words wrap and every line is indented."""
    margin = Text(" " * indent)
    if not console.is_terminal or not text:
        console.print(margin + text, soft_wrap=True)
        return
    for line in text.divide(_breaks(text.plain, max(console.width - indent, 20))):
        line.rstrip()
        console.print(margin + line, soft_wrap=True)


def _breaks(text: str, width: int) -> list[int]:
    """Where a text is broken so that its lines fit.

    Words longer than a line, such as paths, stay whole: they are for the terminal to break.
    """
    found, start = [], 0
    for word in re.finditer(r"\S+", text):
        if text[start : word.start()].strip() and cell_len(text[start : word.end()]) > width:
            start = word.start()
            found.append(start)
    return found


def _console(*, stderr: bool) -> _Console:
    console = _Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _UNWRAPPED
    return console


def _parts(error: FitzroyError) -> list[tuple[str, str]]:
    where = [error.where] if error.where else []
    if isinstance(error, FormatError):
        where += [error.path] if error.path else []
        where += [f"byte {error.offset:#x}"] if error.offset is not None else []
        where += [error.table] if error.table else []
    parts = [("reason", error.reason), ("where", ", ".join(where)), ("hint", error.hint)]
    return [(name, text) for name, text in parts if text]


def error_document(error: FitzroyError) -> dict[str, object]:
    """An error for JSON: kind, exit code, and every part that is not empty."""
    result: dict[str, object] = {"kind": type(error).__name__, "exit_code": error.exit_code}
    result["what"] = error.what
    result |= {k: v for k in ("reason", "where", "hint") if (v := getattr(error, k))}
    if isinstance(error, FormatError):
        result |= {k: v for k in ("path", "table") if (v := getattr(error, k))}
        if error.offset is not None:
            result["offset"] = error.offset
    if isinstance(error, UnsupportedError):
        result["rejects"] = [
            {
                "severity": str(reject.severity),
                "code": reject.code,
                "where": reject.where,
                "what": reject.what,
                "reason": reject.reason,
                "hint": reject.hint,
            }
            for reject in error.rejects
        ]
    return result


def clean(text: str, *, lines: bool = False) -> str:
    """Text with control characters escaped, so that a file cannot steer the terminal.

    Args:
        text: anything, such as a name from a file.
        lines: whether line breaks stay.
    """
    if text.isprintable():
        return text
    kept = "\n" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escape(c) for c in text)


def _json_safe(character: str) -> str:
    """A character of a JSON document, escaped as JSON does unless it is printable."""
    if character.isprintable() or character == "\n":
        return character
    return json.dumps(character)[1:-1]


_LEAST_PATH = 16
"""Letters that are left of a path."""


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    """Characters that columns take, with the space between them."""
    cells = zip(*([column.title for column in columns], *rows), strict=True)
    # Three spaces lie between columns, one at each end.
    return [max(map(cell_len, column)) + 3 for column in cells]


def _affordable(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> tuple[Sequence[Column], Sequence[Sequence[str]]]:
    """A table without its spare columns, unless there is room for all."""
    if sum(_widths(columns, rows)) <= width:
        return columns, rows
    kept = [number for number, column in enumerate(columns) if not column.spare]
    return [columns[number] for number in kept], [[row[number] for number in kept] for row in rows]


def _fitting(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int
) -> Iterator[Sequence[str]]:
    """Rows whose cells of short columns have as many characters as there is room for."""
    short = [column.short for column in columns]
    rest = sum(3 if cut else wide for wide, cut in zip(_widths(columns, rows), short, strict=True))
    most = max(_LEAST_PATH, (width - rest) // max(1, sum(short)))
    cells = [
        shorter(column, most) if cut else column
        for column, cut in zip(zip(*rows, strict=True), short, strict=True)
    ]
    yield from zip(*cells, strict=True)


def shorter(texts: Sequence[str], most: int) -> Sequence[str]:
    """Names with at most so many characters, told from one another as well as that allows.

    The folder that most names lie in goes first, then the middle of a name, or its end where more
    names stay different.

    Args:
        texts: the names.
        most: characters that each may have.
    """
    if all(len(text) <= most for text in texts):
        return texts
    folders = Counter(text.partition("/")[0] for text in texts if "/" in text)
    for folder, number in folders.most_common(1):
        if 2 * number > len(texts) and number > 1:
            within = f"{folder}/"
            texts = [f"…/{t.removeprefix(within)}" if t.startswith(within) else t for t in texts]
    middle = [shortened(text, most) for text in texts]
    end = [text if len(text) <= most else f"{text[: most - 1]}…" for text in texts]
    return end if len({*end}) > len({*middle}) else middle


def fitted(text: str, width: int) -> str:
    """A line with its longest path shortened in the middle, if that makes it fit.

    Args:
        text: the line.
        width: columns that it may take.
    """
    paths = [word for word in text.split() if "/" in word or "\\" in word]
    if not paths or cell_len(text) <= width:
        return text
    path = max(paths, key=len)
    most = width - cell_len(text) + len(path)
    if most < _LEAST_PATH:
        return text
    return text.replace(path, shortened(path, most))


def shortened(text: str, most: int) -> str:
    """Text whose middle is left out if it has more characters than may be."""
    if len(text) <= most:
        return text
    return f"{text[: most // 3]}…{text[len(text) - (most - most // 3 - 1) :]}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def plain(value: object) -> object:
    """A value as JSON can hold it: tuples become lists, infinities and NaN strings."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return text_bytes(value).decode()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def size(count: int) -> str:
    """A number of bytes for people: ``812 B``, ``3.5 KiB``."""
    if count < 1024:
        return f"{count} B"
    amount, unit = float(count), ""
    for unit in ("KiB", "MiB", "GiB"):  # noqa: B007 - the last unit is used below
        amount /= 1024
        if amount < 1024:
            break
    return f"{amount:.1f} {unit}"


def seconds(amount: float) -> str:
    """A duration for people: ``0.8 ms``, ``1.25 s``."""
    return f"{amount * 1e3:.1f} ms" if amount < 1 else f"{amount:.2f} s"


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 operator``, ``2 operators``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration(amount: float) -> str:
    """Time that has passed or is left, for people: ``12.3 s``, ``4:05``, ``1:02:03``."""
    if amount < 60:
        return f"{amount:.1f} s"
    minutes, rest = divmod(round(amount), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

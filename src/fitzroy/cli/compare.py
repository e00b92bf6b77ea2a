"""``fitzroy compare``: what changed between two compiled models, or between reports of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from fitzroy.base.errors import MismatchError, UsageError
from fitzroy.base.files import text_bytes
from fitzroy.base.progress import counted
from fitzroy.cli import timing
from fitzroy.cli.files import check_output, check_page, write_files
from fitzroy.cli.help import Given, Printed, Verb
from fitzroy.cli.terminal import Column, Terminal, error_document

if TYPE_CHECKING:
    from fitzroy.testing.comparison import Change, Comparison

_LAYERS_SHOWN = 12


@dataclass(frozen=True)
class Shape:
    """What the comparison is printed as.

    Attributes:
        markdown: whether as a comment on a pull request.
        csv: whether as a table for spreadsheets.
        report: file for a page that shows both sides.
    """

    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull-request comment.")
    ] = False
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write the comparison as one HTML file.",
            show_default=False,
        ),
    ] = None

    def check(self, json: bool) -> None:
        """Refuse two shapes at a time.

        Raises:
            UsageError: names them.
        """
        given = {"--json": json, "--markdown": self.markdown, "--csv": self.csv}
        names = [name for name, wanted in given.items() if wanted]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} do not go together", hint="give one of them")

    def check_files(self, sides: Sequence[str]) -> None:
        """Refuse a report that cannot be written.

        Raises:
            UsageError: names the file.
        """
        if self.report is not None:
            check_output(self.report, sides)
            check_page(self.report)


@dataclass(frozen=True)
class Allowed:
    """What may change.

    Attributes:
        most: percent by which figures may get worse.
        figures: the figures that count.
        difference: the most that elements of outputs may differ by.
    """

    panel: ClassVar[str] = "Limits"

    most: Annotated[
        float | None,
        typer.Option(
            "--max-regression",
            metavar="PERCENT",
            min=0.0,
            help="Exit with 9 if a figure got worse by more than this.",
            show_default=False,
        ),
    ] = None
    figures: Annotated[
        str | None,
        typer.Option(
            "--figures",
            metavar="A,B",
            help="Figures that --max-regression applies to, as named in JSON and CSV. "
            "[dim]default: all[/dim]",
            show_default=False,
        ),
    ] = None
    difference: Annotated[
        float | None,
        typer.Option(
            "--max-difference",
            metavar="N",
            min=0.0,
            help="Exit with 9 if an output element differs by more than this, in quantized steps, "
            "or in real numbers if it is not quantized.",
            show_default=False,
        ),
    ] = None

    @property
    def names(self) -> list[str]:
        """The figures that count; empty for all.

        Raises:
            UsageError: there is no such figure, or no percentage for it.
        """
        from fitzroy.testing.figures import FIGURES

        found = [name.strip() for name in (self.figures or "").split(",") if name.strip()]
        strange = next((name for name in found if name not in FIGURES), None)
        if strange is not None:
            raise UsageError(
                f"no figure {strange[:80]!r}", reason=f"there are {', '.join(FIGURES)}"
            )
        if found and self.most is None:
            raise UsageError("--figures goes with --max-regression")
        return found


_FILE = "A compiled model, a package, or the --json output of compile, sim, bench or test."


def compare(
    old: Annotated[str, typer.Argument(metavar="OLD", help=_FILE, show_default=False)],
    new: Annotated[str, typer.Argument(metavar="NEW", help=_FILE, show_default=False)],
    printed: Printed,
    shape: Shape,
    allowed: Allowed,
    given: Given,
    where: timing.Assumed,
) -> None:
    """Show what changed between two compiled models: time, bytes, operators, layers, outputs.

    Models are timed on the timing model; documents have their own figures. With --input (a file,
    several, or a folder), both models run on the simulated chip and outputs are compared.

    A change is an error only if it exceeds a limit; then the exit code is 9.
    """
    from fitzroy.testing.comparison import OutputChange, compared
    from fitzroy.testing.reading import figures_of
    from fitzroy.testing.sidebyside import output_changes

    terminal = printed.terminal
    shape.check(terminal.json)
    shape.check_files((old, new))
    names = allowed.names
    conditions = where.speed.conditions
    sides = []
    with terminal.working("estimating") as progress:
        for number, path in enumerate((old, new)):
            progress(counted("model", number + 1, 2))
            sides.append(figures_of(path, conditions))
    samples, outputs = 0, tuple[OutputChange, ...]()
    if given.inputs:
        with terminal.working("running") as progress:
            samples, outputs = output_changes(
                (old, new), given.inputs, given.rule, allowed.difference or 0.0, progress
            )
    elif allowed.difference is not None:
        raise UsageError("--max-difference needs inputs", hint="give some: --input images/")
    found = compared(sides[0], sides[1], samples, outputs)
    worse = () if allowed.most is None else found.regressions(allowed.most, names)
    error = _judged(found, worse, allowed)
    _print(terminal, found, (worse, allowed.most), shape, error)
    if error is not None:
        raise typer.Exit(error.exit_code)


def _judged(found: Comparison, worse: Sequence[Change], allowed: Allowed) -> MismatchError | None:
    """The error for what changed beyond its limit; None if nothing did."""
    from fitzroy.testing import tables

    texts = [f"{item.kind.title} {tables.worse(item)}" for item in worse]
    if texts:
        return MismatchError(
            f"worse than before: {', '.join(texts)}",
            reason=f"at most {allowed.most:g} % are allowed",
            where=found.new,
        )
    if allowed.difference is not None and found.outputs:
        first = found.outputs[0]
        return MismatchError(
            f"outputs differ on {len({item.sample for item in found.outputs})} of "
            f"{found.samples} inputs",
            reason=f"{first.sample}: {first.deviation.output}: {first.deviation.text}",
            where=found.new,
        )
    return None


def _print(
    terminal: Terminal,
    found: Comparison,
    judged: tuple[Sequence[Change], float | None],
    shape: Shape,
    error: MismatchError | None,
) -> None:
    """Print a comparison in the shape that is wanted, and what is wrong with it."""
    from fitzroy.testing import tables

    if shape.report is not None:
        from fitzroy.report.comparison import page

        content = tables.document(found, judged[0])
        write_files([(shape.report, text_bytes(page(content)))])
        terminal.note(f"wrote {shape.report}")
    if terminal.json:
        content = tables.document(found, judged[0])
        wrong = {} if error is None else {"error": error_document(error)}
        terminal.document("compare", content | wrong)
        return
    if shape.markdown:
        terminal.raw(tables.markdown(found, *judged))
    elif shape.csv:
        terminal.raw(tables.table(found))
    else:
        _show(terminal, found)
    if error is not None:
        terminal.error(error)


def _show(terminal: Terminal, found: Comparison) -> None:
    """Print tables for people."""
    from fitzroy.testing import tables

    titles = ("before", "after", "change")
    columns = [Column("figure"), *(Column(title, right=True) for title in titles)]
    terminal.table(columns, [_cells(item.kind.title, item) for item in tables.shown(found)])
    same = len(found.figures) - len(tables.shown(found))
    if same:
        terminal.line(f"{same} more figures are the same")
    for text in tables.moved(found):
        terminal.line(text)
    if found.layers:
        layers = tables.largest(found)
        shown = f", the {_LAYERS_SHOWN} that changed most" if len(layers) > _LAYERS_SHOWN else ""
        terminal.heading(f"{len(layers)} layers changed{shown}")
        columns[0] = Column("layer", keep=True, short=True)
        terminal.table(columns, [_cells(item.name, item) for item in layers[:_LAYERS_SHOWN]])
    if found.samples:
        terminal.heading(tables.sentence(found))
        for item in found.outputs[:_LAYERS_SHOWN]:
            terminal.line(f"{item.sample}, {item.deviation.output}: {item.deviation.text}")


def _cells(title: str, item: Change) -> list[str]:
    from fitzroy.testing import tables

    values = (tables.value(item, item.old), tables.value(item, item.new))
    return [title, *values, tables.change(item)]


compare_command = Verb(
    compare,
    (
        "fitzroy compare old_edgetpu.tflite new_edgetpu.tflite",
        "fitzroy compare old_edgetpu.tflite new_edgetpu.tflite -i in/",
        "fitzroy compare old.json new.json --max-regression 5 --markdown",
        "fitzroy compare old.json new.json --report changes.html",
        "fitzroy compare a.json b.json --max-regression 2 --figures cycles --csv",
    ),
)

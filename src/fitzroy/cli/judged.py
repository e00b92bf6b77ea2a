"""Options that say what outputs and times have to be, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from fitzroy.base.errors import MismatchError, UsageError
from fitzroy.base.types import Array
from fitzroy.cli.terminal import Terminal, error_document
from fitzroy.report import units

if TYPE_CHECKING:
    from fitzroy.testing.expected import Deviation


@dataclass(frozen=True)
class Judged:
    """What outputs and times have to be.

    Attributes:
        expect: file or folder with expected outputs.
        tolerance: the most that elements may differ by.
        max_us: the most microseconds of an inference.
    """

    panel: ClassVar[str] = "Limits"

    expect: Annotated[
        str | None,
        typer.Option(
            "--expect",
            metavar="FILE",
            help="Exit with 9 if outputs differ from these: a .npy or .npz file from --output, a "
            "document from --json, or a folder with one file per input.",
            show_default=False,
        ),
    ] = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            metavar="N",
            min=0.0,
            help="Largest accepted difference from --expect, in steps of quantized outputs. "
            "[dim]default: 0[/dim]",
            show_default=False,
        ),
    ] = None
    max_us: Annotated[
        float | None,
        typer.Option(
            "--max-us",
            metavar="N",
            min=0.0,
            help="Exit with 9 if an inference takes more microseconds than this.",
            show_default=False,
        ),
    ] = None

    @property
    def given(self) -> dict[str, object]:
        """All values by option."""
        return {"--expect": self.expect, "--max-us": self.max_us}

    def check(self) -> None:
        """Refuse options that have no effect.

        Raises:
            UsageError: a tolerance without anything to compare with.
        """
        if self.tolerance is not None and self.expect is None:
            raise UsageError("--tolerance goes with --expect")

    def deviations(
        self, sample: str, outputs: Sequence[tuple[str, Array]]
    ) -> list[tuple[str, Deviation]]:
        """Outputs of an inference that are not as expected, with its name.

        Args:
            sample: the inference.
            outputs: its outputs by name, in order.

        Raises:
            UsageError: expected outputs cannot be read, or are others than there are.
            FormatError: their file is malformed.
        """
        from fitzroy.testing.expected import read_expected

        if self.expect is None:
            return []
        expected = read_expected(self.expect, sample)
        return [(sample, item) for item in expected.deviations(outputs, self.tolerance or 0.0)]


@dataclass(frozen=True)
class Judgement:
    """What became of expectations.

    Attributes:
        asked: what was expected.
        inferences: how many there were.
        deviations: outputs that are not as expected, with their inferences.
        us: microseconds of an inference; None if nobody asked.
    """

    asked: Judged
    inferences: int
    deviations: Sequence[tuple[str, Deviation]]
    us: float | None

    @property
    def late(self) -> bool:
        """Whether an inference takes longer than it may."""
        return self.asked.max_us is not None and self.us is not None and self.us > self.asked.max_us

    @property
    def error(self) -> MismatchError | None:
        """What is not as expected; None if all is."""
        if self.deviations:
            sample, first = self.deviations[0]
            place = f"{sample}, " if self.inferences > 1 else ""
            differ = len({name for name, _ in self.deviations})
            many = f" of {differ} of {self.inferences} inferences" if self.inferences > 1 else ""
            return MismatchError(
                f"outputs{many} are not as expected",
                reason=f"{place}{first.output}: {first.text}",
                where=self.asked.expect or "",
            )
        if self.late:
            assert self.us is not None
            assert self.asked.max_us is not None
            return MismatchError(
                f"an inference takes {units.time(self.us)}",
                reason=f"{self.us:.1f} µs, at most {self.asked.max_us:g} µs are allowed",
            )
        return None

    @property
    def document(self) -> dict[str, Any]:
        """The same for JSON."""
        asked, error = self.asked, self.error
        expected = {
            "file": asked.expect,
            "tolerance": asked.tolerance or 0.0,
            "deviations": [
                {
                    "sample": sample,
                    "output": item.output,
                    "elements": item.elements,
                    "largest": item.largest,
                    "text": item.text,
                }
                for sample, item in self.deviations
            ],
        }
        return {
            "expected": None if asked.expect is None else expected,
            "limit": None if asked.max_us is None else {"max_us": asked.max_us, "us": self.us},
            **({} if error is None else {"error": error_document(error)}),
        }

    def finish(self, terminal: Terminal) -> None:
        """Say what came out; the document has it already.

        Raises:
            typer.Exit: with 9 if something is not as expected.
        """
        error = self.error
        if error is None:
            if self.asked.expect is not None and not terminal.json:
                terminal.note(f"outputs are those of {self.asked.expect}")
            return
        if not terminal.json:
            terminal.error(error)
        raise typer.Exit(error.exit_code)

"""Parts of help texts and options that verbs share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fitzroy.base.errors import UsageError
from fitzroy.cli.terminal import Terminal

if TYPE_CHECKING:
    from fitzroy.execution.arrays import Normalization

REST = "Options"
"""Heading of options that belong to no panel."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the command line.

    Attributes:
        function: what the parser calls; its signature declares the arguments, its docstring is
            the help text.
        examples: command lines for the end of the help text.
    """

    function: Callable[..., Any]
    examples: tuple[str, ...]

    @property
    def text(self) -> str:
        """The help text, one line per paragraph, because terminals differ in width."""
        paragraphs = inspect.cleandoc(self.function.__doc__ or "").split("\n\n")
        return "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)


@dataclass(frozen=True, slots=True)
class VerbGroup:
    """Several verbs of the command line under one name.

    Attributes:
        text: what they are for.
        verbs: them, by name.
        examples: command lines for the end of the help text.
    """

    text: str
    verbs: Mapping[str, Verb]
    examples: tuple[str, ...]


Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document, also for errors.",
        show_default=False,
        rich_help_panel=REST,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Print only warnings and errors.", rich_help_panel=REST),
]
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME",
        help="What to compile for: edgetpu, xnnpack, portable (ExecuTorch without delegate), vm (a "
        "module whose host computes everything), or a target of another package. "
        "[dim]default: edgetpu for quantized models, else xnnpack; the name of the output decides "
        "too[/dim]",
        show_default=False,
    ),
]
OptionTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="An option of a target of another package; once per option.",
        show_default=False,
    ),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(
        "--outputs",
        metavar="A,B",
        help="Take only the part of the model that computes these values.",
        show_default=False,
    ),
]
Passes = Annotated[
    list[str] | None,
    typer.Option("--passes", metavar="A,B", help="Passes to run first, in order."),
]
InputFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]X",
        help="An image, a .npy file, or the tensor's raw bytes; once per input. Or a .npz archive "
        "with arrays named after the inputs. Several files for an input, or a folder, are several "
        "inferences.",
        show_default=False,
        rich_help_panel="Inputs",
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean",
        metavar="M",
        help="For images: real = (pixel - M) / S; one number, or one per channel.",
        show_default=False,
        rich_help_panel="Inputs",
    ),
]
Std = Annotated[
    str | None,
    typer.Option(
        "--std", metavar="S", help="See --mean.", show_default=False, rich_help_panel="Inputs"
    ),
]


@dataclass(frozen=True)
class Printed:
    """What a verb prints.

    Attributes:
        json: whether to print one JSON document.
        quiet: whether to leave out remarks.
    """

    json: Json = False
    quiet: Quiet = False

    @property
    def terminal(self) -> Terminal:
        """Where it goes."""
        return Terminal(json=self.json, quiet=self.quiet)


@dataclass(frozen=True)
class Given:
    """Inputs.

    Attributes:
        inputs: their files.
        mean: what is subtracted from pixels of images.
        std: what pixels are divided by.
    """

    inputs: InputFiles = None
    mean: Mean = None
    std: Std = None

    @property
    def rule(self) -> Normalization | None:
        """What pixels become; None for the usual.

        Raises:
            UsageError: a text that is no list of numbers, or a standard deviation of 0.
        """
        from fitzroy.execution.arrays import Normalization

        return Normalization.parse(self.mean, self.std)


OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="Y.npy",
        help="Write the outputs: a single one to Y.npy, several to Y_0.npy, Y_1.npy..., or all to "
        "Y.npz; for several inferences, to a folder.",
        show_default=False,
        rich_help_panel="Outputs",
    ),
]
CompiledFile = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A compiled model (*_edgetpu.tflite), a DarwiNN package or executable.",
        show_default=False,
    ),
]
PackageNumber = Annotated[
    int | None,
    typer.Option(
        "--package",
        metavar="N",
        help="The N-th package of a model with several, counted from 0.",
        show_default=False,
    ),
]
SourceFile = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="MODEL",
        help="The source model, for the names of layers; models compiled by FitzRoy contain them.",
        show_default=False,
        rich_help_panel="Simulated chip",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        help="Randomize the order of engines and the initial contents of memories.",
        show_default=False,
        rich_help_panel="Simulated chip",
    ),
]
LatitudeOption = Annotated[
    str | None,
    typer.Option(
        "--latitude",
        metavar="SPEC",
        help="Complete operations late, keep queues short, and stop units at random (with --seed). "
        "published: as far as all published programs tolerate; any: also without orders that rely "
        "on timing; or single settings, as in stores=300,sums=8,queues=2,delays.",
        show_default=False,
        rich_help_panel="Simulated chip",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Names of classes, one per line. [dim]default: those that the model has[/dim]",
        show_default=False,
        rich_help_panel="Outputs",
    ),
]
ModelLabels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Names of classes, one per line, to put into the TFLite model in place of any that it "
        "has.",
        show_default=False,
    ),
]
Top = Annotated[
    int | None,
    typer.Option(
        "--top",
        metavar="K",
        min=1,
        help="Show the K best classes, or objects of a detector, also with --json and --draw. "
        "[dim]default: 5 classes, and all objects[/dim]",
        show_default=False,
        rich_help_panel="Outputs",
    ),
]
_CLASSES = 5
"""Classes that are shown if nothing is said of that."""


@dataclass(frozen=True)
class Written(Printed):
    """Where outputs go, and how they are shown.

    Attributes:
        output: file for the outputs.
        labels: names of classes.
        top: how many of the best to show; None for the usual.
    """

    output: OutputFile = None
    labels: Labels = None
    top: Top = None

    @property
    def classes(self) -> int:
        """How many of the best classes are shown."""
        return self.top or _CLASSES

    @property
    def names(self) -> dict[int, str] | None:
        """Names of classes that are given; None if none are.

        Raises:
            UsageError: the file cannot be read.
        """
        from fitzroy.execution.arrays import load_labels

        return None if self.labels is None else load_labels(self.labels)


DeviceName = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="For compiled models. usb or usb:PATH: an accelerator; sim: a simulated one; "
        "sim:direct: the simulated chip without USB; replay:FILE: a recorded session; twin:MODEL: "
        "the source model in the chip's arithmetic, fast and without cycles; auto: an accelerator "
        "if there is one, else sim. [dim]default: auto[/dim]",
        show_default=False,
        rich_help_panel="Device",
    ),
]
DeviceNames = Annotated[
    str | None,
    typer.Option(
        "--devices",
        metavar="A,B,...",
        help="For a model in segments, one of which is FILE: device names as for --device, one per "
        "segment, followed by spares; sim:3 stands for three simulated ones. The segments compute "
        "at the same time.",
        show_default=False,
        rich_help_panel="Device",
    ),
]
ProvenCount = Annotated[
    int | None,
    typer.Option(
        "--prove",
        metavar="N",
        min=1,
        help="Repeat the first N inferences on the simulated chip, and compare every byte.",
        show_default=False,
        rich_help_panel="Device",
    ),
]
FirmwareFile = Annotated[
    Path | None,
    typer.Option(
        "--firmware",
        metavar="FILE",
        help="The accelerator's firmware, or a libedgetpu that contains it. "
        "[dim]default: FITZROY_FIRMWARE, or an installed libedgetpu[/dim]",
        show_default=False,
        rich_help_panel="Device",
    ),
]
DeviceSeconds = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="S",
        min=0.001,
        max=86_400.0,
        help="Time limit of an inference on the device, in seconds. [dim]default: 30, extended "
        "while a simulated chip computes[/dim]",
        show_default=False,
        rich_help_panel="Device",
    ),
]
RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="S.jsonl",
        help="Record all USB traffic, for --device replay:S.jsonl.",
        show_default=False,
        rich_help_panel="Device",
    ),
]


def pass_names(texts: Sequence[str] | None) -> list[str]:
    """Names of passes in the option ``--passes``."""
    names = (part.strip() for text in texts or () for part in text.split(","))
    return [name for name in names if name]


def option_values(texts: Sequence[str] | None) -> dict[str, str]:
    """Values of the option ``--option`` by name.

    Raises:
        UsageError: a text is not NAME=VALUE.
    """
    found = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text}", reason="it has no value", hint="write NAME=VALUE")
        found[name.replace("-", "_")] = value
    return found

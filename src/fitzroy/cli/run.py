"""``fitzroy run``: a program or a model on inputs, and bundled programs on their test cases."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar

import numpy as np
import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.cli.batches import check_folder, folder_files, refuse_for_many, write_folder
from fitzroy.cli.bundles import verify
from fitzroy.cli.compiled import DeviceChoice
from fitzroy.cli.files import check_output, write_files
from fitzroy.cli.help import Given, Verb, Written
from fitzroy.cli.judged import Judged, Judgement
from fitzroy.cli.models import reading_of, split_inputs
from fitzroy.cli.outputs import (
    describe_output,
    judge_labels,
    judge_object_labels,
    score_names,
    show_outputs,
)
from fitzroy.cli.runners import (
    BUNDLES,
    ArithmeticChoice,
    Options,
    Runner,
    RuntimeChoice,
    refuse,
    runner_of,
)
from fitzroy.cli.terminal import Terminal
from fitzroy.compiler.passes.heads.options import HeadOptions
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port, Sample, samples
from fitzroy.formats.detect import detect
from fitzroy.formats.npy import read_npy
from fitzroy.formats.npz import read_npz


@dataclass(frozen=True)
class Execution:
    """What runs, and how; what does not fit the file is refused.

    Attributes:
        runtime: what runs programs, or operators that are not on the Edge TPU.
        arithmetic: whose rounding.
        threads: threads of the runtime.
        method: method of a program, or function of a module.
        real: whether quantized inputs and outputs are given and written as real numbers.
    """

    panel: ClassVar[str] = "Runtime"

    runtime: Annotated[
        RuntimeChoice,
        typer.Option(
            "--runtime",
            help="For programs: ExecuTorch's runtime, or numpy. For models: LiteRT in place of the "
            "reference semantics.",
        ),
    ] = RuntimeChoice.AUTO
    arithmetic: Annotated[
        ArithmeticChoice | None,
        typer.Option(
            "--arithmetic",
            help="For models: the rounding to use. [dim]default: xnnpack[/dim]",
            show_default=False,
        ),
    ] = None
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, help="Threads of the runtime.", show_default=False
        ),
    ] = None
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Method of a program, or function of a module. [dim]default: forward or main, or"
            " the first[/dim]",
            show_default=False,
        ),
    ] = None
    real: Annotated[
        bool,
        typer.Option(
            "--float",
            help="Use float32 for quantized inputs and outputs, in the units of the model before "
            "quantization. Images become pixel / 255, or use --mean and --std.",
        ),
    ] = False


@dataclass(frozen=True)
class RunOutputs(Written):
    """Where outputs of any program go.

    Attributes:
        raw_output: whether to write bare bytes.
        draw: file for the picture with what a detector found.
    """

    panel: ClassVar[str] = "Outputs"

    raw_output: Annotated[
        bool, typer.Option("--raw-output", help="Write bare bytes instead of .npy.")
    ] = False
    draw: Annotated[
        Path | None,
        typer.Option(
            "--draw",
            metavar="FILE",
            help="For detectors: write the input picture with boxes, masks and keypoints in it.",
            show_default=False,
        ),
    ] = None

    def write(self, pairs: Sequence[tuple[Port, Array]], name: str | None = None) -> list[str]:
        """Write outputs, if that is wanted; the names of the files.

        Args:
            pairs: the outputs.
            name: which of several inferences they are of; None for the only one.
        """
        if self.output is None:
            return []
        named = [(port.name, result) for port, result in pairs]
        if name is not None:
            files = folder_files(self.output, name, named, raw=self.raw_output)
            return write_folder(self.output, files)
        files = arrays.output_files(self.output, named, raw=self.raw_output)
        write_files(files)
        return [os.fspath(path) for path, _ in files]


def run(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A .pte or .bpte program, a .tflite model, compiled for the Edge TPU or not, an "
            ".onnx model, a bytecode module, or a graph in text form.",
        ),
    ],
    given: Given,
    written: RunOutputs,
    how: Execution,
    heads: HeadOptions,
    device: DeviceChoice,
    judged: Judged,
) -> None:
    """Run a program or a model, or check the test cases of a bundled program.

    A program (.pte) runs on ExecuTorch's runtime if it is installed, else on a numpy model of the
    runtime. A model (.tflite or .onnx) runs by its reference semantics. For a model that is
    compiled for the Edge TPU (*_edgetpu.tflite), the device runs the compiled parts and the host
    the other operators; fitzroy sim looks inside the simulated chip. A bytecode module itself
    defines what runs where.

    Images are resized to the input, grey or RGB. 8-bit inputs get the pixel plus the smallest value
    of the type (uint8: 0, int8: -128), float inputs get pixel / 255, unless --mean and --std are
    given. Arrays for ONNX models have the model's own order of dimensions, and determine its open
    dimensions. An archive (.npz) is for all inputs that no other file is named for. Pictures
    determine no dimensions: --input also takes shapes and values of inputs, as in [b]fitzroy
    compile[/b].

    Several files for an input, or a folder, are several inferences, each starting with zero state.
    --max-us applies to the median of their times.
    """
    terminal = written.terminal
    data = read_file(file)
    kind = detect(data, file)
    options = Options(how.runtime, how.arithmetic, how.threads, how.method, device, heads=heads)
    if kind in BUNDLES and not given.inputs:
        heads.check()
        others: dict[str, object] = {"--output": written.output, "--labels": written.labels}
        others |= {"--mean": given.mean, "--std": given.std, "--float": how.real or None}
        others |= judged.given
        others |= {"--draw": written.draw, "--detections": heads.detections or None}
        refuse("checking a bundled program", others, file)
        device.refuse(file)
        verify(terminal, data, file, options)
        return
    if written.output is None and written.raw_output:
        raise UsageError("--raw-output needs --output")
    judged.check()
    names = written.names
    said, specs = split_inputs(given.inputs or [])
    options = replace(options, how=reading_of(said), arrays=_shapes(specs))
    with ExitStack() as stack:
        runner = runner_of(data, file, kind, options, stack)
        job = _Job(runner, given.rule, how.real, file, names)
        chosen = samples(job.ports, specs, file)
        _check_targets(job, chosen, written, judged)
        document: dict[str, Any] = {"file": file, "kind": kind.value, "ran_on": runner.how}
        inferences, deviations = [], []
        for sample, pairs, entry in job.run(terminal, chosen, written):
            outputs = [(port.name, array) for port, array in pairs]
            # Expectations that cannot be read leave nothing behind.
            deviations += judged.deviations(sample.name, outputs)
            entry["written"] += written.write(pairs, sample.name if len(chosen) > 1 else None)
            inferences.append({"name": sample.name, **entry})
            if not written.json:
                if len(chosen) > 1:
                    terminal.heading(sample.name)
                show_outputs(terminal, document | entry)
    us = 1e6 * median(item["seconds"] for item in inferences)
    judgement = Judgement(judged, len(chosen), deviations, us)
    if written.json and len(chosen) > 1:
        document |= {"inferences": inferences}
        terminal.document("run-batch", document | judgement.document)
    elif written.json:
        del inferences[0]["name"]
        terminal.document("run", document | inferences[0] | judgement.document)
    if names is not None and "objects" in inferences[0]:
        judge_object_labels(terminal, names, chain(*(item["objects"] for item in inferences)))
    elif names is not None:
        judge_labels(terminal, names, runner.outputs)
    judgement.finish(terminal)


@dataclass
class _Job:
    """What runs, and how files become its inputs.

    Attributes:
        runner: what runs.
        rule: what pixels become.
        real: whether quantized inputs and outputs are given and written as real numbers.
        path: the file of the model.
        names: names of classes that are given; None for those of the model.
    """

    runner: Runner
    rule: arrays.Normalization | None
    real: bool
    path: str
    names: dict[int, str] | None
    _reading: float = 0.0

    @property
    def _labels(self) -> dict[int, str]:
        """Names of classes that the model has."""
        return {} if self.runner.graph is None else self.runner.graph.labels

    @property
    def ports(self) -> Sequence[Port]:
        """Inputs as they are given."""
        inputs = self.runner.inputs
        return [_real(port) for port in inputs] if self.real else inputs

    def run(
        self, terminal: Terminal, chosen: Sequence[Sample], written: RunOutputs
    ) -> Iterator[tuple[Sample, list[tuple[Port, Array]], dict[str, Any]]]:
        """Each inference with its outputs, and what to say of it."""
        results = self._results(terminal, chosen)
        for sample, (found, elapsed) in zip(chosen, results, strict=True):
            yield sample, *self._told(sample, found, elapsed, written)

    def _results(
        self, terminal: Terminal, chosen: Sequence[Sample]
    ) -> Iterator[tuple[Sequence[Array], float]]:
        """Outputs of each inference, and the seconds since those of the one before."""
        runner = self.runner
        many = runner.many or (lambda images: map(runner.run, images))
        results = many(map(self._values, chosen))
        while True:
            with terminal.working(f"running on {runner.how}"):
                # Files are read meanwhile, if several inferences are under way.
                start = time.perf_counter()
                found = next(results, None)
                elapsed = time.perf_counter() - start - (0 if runner.many else self._reading)
            if found is None:
                return
            yield found, elapsed if runner.seconds is None else runner.seconds()

    def _values(self, sample: Sample) -> list[Array]:
        """Inputs of an inference."""
        start = time.perf_counter()
        values = sample.read(self.ports, self.rule)
        if self.real:
            stored = zip(self.runner.inputs, values, strict=True)
            values = [_stored(port, x, self.path) for port, x in stored]
        self._reading = time.perf_counter() - start
        return values

    def _told(
        self, sample: Sample, results: Sequence[Array], elapsed: float, written: RunOutputs
    ) -> tuple[list[tuple[Port, Array]], dict[str, Any]]:
        """Outputs of an inference, and what to say of it."""
        runner, top = self.runner, written.classes
        pairs = list(zip(runner.outputs, results, strict=True))
        if self.real:
            pairs = [(_real(port), _meant(port, result)) for port, result in pairs]
        document: dict[str, Any] = {
            "inputs": list(sample.files),
            "seconds": elapsed,
            "parts": runner.parts(),
            "outputs": [
                describe_output(port, x, top, score_names(self.names, self._labels, port))
                for port, x in pairs
            ],
        }
        document["written"] = self._draw(sample, results, document, written)
        return pairs, document

    def _draw(
        self,
        sample: Sample,
        results: Sequence[Array],
        document: dict[str, Any],
        written: RunOutputs,
    ) -> list[str]:
        """Say what a detector found, and draw it; the files of the picture."""
        from fitzroy.cli.objects import drawn
        from fitzroy.execution.objects import best_objects, objects_of

        graph = self.runner.graph
        names = (self._labels or None) if self.names is None else self.names
        objects = None if graph is None else objects_of(graph, results)
        if objects is not None:
            objects = best_objects(objects, written.top)
            document["objects"] = [item.document(names) for item in objects]
            for report in document["outputs"]:
                # Not a ranking of classes.
                report.pop("top", None)
        if written.draw is None or objects is None:
            return []
        picture = _picture(sample.files, written.draw)
        write_files([(written.draw, drawn(picture, objects, names, written.draw))])
        return [os.fspath(written.draw)]


def _check_targets(
    job: _Job, chosen: Sequence[Sample], written: RunOutputs, judged: Judged
) -> None:
    """Refuse results that cannot be written, and limits without meaning.

    Raises:
        UsageError: names the file or the option.
    """
    if len(chosen) > 1:
        check_folder(written.output, chosen)
        refuse_for_many(chosen, {"--draw": written.draw})
    for target in (written.output, written.draw) if len(chosen) == 1 else ():
        if target is not None:
            check_output(target, [job.path, *chosen[0].files])
    if written.output is not None and len(chosen) == 1:
        arrays.check_suffix(written.output, raw=written.raw_output)
    if written.draw is not None:
        _check_drawing(job, chosen[0], written.draw)
    if judged.max_us is not None and job.runner.simulated:
        raise UsageError(
            f"--max-us has no meaning on {job.runner.how}",
            reason="its time is that of the simulation",
            hint="limit the predicted time: fitzroy sim --max-us",
        )


def _check_drawing(job: _Job, sample: Sample, target: Path) -> None:
    """Refuse a picture that cannot be drawn.

    Raises:
        UsageError: the model is no detector, its input is no picture, or none is written so.
    """
    from fitzroy.cli.objects import picture_format
    from fitzroy.execution.objects import listing

    if job.runner.graph is None or listing(job.runner.graph) is None:
        raise UsageError("--draw is for detectors", where=job.path, hint=_HOW_TO_LIST)
    _picture(sample.files, target)
    picture_format(target)


_HOW_TO_LIST = (
    "if the model finds objects, give --detections here, or to fitzroy compile if it is compiled"
)


def _picture(specs: Sequence[str], output: Path) -> str:
    """The input that is a picture.

    Raises:
        UsageError: there is none.
    """
    for spec in specs:
        path = spec if os.path.exists(spec) else spec.partition("=")[2]
        if Path(path).suffix.lower() in arrays.IMAGE_SUFFIXES:
            return path
    raise UsageError("--draw needs a picture as input", where=os.fspath(output))


def _shapes(specs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shapes of arrays that are given, by the name or the number of the input."""
    found = {}
    for number, spec in enumerate(specs):
        name, equals, path = spec.partition("=")
        if not equals or os.path.exists(spec):
            name, path = str(number), spec
        if path.endswith(".npy") and os.path.isfile(path):
            found[name] = read_npy(read_file(path), path).shape
        elif arrays.is_archive(path) and os.path.isfile(path):
            held = read_npz(read_file(path), path)
            found |= {key: array.shape for key, array in held.items()}
            if len(held) == 1:
                # An array alone need not have the name of its input.
                (found[name],) = (array.shape for array in held.values())
    return found


# --- real numbers for quantized ones ---


def _real(port: Port) -> Port:
    """An input or output as real numbers, if it is quantized."""
    return Port(port.name, port.type.real()) if port.type.is_quantized else port


def _stored(port: Port, real: Array, path: str) -> Array:
    """What stands for real numbers in an input.

    Raises:
        UsageError: some are no numbers.
    """
    if not port.type.is_quantized:
        return real
    if np.isnan(real).any():
        raise UsageError(
            f"input {port.name!r} has {int(np.isnan(real).sum())} elements that are no numbers",
            reason=f"it is {port.type}, which has nothing for them",
            where=path,
        )
    return arrays.stored_values(real, port.type)


def _meant(port: Port, stored: Array) -> Array:
    """The real numbers of an output."""
    if not port.type.is_quantized:
        return stored
    return arrays.real_values(stored, port.type).astype(np.float32)


run_command = Verb(
    run,
    (
        "fitzroy run model.pte --input photo.png --labels labels.txt",
        "fitzroy run model.pte --input left=a.npy --input right=b.npy -o y.npz",
        "fitzroy run model.onnx -i inputs.npz -o outputs.npz",
        "fitzroy run model.tflite -i photo.png --mean 127.5 --std 127.5 --top 3",
        "fitzroy run model_quant.tflite -i x.npy -o y.npy --float",
        "fitzroy run model.bpte",
        "fitzroy run model_edgetpu.tflite --device usb -i photo.png --top 3",
        "fitzroy run yolo_edgetpu.tflite -i a.jpg --labels coco.txt --draw out.png",
        "fitzroy run model_edgetpu.tflite --device sim -i x.npy --record s.jsonl",
        "fitzroy run model_edgetpu.tflite --device usb -i images/ -o outputs/",
        "fitzroy run m_edgetpu.tflite --device usb -i in/ --expect out/ --max-us 3000",
    ),
)

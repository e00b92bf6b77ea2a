"""``fitzroy sim``: compiled Edge TPU models on the simulated chip."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fitzroy.base.errors import FitzroyError, SimulationError, UsageError
from fitzroy.base.progress import Progress
from fitzroy.base.types import Array
from fitzroy.cli import chip_state, timing
from fitzroy.cli.batches import check_folder, folder_files, refuse_for_many, write_folder
from fitzroy.cli.files import check_output, check_page, write_files
from fitzroy.cli.help import CompiledFile, Given, Verb
from fitzroy.cli.judged import Judged, Judgement
from fitzroy.cli.outputs import describe_output, judge_labels, score_names, show_outputs
from fitzroy.cli.sim_options import Chip, SimOutputs, Stops, Times
from fitzroy.cli.terminal import Column, Terminal, count
from fitzroy.execution import arrays
from fitzroy.execution.inputs import Port, Sample, samples

if TYPE_CHECKING:
    from fitzroy.driver.runtime.debugger import Debugger
    from fitzroy.execution.programs import EdgeTpuProgram, Simulation
    from fitzroy.hw_models.edgetpu.latitude import Latitude
    from fitzroy.report.run import Run as Inference

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_TELL_SECONDS = 0.1
"""How often progress is shown."""


def sim(
    file: CompiledFile,
    given: Given,
    written: SimOutputs,
    chip: Chip,
    times: Times,
    stops: Stops,
    judged: Judged,
) -> None:
    """Run a compiled Edge TPU model on the simulated chip.

    Executes every instruction; outputs have the values that the device computes. A timing model
    then shows how long an inference takes with loaded parameters, and what bounds it; --functional
    skips this. Only the Edge TPU operator is simulated. Other operators of the model are left out:
    inputs and outputs are those of the Edge TPU operator.

    State that a model keeps between inferences, such as that of an LSTM, is zero.

    Several files for an input, or a folder, are several inferences on freshly powered chips. Only
    the first one is timed, because time does not depend on data.

    A correct program gives the same outputs with every --seed, and with every --latitude up to
    published. A deadlock is reported with what each engine waits for (exit code 8), and memories
    are still dumped.
    """
    from fitzroy.execution.programs import EdgeTpuProgram

    judged.check()
    timed = _is_timed(written, times, stops, judged)
    speed = timing.Speed.of(times.clock, times.usb, times.host, times.driver)
    freedom = chip.freedom()
    dumps = stops.dumps()
    program = EdgeTpuProgram.load(file, chip.package)
    if chip.source is not None:
        program = program.named_by(chip.source)
    if given.inputs and not program.inputs:
        raise UsageError("the program takes no inputs", where=file, hint="leave out --input")
    ports = [Port(name, type) for name, type in program.inputs.items()]
    job = _Job(program, ports, given.rule, chip, freedom, speed if timed else None)
    chosen = samples(ports, given.inputs or [], file)
    if written.names is not None:
        named = [Port(name, type) for name, type in program.outputs.items()]
        judge_labels(written.terminal, written.names, named)
    if len(chosen) > 1:
        others = {"--raw-output": written.raw_output, "--stop-at": stops.stop_at}
        refuse_for_many(chosen, {**others, "--dump": stops.dump or None, **times.files})
        _several(job, chosen, written, judged)
        return
    _check_targets([file, *chosen[0].files], written.files | times.files, dumps)
    if times.report is not None:
        check_page(times.report)
    if written.output is not None:
        arrays.check_suffix(written.output, raw=False)
    _once(job, chosen[0], (written, times, judged), stops, dumps)


@dataclass(frozen=True)
class _Job:
    """What is simulated, and how.

    Attributes:
        program: the program.
        ports: its inputs.
        rule: what pixels become.
        chip: the chip.
        freedom: how late and how irregular units are.
        speed: how fast chip and host are; None to leave time out.
    """

    program: EdgeTpuProgram
    ports: Sequence[Port]
    rule: arrays.Normalization | None
    chip: Chip
    freedom: Latitude
    speed: timing.Speed | None

    def started(self, sample: Sample, *, record: bool) -> Debugger:
        """A run on files, before its first instruction.

        Args:
            sample: the files.
            record: whether it is to be timed.
        """
        from fitzroy.driver.runtime.debugger import Debugger

        seed, freedom = self.chip.seed, self.freedom
        run = self.program.start(self.inputs(sample), seed=seed, latitude=freedom, record=record)
        return Debugger(run, self.program.steps)

    def inputs(self, sample: Sample) -> dict[str, Array]:
        """Inputs by name, from files."""
        return dict(zip(self.program.inputs, sample.read(self.ports, self.rule), strict=True))

    def timed(self, terminal: Terminal, result: Simulation) -> Inference | None:
        """When everything in a run happened; None if time is left out."""
        speed = self.speed
        if speed is None:
            return None
        with terminal.working("timing"):
            return self.program.timed(
                result.device, clock=speed.clock, host=speed.profile, driver=speed.driver
            )


def _once(
    job: _Job,
    sample: Sample,
    options: tuple[SimOutputs, Times, Judged],
    stops: Stops,
    dumps: Sequence[chip_state.Dump],
) -> None:
    """One inference.

    Raises:
        typer.Exit: something is not as expected.
    """
    written, times, judged = options
    terminal, program = written.terminal, job.program
    debugger = job.started(sample, record=job.speed is not None)
    elapsed = _simulated(terminal, program, debugger, stops, dumps)
    files = _dumped(debugger, stops, dumps)
    document = _about(program, job.chip) | {"inputs": list(sample.files)}
    document |= {"instructions": debugger.place().instructions, "seconds": elapsed}
    inference, deviations = None, []
    if debugger.outputs is None:
        document |= {"stopped": chip_state.state(debugger, stops.tile)}
    else:
        if stops.stop_at is not None:
            terminal.warn(f"the program ended without coming to {stops.stop_at}")
        result = program.finished(debugger.outputs)
        inference = job.timed(terminal, result)
        document |= {"stopped": None, **_results(program, result, written)}
        files += _output_files(result, written.output, written.raw_output)
        deviations = judged.deviations(sample.name, [*result.outputs.items()])
    if inference is not None:
        files += timing.files(inference, times.trace, times.report)
    write_files(files)
    document["written"] = [os.fspath(path) for path, _ in files]
    judgement = Judgement(judged, 1, deviations, _microseconds(inference))
    if written.json:
        document |= {"timing": timing.document(inference)}
        terminal.document("sim", document | judgement.document)
    else:
        _tell(terminal, document, inference)
    judgement.finish(terminal)


def _microseconds(inference: Inference | None) -> float | None:
    return None if inference is None else inference.timeline.total


def _several(job: _Job, chosen: Sequence[Sample], written: SimOutputs, judged: Judged) -> None:
    """Several inferences, of which the first is timed; the others are simulated together.

    Raises:
        typer.Exit: something is not as expected.
    """
    terminal, program = written.terminal, job.program
    check_folder(written.output, chosen)
    document = _about(program, job.chip)
    inferences: list[dict[str, Any]] = []
    paths: list[str] = []
    deviations, inference = [], None
    for sample, result, elapsed in _results_of(terminal, job, chosen):
        if not inferences:
            inference = job.timed(terminal, result)
        outputs = [*result.outputs.items()]
        deviations += judged.deviations(sample.name, outputs)
        inferences.append(
            {
                "name": sample.name,
                "inputs": list(sample.files),
                "instructions": result.device.instructions,
                "seconds": elapsed,
                **_results(program, result, written),
            }
        )
        if written.output is not None:
            paths += write_folder(
                written.output, folder_files(written.output, sample.name, outputs)
            )
        if not written.json:
            _tell_one(terminal, document | inferences[-1])
    judgement = Judgement(judged, len(chosen), deviations, _microseconds(inference))
    if written.json:
        document |= {"inferences": inferences, "written": paths}
        document |= {"timing": timing.document(inference)}
        terminal.document("sim-batch", document | judgement.document)
    else:
        if inference is not None:
            timing.show(terminal, inference)
        for path in paths:
            terminal.note(f"wrote {path}")
    judgement.finish(terminal)


def _results_of(
    terminal: Terminal, job: _Job, chosen: Sequence[Sample]
) -> Iterator[tuple[Sample, Simulation, float]]:
    """Every inference with the seconds that it took."""
    from fitzroy.driver.runtime.simulator import MOST_IMAGES
    from fitzroy.hw_models.edgetpu.latitude import NONE

    # A chip that takes liberties computes one image after the other.
    alone = 1 if job.freedom == NONE else len(chosen)
    for sample in chosen[:alone]:
        first = sample is chosen[0]
        debugger = job.started(sample, record=job.speed is not None and first)
        elapsed = _simulated(terminal, job.program, debugger, Stops(), ())
        assert debugger.outputs is not None
        yield sample, job.program.finished(debugger.outputs), elapsed
    for number in range(alone, len(chosen), MOST_IMAGES):
        samples = chosen[number : number + MOST_IMAGES]
        start = time.perf_counter()
        with terminal.working(f"simulating inferences {number + 1} to {number + len(samples)}"):
            inputs = [job.inputs(sample) for sample in samples]
            results = [*job.program.simulate_images(inputs, seed=job.chip.seed)]
        elapsed = (time.perf_counter() - start) / len(samples)
        for sample, result in zip(samples, results, strict=True):
            yield sample, result, elapsed


def _tell_one(terminal: Terminal, document: dict[str, Any]) -> None:
    """Print one of several inferences."""
    terminal.heading(document["name"])
    show_outputs(terminal, document | {"written": ()})


def _is_timed(written: SimOutputs, times: Times, stops: Stops, judged: Judged) -> bool:
    """Whether time is wanted.

    Raises:
        UsageError: options contradict.
    """
    stopped = stops.stop_at is not None
    if stopped:
        results = written.files | times.files | judged.given
        _refuse("--stop-at", results, "a program that stops early has no results")
    if times.functional or stopped:
        option = "--functional" if times.functional else "--stop-at"
        _refuse(option, times.given, "it leaves timing out")
        _refuse(option, {"--max-us": judged.max_us}, "it leaves timing out")
    return not times.functional and not stopped


def _simulated(
    terminal: Terminal,
    program: EdgeTpuProgram,
    debugger: Debugger,
    stops: Stops,
    dumps: Sequence[chip_state.Dump],
) -> float:
    """Simulate to the stop or the end; how many seconds that took.

    Raises:
        SimulationError: the program fails; memories are written all the same.
    """
    if stops.stop_at is not None:
        debugger.add(stops.stop_at)
    start = time.perf_counter()
    try:
        with program.located():
            _advance(terminal, debugger)
    except SimulationError as error:
        files = _dumped(debugger, stops, dumps)
        write_files(files)
        for path, _ in files:
            terminal.note(f"wrote {path}")
        raise readable(error) from error
    return time.perf_counter() - start


def _dumped(
    debugger: Debugger, stops: Stops, dumps: Sequence[chip_state.Dump]
) -> list[tuple[Path, bytes]]:
    """Files of memories as they are now."""
    return [file for item in dumps for file in item.files(debugger, stops.tile)]


def _refuse(option: str, others: Mapping[str, object], reason: str) -> None:
    """Refuse options that make no sense with another one.

    Raises:
        UsageError: names the first that was given.
    """
    for other, value in others.items():
        if value is not None:
            raise UsageError(f"{option} does not go with {other}", reason=reason)


def _check_targets(
    inputs: Sequence[str], results: Mapping[str, Path | None], dumps: Sequence[chip_state.Dump]
) -> None:
    """Refuse results that cannot be written, or that overwrite each other.

    Raises:
        UsageError: names the file.
    """
    targets = [(option, path) for option, path in results.items() if path is not None]
    targets += [(f"--dump {item.memory}", path) for item in dumps for path in item.paths]
    taken: dict[str, str] = {}
    for option, path in targets:
        check_output(path, inputs)
        other = taken.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} name the same file", where=os.fspath(path))


def _advance(terminal: Terminal, debugger: Debugger) -> None:
    """Go on to the stop or the end, and say from time to time how far that is."""
    with terminal.working("simulating") as say:
        last = time.perf_counter()

        def tell() -> bool:
            nonlocal last
            if time.perf_counter() - last > _TELL_SECONDS:
                last = time.perf_counter()
                place = debugger.place()
                text = f"phase {place.phase}, {place.instructions:,} instructions"
                say(Progress(text, debugger.share))
            return False

        debugger.resume(tell)


def readable(error: FitzroyError) -> FitzroyError:
    """An error whose list of who waits for whom has a line for each."""
    if not isinstance(error, SimulationError):
        return error
    reason = error.reason.replace("; ", "\n")
    return SimulationError(error.what, reason=reason, where=error.where, hint=error.hint)


def _output_files(
    result: Simulation, output: Path | None, raw_output: Path | None
) -> list[tuple[Path, bytes]]:
    files = []
    if output is not None:
        files += arrays.output_files(output, [*result.outputs.items()], raw=False)
    if raw_output is not None:
        files.append((raw_output, result.device.stream))
    return files


def fnv1a64(data: bytes) -> str:
    """The 64-bit FNV-1a hash, as published for outputs of real devices; 16 hexadecimal digits."""
    value = _FNV_BASIS
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def _about(program: EdgeTpuProgram, chip: Chip) -> dict[str, Any]:
    return {
        "file": program.path,
        "package": program.number,
        "packages": program.siblings,
        "other_operators": program.others,
        "seed": chip.seed,
        "latitude": chip.latitude,
        "ran_on": "the simulated Edge TPU",
    }


def _results(program: EdgeTpuProgram, result: Simulation, written: SimOutputs) -> dict[str, Any]:
    stream, given = result.device.stream, written.names
    ports = [Port(name, type) for name, type in program.outputs.items()]
    return {
        "stream": {"bytes": len(stream), "fnv1a64": fnv1a64(stream)},
        "doubt": result.device.doubt,
        "outputs": [
            describe_output(
                port,
                result.outputs[port.name],
                written.classes,
                score_names(given, program.labels, port),
            )
            | _sent(result.device.buffers[port.name].tobytes())
            for port in ports
        ],
    }


def _sent(data: bytes) -> dict[str, Any]:
    """Figures of an output's bytes as the device sends them."""
    return {"device_bytes": len(data), "device_fnv1a64": fnv1a64(data)}


def _tell(terminal: Terminal, document: dict[str, Any], inference: Inference | None) -> None:
    if document["other_operators"]:
        more = count(document["other_operators"], "more operator")
        terminal.warn(f"only the Edge TPU operator is simulated; the model has {more}")
    if document["stopped"] is not None:
        chip_state.show_state(terminal, document["stopped"])
        for path in document["written"]:
            terminal.note(f"wrote {path}")
        return
    if document["doubt"]:
        terminal.warn(
            f"outputs use {document['doubt']}; with other contents there, they are the same"
        )
    show_outputs(terminal, document)
    rows = [
        (item["name"], item["device_bytes"], item["device_fnv1a64"]) for item in document["outputs"]
    ]
    stream = document["stream"]
    if len(rows) > 1:
        rows.append(("all bytes sent", stream["bytes"], stream["fnv1a64"]))
    columns = (
        Column("as the device sends it"),
        Column("bytes", right=True),
        Column("FNV-1a", keep=True),
    )
    terminal.table(columns, [[name, str(size), digest] for name, size, digest in rows])
    if inference is not None:
        timing.show(terminal, inference)
    terminal.note(f"{document['instructions']:,} instructions of the scalar core")


sim_command = Verb(
    sim,
    (
        "fitzroy sim model_edgetpu.tflite --input photo.png",
        "fitzroy sim model_edgetpu.tflite -i x.npy -o y.npy --raw-output y.raw",
        "fitzroy sim model_edgetpu.tflite -i x.npy --clock low --report r.html",
        "fitzroy sim model_edgetpu.tflite -i left=a.npy -i right=b.npy --seed 7 --json",
        "fitzroy sim model_edgetpu.tflite -i x.npy --seed 1 --latitude published",
        "fitzroy sim model_edgetpu.tflite -i x.npy --stop-at 0:120 --dump wide=w.npy",
        "fitzroy sim model_edgetpu.tflite -i in/ -o out/ --functional",
        "fitzroy sim model_edgetpu.tflite -i in/ --expect out/ --max-us 400",
    ),
)

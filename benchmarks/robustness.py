"""An audit of what verbs allocate, and how they end, on hostile files.

``python -m benchmarks.robustness [FILES...]`` makes a set of small files of every class that asks
for more than it is worth, or takes the given ones instead, and runs every verb that makes sense on
each, in a process of its own. An audit of its own set is kept in ``results/robustness.json``, and
the table in ``docs/robustness.md`` is made from it. The exit code is 1 if a command ends in
something else than success or a typed error, says more than its message, or exceeds a budget:
5 s of processor time, and 64 MiB and four times the file beside what the interpreter takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import fitzroy
from benchmarks.support import ROOT, results_path, write_results
from fitzroy.api import EdgeTpuProgram
from fitzroy.base.errors import FitzroyError
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.formats import custom_op, darwinn, tflite
from fitzroy.hw_models.isa.program import assemble, disassemble
from fitzroy.hw_models.isa.scalar import Branch, Halt
from fitzroy.linker.packages.container import read_container

CPU_SECONDS = 5.0
EXTRA_BYTES = 64 << 20
FILE_FACTOR = 4
_WALL_SECONDS = 900.0
"""Of a command that only waits: processor time has a limit of its own, and machines are busy."""

_ADDRESS_SPACE = 8 << 30
_TYPED = frozenset({0, 2, 3, 4, 5, 6, 7, 8})
_MARKS = ("<!-- audit: begin -->\n", "<!-- audit: end -->\n")
_PAGE = ROOT / "docs" / "robustness.md"
_DIGITS = ROOT / "examples" / "models" / "digits.tflite"

_CHILD = """
import json, resource, sys
report, space = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (space, space))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
sys.argv[1:] = sys.argv[3:]
from fitzroy.__main__ import main
code = main()
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
used = resource.getrusage(resource.RUSAGE_SELF)
with open(report, "w") as file:
    json.dump({"peak": 1024 * int(peak.split()[1]), "cpu": used.ru_utime + used.ru_stime}, file)
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended.

    Attributes:
        verb: its verb.
        file: name of the hostile file.
        options: what else tells it from others of the verb.
        code: exit code; negative for a signal.
        cpu: seconds of processor time, infinite if it had to be killed.
        peak: bytes of memory beside those of a bare interpreter.
        allowed: most bytes that it may take.
        message: first line on stderr.
        faults: what is wrong with it, empty if nothing is.
    """

    verb: str
    file: str
    options: str
    code: int
    cpu: float
    peak: int
    allowed: int
    message: str
    faults: tuple[str, ...]


# --- the hostile set -----------------------------------------------------------------------------


def _graph(body: str, types: str = "int8[1,8,8,1] quant(0.5 : 0)") -> str:
    return f'graph "g" {{\n  input %x : {types}\n  {body}\n  output %y\n}}\n'


_TEXTS = {
    "vast_result.ir": _graph(
        "%y : int8[1,50000,50000,1] quant(0.5 : 0) = resize_bilinear(%x) {size = [50000, 50000]}"
    ),
    "vast_input.ir": _graph(
        "%y : int8[1,9999999,999999,9] quant(0.5 : 0) = abs(%x)",
        "int8[1,9999999,999999,9] quant(0.5 : 0)",
    ),
    "vast_padding.ir": _graph(
        "%y : int8[1,8,8,1] quant(0.5 : 0) = pad(%x) "
        "{before = [0, 99999, 99999, 0], after = [0, 0, 0, 0], value = 0.0}"
    ),
    "deep_lists.ir": _graph(
        f"%y : int8[1,8,8,1] quant(0.5 : 0) = reshape(%x) {{shape = {'[' * 5000}}}"
    ),
    "long_number.ir": _graph(f"%y : int8[{'9' * 6000}] quant(0.5 : 0) = abs(%x)"),
    "tiny_scale.ir": _graph("%y : int8[1,8,8,1] quant(1e-45 : 0) = abs(%x)"),
    "other_type.ir": _graph("%y : uint8[1,8,8,1] quant(0.5 : 0) = quantize(%x)"),
}


def _changed_tensor(model: tflite.Model, index: int, **changes: Any) -> tflite.Model:
    (graph,) = model.subgraphs or []
    tensors = list(graph.tensors or ())
    tensors[index] = replace(tensors[index], **changes)
    return replace(model, subgraphs=[replace(graph, tensors=tensors)])


def _models() -> Iterator[tuple[str, bytes]]:
    """Source models whose tables ask for more than there is, or disagree."""
    model = tflite.read_model(_DIGITS.read_bytes())
    (graph,) = model.subgraphs or []
    first = int(graph.inputs[0]) if graph.inputs is not None else 0
    inner = int((graph.operators or [])[0].outputs[0])  # type: ignore[index]
    vast = np.array([1, 60000, 60000, 1], np.int32)
    known = (graph.tensors or [])[inner].quantization
    assert known is not None
    tiny = replace(known, scale=np.array([1e-45], np.float32))
    signature = tflite.SignatureDef(
        inputs=[tflite.TensorMap(name="inner", tensor_index=inner)], outputs=[], signature_key="s"
    )
    for name, changed in (
        ("vast_input.tflite", _changed_tensor(model, first, shape=vast)),
        ("vast_inner.tflite", _changed_tensor(model, inner, shape=vast)),
        ("variable_input.tflite", _changed_tensor(model, first, is_variable=True)),
        ("tiny_scale.tflite", _changed_tensor(model, inner, quantization=tiny)),
        ("inner_signature.tflite", replace(model, signature_defs=[signature])),
    ):
        yield name, tflite.write_model(changed)


def _packages() -> Iterator[tuple[str, bytes]]:
    """Compiled models whose packages disagree with themselves."""
    whole = compile_edgetpu(_DIGITS).data
    container = read_container(whole)
    assert container.model is not None
    (package,) = container.packages
    main = package.main
    layer = (main.output_layers or [])[0]
    hints = main.dma_hints
    assert hints is not None
    streams = main.instruction_bitstreams or []
    code = streams[0].bitstream
    assert code is not None
    changes: dict[str, dict[str, Any]] = {
        "no_hints": {"dma_hints": replace(hints, hints=(hints.hints or [])[:1])},
        "hints_reversed": {"dma_hints": replace(hints, hints=(hints.hints or [])[::-1])},
        "vast_output": {"output_layers": [replace(layer, execution_count_per_inference=1 << 30)]},
        "vast_scratch": {"scratch_size_bytes": (1 << 31) - 1},
        "endless": {"instruction_bitstreams": [*streams[:-1], _endless(streams[-1])]},
    }
    for at in range(0, len(code), max(len(code) // 2, 1)):
        bits = np.array(code)
        bits[at : at + 3] ^= 0x5A
        flipped = [replace(streams[0], bitstream=bits), *streams[1:]]
        changes[f"flipped_{at}"] = {"instruction_bitstreams": flipped}
    for name, change in changes.items():
        executables = [
            replace(item, **change) if item is main else item for item in package.executables
        ]
        try:
            data = darwinn.write_package(replace(package, executables=executables))
        except FitzroyError:
            continue
        yield (
            f"{name}_edgetpu.tflite",
            tflite.write_model(custom_op.replace(container.model, 0, data)),
        )


def _endless(stream: darwinn.InstructionBitstream) -> darwinn.InstructionBitstream:
    """A chunk that turns in circles where it should halt."""
    assert stream.bitstream is not None
    code = disassemble(stream.bitstream.tobytes())
    at = next(place for place, item in enumerate(code) if isinstance(item, Halt))
    code[at] = Branch(offset=0)
    return replace(stream, bitstream=np.frombuffer(assemble(code), np.uint8))


def _npy(header: str) -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def _arrays() -> Iterator[tuple[str, bytes]]:
    head = "{'descr': '|i1', 'fortran_order': False, 'shape': "
    for name, shape in (
        ("vast.npy", "(1, 99999999999, 9999), }"),
        ("open.npy", "(1, 8, 8, 1(, }"),
        ("cut.npy", "(1, 8, "),
        ("bool.npy", "(True, 8, 8, 1), }"),
        ("deep.npy", "(" * 30_000),
    ):
        yield name, _npy(head + shape)
    yield "object.npy", _npy("{'descr': '|O', 'fortran_order': False, 'shape': (64,), }")


def hostile(folder: Path) -> list[Path]:
    """Write the hostile set; the same bytes every time."""
    files = {name: text.encode() for name, text in _TEXTS.items()}
    files |= dict(_models()) | dict(_packages()) | dict(_arrays())
    files["digits.labels"] = b"9" * 6000 + b" many\n"
    files["spaces.labels"] = b"1" + b" " * 1_000_000 + b"\n"
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "device.ir").symlink_to("/dev/zero")
    return [folder / name for name in sorted([*files, "device.ir"])]


# --- commands ------------------------------------------------------------------------------------


def _inputs(path: Path, folder: Path) -> list[str]:
    """Options that give zeros for all inputs of a model; none if it cannot be read."""
    try:
        try:
            ports = {**EdgeTpuProgram.load(path, 0).inputs}
        except FitzroyError:
            graph = fitzroy.load(path)
            ports = {name: graph.type(name) for name in graph.inputs}
    except FitzroyError:
        return []
    options: list[str] = []
    for number, (name, type) in enumerate(ports.items()):
        file = folder / f"{path.name}.{number}.raw"
        file.write_bytes(bytes(min(type.nbytes, 1 << 20)))
        options += ["--input", f"{name}={file}"]
    return options


def commands(path: Path, folder: Path) -> list[list[str]]:
    """Every command that makes sense on a file."""
    source, out = str(path), str(folder / "out")
    if path.suffix == ".npy":
        return [["run", str(folder / "plain.ir"), "--input", source]]
    if path.suffix in (".labels", ".txt"):
        given = ["--input", str(folder / "plain.raw"), "--labels", source]
        return [["run", str(folder / "plain.ir"), *given]]
    given = _inputs(path, folder)
    found = [["inspect", source, "--json"], ["opt", source, "-o", f"{out}.ir"]]
    found += [["run", source, *given]]
    found += [["compile", source, "-o", f"{out}.module", "--format", "module"]]
    if path.suffix == ".tflite":
        found += [["run", source, "--runtime", "litert", *given]]
    if path.suffix == ".tflite" and _is_compiled(path):
        found += [["run", source, "--device", "sim:direct", *given]]
        found += [["sim", source, *given], ["bench", source, "--runs", "1"]]
        found += [["debug", source, *given, "-x", "continue"]]
        found += [["dis", source, "-o", f"{out}.s"], ["link", source, "-o", f"{out}_l.tflite"]]
    else:
        found += [["explain", source]]
        found += [["compile", source, "-o", f"{out}.tflite", "--target", "edgetpu"]]
        found += [["compile", source, "-o", f"{out}.pte", "--target", "xnnpack"]]
    return found


def _is_compiled(path: Path) -> bool:
    try:
        return bool(custom_op.extract(tflite.read_model(path.read_bytes())))
    except FitzroyError:
        return False


def _prepare(folder: Path) -> None:
    (folder / "plain.ir").write_text(_graph("%y : int8[1,8,8,1] quant(0.5 : 0) = abs(%x)"))
    (folder / "plain.raw").write_bytes(bytes(64))


def run(command: Sequence[str], path: Path, base: int, folder: Path) -> Outcome:
    """Run a command, and judge how it ends."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    arguments = [sys.executable, "-c", _CHILD, str(report), str(_ADDRESS_SPACE), *command]
    error = ""
    try:
        done = subprocess.run(
            arguments, capture_output=True, stdin=subprocess.DEVNULL, timeout=_WALL_SECONDS
        )
        code, error = done.returncode, done.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        code = -9
    figures = json.loads(report.read_text()) if report.exists() else {}
    cpu, peak = figures.get("cpu", float("inf")), figures.get("peak", 0) - base
    allowed = EXTRA_BYTES + FILE_FACTOR * path.stat().st_size
    judged = {
        f"exit code {code}": code not in _TYPED,
        "a traceback": "Traceback" in error,
        "a warning of Python": "Warning:" in error,
        "too much time": cpu > CPU_SECONDS,
        "too much memory": peak > allowed,
    }
    return Outcome(
        verb=command[0],
        file=path.name,
        options=" ".join(word for word in command[1:] if "/" not in word),
        code=code,
        cpu=cpu,
        peak=peak,
        allowed=allowed,
        message=next((line for line in error.splitlines() if line), ""),
        faults=tuple(text for text, wrong in judged.items() if wrong),
    )


def audit(paths: Sequence[Path], folder: Path, progress: Callable[[str], None]) -> list[Outcome]:
    """All commands on all files."""
    _prepare(folder)
    report = folder / "report.json"
    arguments = [sys.executable, "-c", _CHILD, str(report), str(_ADDRESS_SPACE), "--version"]
    subprocess.run(arguments, capture_output=True, check=True)
    base = json.loads(report.read_text())["peak"]
    outcomes = []
    for path in paths:
        for command in commands(path, folder):
            outcome = run(command, path, base, folder)
            outcomes.append(outcome)
            progress(
                f"{outcome.code:4} {outcome.cpu:5.1f} s {outcome.peak / 2**20:6.1f} MiB "
                f"{outcome.verb} {outcome.file} {outcome.options}: {outcome.message} "
                f"{', '.join(outcome.faults)}"
            )
    return outcomes


# --- figures -------------------------------------------------------------------------------------


def figures(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One entry for each verb: cases, how they ended, and the greatest that they took."""
    found = []
    for verb in sorted({outcome.verb for outcome in outcomes}):
        own = [outcome for outcome in outcomes if outcome.verb == verb]
        worst = max(own, key=lambda outcome: outcome.peak)
        found.append(
            {
                "verb": verb,
                "cases": len(own),
                "typed_errors": sum(outcome.code != 0 for outcome in own),
                "faults": sum(bool(outcome.faults) for outcome in own),
                "peak_bytes": worst.peak,
                "peak_file": worst.file,
                "allowed_bytes": worst.allowed,
                "cpu_seconds": round(max(outcome.cpu for outcome in own), 2),
            }
        )
    return found


def table(entries: Sequence[dict[str, Any]]) -> str:
    """The figures as a table of Markdown."""
    lines = [
        "| verb | cases | typed errors | faults | greatest memory | on | budget | processor time |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    lines += [
        f"| `{item['verb']}` | {item['cases']} | {item['typed_errors']} | {item['faults']} "
        f"| {item['peak_bytes'] / 2**20:.1f} MiB | `{item['peak_file']}` "
        f"| {item['allowed_bytes'] / 2**20:.1f} MiB | {item['cpu_seconds']:.1f} s |"
        for item in entries
    ]
    return "\n".join(lines) + "\n"


def _renew(text: str) -> None:
    page = _PAGE.read_text()
    begin, end = page.index(_MARKS[0]) + len(_MARKS[0]), page.index(_MARKS[1])
    _PAGE.write_text(f"{page[:begin]}\n{text}\n{page[end:]}")


def main() -> int:
    """Audit the files of the command line, or the hostile set."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.robustness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, files = Path(name), Path(name) / "files"
        files.mkdir()
        paths = options.files or hostile(files)
        outcomes = audit(paths, folder, lambda text: print(text, file=sys.stderr, flush=True))
    entries = figures(outcomes)
    print(table(entries))
    if not options.files:
        write_results("robustness", {"verbs": entries})
        _renew(table(json.loads(results_path("robustness").read_text())["verbs"]))
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

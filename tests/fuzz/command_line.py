"""Command lines as bytes: arguments with NUL between them, run among files of all kinds."""

from __future__ import annotations

import atexit
import contextlib
import enum
import io
import itertools
import os
import random
import shutil
import tempfile
import typing
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer
from tests.compiler.zoo import zoo
from tests.driver.edgetpu_programs import echo
from tests.fuzz import hostile, model_tests, seeds, sessions
from tests.fuzz.shell import Answer, command
from tests.fuzz.subject import Misbehaviour

from fitzroy.api import compile
from fitzroy.base.errors import FormatError
from fitzroy.cli.main import app
from fitzroy.cli.verbs import VERBS
from fitzroy.compiler.frontends.tflite import export_model
from fitzroy.compiler.ir import Graph, print_graph
from fitzroy.formats import darwinn, tflite

_MOST_ARGUMENTS = 40
_LONG = "n" * 251 + ".npy"

NAMES = (
    "model.tflite", "float.tflite", "broken.tflite", "echo.dwn", "model.pte", "model.bpte",
    "object.fzo", "program.s", "object.s", "module.module", "model.ir", "x.npy", "float.npy",
    "x.raw", "photo.png", "labels.txt", "session.jsonl", "host.json", "probe.json", "commands.txt",
    "empty", "garbage", "folder", "folder/file", "nowhere", "loop", "a=b.npy", "new\nline.npy",
    "\udcff.npy", "\x9b31m.npy", "-q", _LONG,
)  # fmt: skip
"""What is in the folder."""

_RESULTS = (
    "y.npy", "y.npz", "y.raw", "out.tflite", "out.pte", "out.bpte", "out.dwn", "out.fzo", "out.s",
    "out.ir", "out.json", "out.html", "folder/y.npy", "none/y.npy", "out", "out_edgetpu.tflite",
    "m" * 251 + ".npy", "m" * 255, "m" * 256, "/dev/null", "/dev/full", ".", "",
)  # fmt: skip

_WORDS = (
    "sim", "sim:direct", "sim:", "replay:session.jsonl", "replay:garbage", "replay:", "auto", "max",
    "low", "published", "any", "stores=300,sums=8", "queues=0", "delays", "0:3", "phase:1",
    "caching:0:1", "narrow=y.npy", "wide=y.npz", "scalar=y", "=y.npy", "x=x.npy", "x0=x.npy",
    "=x.npy", "x==x.npy", "folder=x.npy", "127.5", "1,2,3", "0", "nan", "jetson", "libedgetpu",
    "forward", "main", "serving_default", "dead-code", "simplify,fold-constants", "y", "conv",
    "where", "step 3", "x narrow 0 0", "x wide 99 0", "dump wide y.npy", "c", "q", "break 0:5",
    "x narrow 0 0 99999999999", "x scaling 1 1 5 hex", "dump narrow y.npz 3", "flags 99",
    "list 5 9", "delete 0", "breaks", "fence", "phase", "ring", "streams", "queues 3", "step -1",
    "help x", "x",
)  # fmt: skip

_NUMBERS = ("0", "1", "2", "3", "-1", "13", "65536", "4294967296", "9" * 30, "1e3", "0x10", "٣", "")

_LASTING = {"probe": "--list", "calibrate-host": "--help"}
"""Verbs that run for minutes unless this option is there."""

_SAFE_PATHS = frozenset({"/dev/null", "/dev/full", "folder/file"}) | {
    item for item in _RESULTS if "/" in item
}


def pack(arguments: Sequence[str]) -> bytes:
    """Arguments as bytes."""
    return "\0".join(arguments).encode("utf-8", "surrogateescape")


def read(data: bytes) -> list[str]:
    """Arguments of a command that may be run.

    Raises:
        FormatError: it is none of ours, leaves the folder, or would take minutes.
    """
    arguments = data.decode("utf-8", "surrogateescape").split("\0")
    verb = arguments[0]
    if verb not in VERBS or len(arguments) > _MOST_ARGUMENTS:
        raise FormatError(f"{verb[:20]!r} is no verb, or has too many arguments")
    if verb in _LASTING and _LASTING[verb] not in arguments:
        raise FormatError(f"{verb} takes minutes")
    for argument in arguments:
        value = argument.rpartition("=")[2].rpartition(":")[2]
        if ("/" in argument or ".." in argument) and value not in _SAFE_PATHS:
            raise FormatError(f"{argument[:40]!r} may lead out of the folder")
        if value.startswith("usb"):
            raise FormatError("real devices are left alone")
    runs = [b for a, b in itertools.pairwise(arguments) if a == "--runs"]
    if any(len(item) > 1 for item in runs) or (verb == "bench" and not runs):
        raise FormatError("too many runs")
    return arguments


def target(data: bytes) -> None:
    """Run a command; one that fails must leave the folder as it was.

    Raises:
        FormatError: as `read`.
        Misbehaviour: as `command`, or a failed command left files.
    """
    arguments = read(data)
    home = folder()
    with contextlib.chdir(home):
        before = _listing(home)
        answer = command(arguments, "where\nq\n")
        after = _listing(home)
        if before != after:
            _restore(home)
    _check_files(arguments, answer, sorted(set(after.items()) - set(before.items())))
    if answer.code:
        raise FormatError(f"exit code {answer.code}")


def _check_files(
    arguments: Sequence[str], answer: Answer, changed: Sequence[tuple[str, object]]
) -> None:
    names = [name for name, _ in changed if os.path.basename(name) not in ("", "folder")]
    drafts = [name for name in names if os.path.basename(name).startswith(".")]
    if drafts:
        raise Misbehaviour(f"drafts are left: {drafts}", "drafts are left")
    # What happened before it went wrong is wanted in a recording, and in dumps of a deadlock.
    options = {argument.partition("=")[0] for argument in arguments}
    lasting = {"--record", "--dump", "-x", "--execute", "--commands"} & options
    if answer.code not in (0, 9) and names and not lasting:
        raise Misbehaviour(
            f"exit code {answer.code}, and {names} written",
            f"half results of {arguments[0]}",
        )


def _listing(home: Path) -> dict[str, tuple[int, int, int]]:
    """Everything in a folder, with size, time and number of its file."""
    found = {}
    for at in (home, home / "folder"):
        with os.scandir(at) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found[entry.path] = (status.st_size, status.st_mtime_ns, status.st_ino)
    return {name: value for name, value in found.items() if not name.endswith("/folder")}


def _restore(home: Path) -> None:
    for entry in home.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    _fill(home)


# --- the folder ----------------------------------------------------------------------------------


@cache
def folder() -> Path:
    """A folder with files of all kinds; it goes away when the process that made it ends."""
    home = Path(tempfile.mkdtemp(prefix="fitzroy-fuzz-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(remove)
    _fill(home)
    return home


def _fill(home: Path) -> None:
    for name, content in _contents().items():
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_bytes(content)
    (home / "nowhere").symlink_to("missing")
    (home / "loop").symlink_to("loop")


@cache
def _contents() -> dict[str, bytes]:
    graphs = zoo()
    model, plain = (_small(graphs, kind) for kind in ("int8", "float32"))
    array = np.zeros(model.type(model.inputs[0]).shape, np.int8)
    compiled = compile(plain)
    return {
        "model.tflite": tflite.write_model(export_model(model)),
        "float.tflite": tflite.write_model(export_model(plain)),
        "broken.tflite": tflite.write_model(export_model(model))[:-40],
        "echo.dwn": darwinn.write_package(echo()),
        "model.pte": compiled.data,
        "model.bpte": seeds.bundle_files()[0],
        "object.fzo": seeds.object_files()[1],
        "program.s": seeds.assembly_files()[2],
        "object.s": seeds.assembly_files()[5],
        "module.module": seeds.module_files()[0],
        "model.ir": print_graph(model).encode(),
        "x.npy": npy(array),
        "float.npy": npy(array.astype(np.float32)),
        "x.raw": bytes(256),
        "photo.png": _photo(),
        "labels.txt": b"one\ntwo\nthree\n",
        "session.jsonl": sessions.files()[0],
        "host.json": seeds.host_profiles()[0],
        "probe.json": seeds.probe_reports()[1],
        "commands.txt": b"step 3\nwhere\nflags\nx narrow 0 0\n",
        "empty": b"",
        "garbage": random.Random(1).randbytes(300),
        "test.toml": b'model = "model.tflite"\n[limits]\ncycles = 90000\n',
        "bench.json": model_tests.documents()[-1],
        "folder/file": b"x",
        **dict.fromkeys(("a=b.npy", "new\nline.npy", "\udcff.npy", "-q", _LONG), npy(array)),
        "\x9b31m.npy": npy(array),
    }


def _small(graphs: dict[str, Graph], dtype: str) -> Graph:
    """The first graph of one convolution of an element type."""
    return next(
        graph
        for name, graph in graphs.items()
        if name.startswith("conv_2d") and graph.type(graph.inputs[0]).dtype.value == dtype
    )


def npy(array: Any) -> bytes:
    """An array as a file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _photo() -> bytes:
    """A grey image of 2 x 2."""
    return b"P5 2 2 255\n\0\x40\x80\xff"


# --- command lines -------------------------------------------------------------------------------


def command_lines() -> list[bytes]:
    """Command lines that succeed, one or more for each verb."""
    folder()
    return [
        pack(item.split())
        for item in (
            "compile float.tflite -o out.pte --json",
            "compile model.tflite -o out_edgetpu.tflite",
            "compile model.ir --target xnnpack -o out.pte --bundle x.npy",
            "compile model.tflite --target edgetpu --format object -o out.fzo --report out.html",
            "run model.tflite -i x.npy -o y.npy --labels labels.txt --top 3",
            "run model.ir -i x.npy -o y.raw --raw-output",
            "run echo.dwn --device sim:direct -i x.raw --json",
            "run float.tflite -i float.npy --arithmetic tflite",
            "inspect echo.dwn --json",
            "inspect model.pte --tables",
            "inspect module.module",
            "explain model.tflite --json",
            "opt model.ir --passes simplify,dead-code -o out.ir",
            "opt --list",
            "dis echo.dwn -o out.s",
            "dis module.module",
            "as object.s -o out.fzo",
            "link object.fzo -o out.dwn",
            "patch-weights echo.dwn model.tflite -o out.tflite",
            "sim echo.dwn -i x.raw -o y.npy --trace out.json --report out.html",
            "sim echo.dwn -i x.raw --stop-at 0:3 --dump wide=y.npz --tile 0",
            "sim echo.dwn -i x.raw --functional --seed 1 --latitude published --json",
            "bench echo.dwn --device sim:direct --runs 1 -i x.raw --host host.json",
            "sim echo.dwn -i x.raw -i x.raw --functional --json",
            "test test.toml --junit out.xml --json",
            "compare echo.dwn echo.dwn --markdown",
            "compare bench.json bench.json --max-regression 5 --csv",
            "schema sim",
            "debug echo.dwn -i x.raw -x where",
            "debug echo.dwn -i x.raw --commands commands.txt --json",
            "devices --json",
            "doctor --device sim --json",
            "probe --list",
            "calibrate-host -o out.json --help",
            "shim folder --only pycoral --json",
        )
    ]


@cache
def _options(verb: str) -> list[tuple[str, Any]]:
    """Names of options of a verb, and the type of each one's value, None for flags."""
    found: list[tuple[str, Any]] = []
    for option in typer.main.get_command(app).commands[verb].params:  # type: ignore[attr-defined]
        kind = None if getattr(option, "is_flag", False) else option.type_descriptor.annotation
        names = [*option.opts, *option.secondary_opts]
        found += [(name, kind) for name in names if name.startswith("-")]
    return found


def command_mutant(rng: random.Random, seed: bytes, others: list[bytes]) -> bytes:
    """A command line after one to five changes of arguments."""
    arguments = seed.decode().split("\0")
    for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
        at = rng.randint(1, len(arguments))
        kind = rng.random()
        if kind < 0.45:
            name, value = rng.choice(_options(arguments[0]))
            given = [] if value is None else [_value(rng, value)]
            joined = len(name) > 2 and rng.random() < 0.2
            arguments[at:at] = [f"{name}={given[0]}"] if joined and given else [name, *given]
        elif kind < 0.7:
            arguments[at : at + 1] = [_word(rng)]
        elif kind < 0.8:
            del arguments[at : at + 1]
        elif kind < 0.85:
            arguments[at:at] = [rng.choice(("--", "--json", "-h", "--no", "--outpu", "-"))]
        elif kind < 0.95 and at < len(arguments):
            arguments[at] = _bent(rng, arguments[at])
        else:
            arguments[at:at] = rng.choice(others).decode().split("\0")[1:]
    return pack([item.replace("\0", "") for item in arguments])


def _value(rng: random.Random, kind: Any) -> str:
    """A value for an option: one that suits its type, or not."""
    kinds = [item for item in typing.get_args(kind) if item is not type(None)] or [kind]
    if rng.random() < 0.15:
        return _word(rng)
    if isinstance(kinds[0], type) and issubclass(kinds[0], enum.Enum):
        return str(rng.choice(list(kinds[0])).value)
    if kinds[0] in (int, float):
        return rng.choice(_NUMBERS)
    if kinds[0] is Path:
        return rng.choice(_RESULTS if rng.random() < 0.7 else NAMES)
    return rng.choice(NAMES if rng.random() < 0.5 else _WORDS)


def _word(rng: random.Random) -> str:
    return rng.choice(
        (hostile.text(rng), rng.choice(NAMES), rng.choice(_RESULTS), rng.choice(_WORDS))
    )


def _bent(rng: random.Random, argument: str) -> str:
    """An argument with something in front, after, or in the middle."""
    scrap = rng.choice(("=", ":", ",", " ", "\n", "\u202e", "\x9b", "%", "\udcff", "x", "0", "-"))
    at = rng.choice((0, len(argument), len(argument) // 2))
    return argument[:at] + scrap + argument[at:]

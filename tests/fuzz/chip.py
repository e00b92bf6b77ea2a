"""Packages on the whole simulated chip: mutated programs, and hints that disagree with them."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
from tests.compiler.edgetpu_models import random_model
from tests.driver.edgetpu_programs import echo
from tests.fuzz.bitstreams import bitstream_mutant
from tests.fuzz.subject import Misbehaviour
from tests.fuzz.tables import UNWRITABLE, spoil, walk

from fitzroy.api import EdgeTpuProgram
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, virtual_device
from fitzroy.formats import darwinn
from fitzroy.formats.darwinn import DmaHint, Executable, PackageFile
from fitzroy.hw_models.edgetpu.latitude import ANY, NONE
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.linker.packages.container import read_container
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule.check import demand_script

BUDGET = 50_000
"""Most steps of the scalar core, several times what any seed needs."""

_LIMITS = replace(
    SIMULATED,
    request=1.0,
    slice=0.01,
    silence=0.03,
    control=0.05,
    poll=0.01,
    enumerate=0.01,
    replug=0.01,
    retries=0,
)
_PATIENT = 256
"""One case in as many has the limits of ``--device sim``."""

_MOST_INPUT = 1 << 20
_MODELS = (9, 19, 20, 30, 37, 63, 65)
"""Seeds of small random models."""


@cache
def packages() -> list[bytes]:
    """Packages that run: an echo, and small compiled models."""
    made = [echo(), echo(signed=True)]
    made += [link([lower(random_model(seed))])[0] for seed in _MODELS]
    return [darwinn.write_package(package) for package in made]


def read(data: bytes) -> EdgeTpuProgram:
    """The only program of a package.

    Raises:
        FormatError: it is malformed.
        UnsupportedError: it is for a later runtime, or for several chips.
    """
    program = EdgeTpuProgram.of(read_container(data, "fuzz.dwn"), 0)
    if sum(type.nbytes for type in program.inputs.values()) > _MOST_INPUT:
        raise FormatError("more inputs than a case is given")
    return program


def _inputs(program: EdgeTpuProgram) -> Mapping[str, Array]:
    return {
        name: np.resize(np.arange(251, dtype=np.uint8), type.nbytes)
        .view(type.dtype.numpy)
        .reshape(type.shape)
        for name, type in program.inputs.items()
    }


# --- programs ------------------------------------------------------------------------------------


def program_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A package with another program."""
    package = darwinn.read_package(seed)
    try:
        executable = rng.choice(package.executables)
        stream = rng.choice(executable.instruction_bitstreams or [])
        assert stream.bitstream is not None
        code = stream.bitstream.tobytes()
        stream.bitstream = np.frombuffer(bitstream_mutant(rng, code, [code]), np.uint8)
        return darwinn.write_package(package)
    except UNWRITABLE:
        return seed


def simulate(data: bytes) -> None:
    """Run a package on the simulated chip, in one of several orders, and time it.

    Raises:
        FitzroyError: as ``fitzroy sim``.
    """
    program = read(data)
    salt = zlib.crc32(data)
    seed = salt & 3 or None
    latitude = NONE if seed is None or salt & 4 else ANY
    run = program.start(_inputs(program), seed=seed, latitude=latitude, record=True)
    run.machine.core.budget = BUDGET
    outputs = run.finish()
    program.finished(outputs)
    if salt & 8:
        program.timed(outputs)


# --- hints ---------------------------------------------------------------------------------------


def hinted() -> list[bytes]:
    """Packages as `packages`; what they answer is known from here on."""
    _answers()
    return packages()


def hints_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A package whose program is as it was, and whose hints are not."""
    package = darwinn.read_package(seed)
    try:
        executable = rng.choice(package.executables)
        if executable.dma_hints is None or executable.dma_hints.hints is None:
            return seed
        for _ in range(rng.choice((1, 1, 2, 3))):
            _change(rng, executable, executable.dma_hints.hints)
        return darwinn.write_package(package)
    except UNWRITABLE:
        return seed


def _change(rng: random.Random, executable: Executable, hints: list[DmaHint]) -> None:
    kind = rng.random()
    if kind < 0.05 or not hints:
        executable.dma_hints = None if rng.random() < 0.5 else darwinn.DmaHints(hints=[])
        return
    at = rng.randrange(len(hints))
    if kind < 0.2:
        del hints[at : at + rng.choice((1, 1, 2, 100))]
    elif kind < 0.35:
        hints[at:at] = [hints[rng.randrange(len(hints))]] * rng.choice((1, 1, 2, 50))
    elif kind < 0.5:
        hints.insert(rng.randrange(len(hints)), hints.pop(at))
    elif kind < 0.6:
        hints[at].direction ^= 1
    else:
        # A copy: duplicates may stand elsewhere.
        (table, *inner) = walk(replace(hints[at]))
        assert isinstance(table, DmaHint)
        hints[at] = table
        spoil(rng, rng.choice([table, *inner, *inner]))


def _program(package: PackageFile) -> bytes:
    """The instructions of the main executable, which mutated hints leave as they are."""
    streams = package.main.instruction_bitstreams or []
    return b"".join(item.bitstream.tobytes() for item in streams if item.bitstream is not None)


@cache
def _answers() -> dict[bytes, Mapping[str, Array]]:
    """Outputs of all seeds by their program."""
    programs = map(read, packages())
    return {
        _program(item.package): item.simulate(_inputs(item)).device.tensors for item in programs
    }


def drive(data: bytes) -> None:
    """Run a package on the virtual accelerator, by its hints.

    A script that differs from the program's may give wrong outputs, as it does on a device: the
    simulator refuses it.

    Raises:
        FitzroyError: as ``fitzroy run --device sim``.
        Misbehaviour: the outputs are wrong, and the script is not.
    """
    program = read(data)
    patient = zlib.crc32(data) % _PATIENT == 0
    limits = SIMULATED if patient else _LIMITS
    with virtual_device(DeviceOptions(limits=limits), VirtualDevice(budget=BUDGET)) as device:
        answer = device.run(program.package, program.encoded(_inputs(program)))
        program.decoded(answer.tensors)
    wanted = _answers()[_program(program.package)]
    if all(np.array_equal(values, wanted[name]) for name, values in answer.tensors.items()):
        return
    for executable in program.package.executables:
        demand_script(executable)
    raise Misbehaviour("outputs are wrong, by a script that is right", "wrong outputs by hints")

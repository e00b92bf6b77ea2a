"""Packages on the whole simulated chip: mutated programs, and hints that disagree with them."""

from __future__ import annotations

import mmap
import os
import random
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
from tests.compiler.edgetpu_models import random_model
from tests.compiler.zoo import zoo
from tests.driver.edgetpu_programs import echo
from tests.driver.simulated_clock import SimulatedClock
from tests.fuzz.bitstreams import bitstream_mutant
from tests.fuzz.subject import Misbehaviour
from tests.fuzz.tables import UNWRITABLE, spoil, walk

from fitzroy.api import EdgeTpuProgram
from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.driver.runtime import engine
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, virtual_device
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats import darwinn
from fitzroy.formats.darwinn import DmaHint, Executable, PackageFile
from fitzroy.hw_models.edgetpu import machine
from fitzroy.hw_models.edgetpu.latitude import ANY, NONE
from fitzroy.hw_models.edgetpu.memory import TileMemory
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.linker.packages.container import read_container
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.schedule.check import demand_script

BUDGET = 50_000
"""Most steps of the scalar core, several times what any seed needs."""

_INSISTING = 16
"""One case in as many tries again after an error, on a device that needs its firmware first."""

_MOST_INPUT = 1 << 20
_GRAPHS = (
    "tanh-int8", "add-uint8-0", "add-constant", "fully_connected-int8-channels",
    "strided_slice-int8-steps", "concatenation-requantizing", "l2_normalization-int8",
    "resize_nearest_neighbor-uint8", "depthwise_conv_2d-uint8", "max_pool_2d-int8-stride",
)  # fmt: skip
"""Graphs of one operator: tables, loops, parameters that are loaded before, and the mesh."""

_MODEL = 20
"""Seed of a small random model, with a larger image."""


@cache
def packages() -> list[bytes]:
    """Packages that run: an echo, and small compiled models."""
    graphs = zoo()
    made = [echo(), echo(signed=True)]
    made += [link([lower(graphs[name])])[0] for name in _GRAPHS]
    made += link([lower(random_model(_MODEL))])
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


# --- memories ------------------------------------------------------------------------------------

_SEEDS = (1, 2, 3)
"""Those of simulated chips, with which memories hold anything at first."""


@cache
def _contents(seed: int) -> dict[str, int]:
    """Files in memory with what memories of a seed hold at first, by name of the memory."""
    found = {}
    made = TileMemory(seed)
    for name in ("narrow", "wide", "scaling"):
        found[name] = os.memfd_create(f"{name}-{seed}")
        with open(found[name], "wb", closefd=False) as file:
            file.write(getattr(made, name).data)
    return found


def _memory(seed: int | None = None, images: int = 1) -> TileMemory:
    """As `TileMemory`; of the 11 MiB of random numbers, only pages that are used take time."""
    memory = TileMemory(images=images)
    for name, file in _contents(seed).items() if seed in _SEEDS else ():
        zeros = getattr(memory, name)
        copy = mmap.mmap(file, zeros.nbytes, access=mmap.ACCESS_COPY)
        words = np.frombuffer(copy, zeros.dtype).reshape(zeros.shape)
        setattr(memory, name, words)
        if name != "scaling":
            setattr(memory, f"{name}_bytes", words.view(np.uint8))
    return memory


# --- programs ------------------------------------------------------------------------------------


def simulated() -> list[bytes]:
    """Packages as `packages`; memories are made from here on."""
    for seed in _SEEDS:
        _contents(seed)
    return packages()


def program_mutant(rng: random.Random, seed: bytes, seeds: list[bytes]) -> bytes:
    """A package with another program."""
    codes = _codes(seed)
    executable = rng.randrange(len(codes))
    chunk = rng.randrange(len(codes[executable]))
    code = codes[executable][chunk]
    changed = bitstream_mutant(rng, code, [code])
    if len(changed) == len(code):
        return seed.replace(code, changed)
    package = darwinn.read_package(seed)
    stream = (package.executables[executable].instruction_bitstreams or [])[chunk]
    stream.bitstream = np.frombuffer(changed, np.uint8)
    try:
        return darwinn.write_package(package)
    except UNWRITABLE:
        return seed


@cache
def _codes(seed: bytes) -> list[list[bytes]]:
    """The bitstreams of all executables of a package; each is in it once."""
    found = [
        [stream.bitstream.tobytes() for stream in executable.instruction_bitstreams or ()
         if stream.bitstream is not None]
        for executable in darwinn.read_package(seed).executables
    ]  # fmt: skip
    assert all(seed.count(code) == 1 for codes in found for code in codes)
    return found


def simulate(data: bytes) -> None:
    """Run a package on the simulated chip, in one of several orders, and time it.

    Raises:
        FitzroyError: as ``fitzroy sim``.
    """
    program = read(data)
    salt = zlib.crc32(data)
    seed = salt & 3 or None
    latitude = NONE if seed is None or salt & 4 else ANY
    with mock.patch.object(machine, "TileMemory", _memory):
        device = SimulatedDevice(seed=seed, latitude=latitude, steps=BUDGET)
        run = device.start(program.package, program.encoded(_inputs(program)), record=True)
        outputs = run.finish()
        program.finished(outputs)
    if salt >> 3 & 7 == 0:
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

    Every other package is taken as if its program could not be followed, so that the driver has
    nothing to compare hints with. They may then give wrong outputs, as they do on a device.

    Raises:
        FitzroyError: as ``fitzroy run --device sim``.
        Misbehaviour: the outputs are wrong, and the driver could have known.
    """
    program = read(data)
    salt = zlib.crc32(data)
    compares = salt & 1
    insists = salt // 2 % _INSISTING == 0
    clock = SimulatedClock()
    limits = replace(SIMULATED, clock=clock, retries=2 if insists else 0)
    chip = VirtualDevice(booted=not insists, budget=BUDGET, clock=clock)
    check = demand_script if compares else lambda _: None
    with (
        mock.patch.object(engine, "demand_script", check),
        virtual_device(DeviceOptions(limits=limits), chip) as device,
    ):
        answer = device.run(program.package, program.encoded(_inputs(program)))
        program.decoded(answer.tensors)
    wanted = _answers()[_program(program.package)]
    right = all(np.array_equal(values, wanted[name]) for name, values in answer.tensors.items())
    if compares and not right:
        raise Misbehaviour(
            "hints that are not refused give wrong outputs", "wrong outputs by hints"
        )

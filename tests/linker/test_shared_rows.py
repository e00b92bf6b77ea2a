"""Models that do not fit beside each other on the chip: they share rows of wide memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.compiler.edgetpu_models import findings, program, random_model
from tests.linker.edgetpu import packages, small_object
from tests.support import corpus

from fitzroy.base.diagnostics import Severity
from fitzroy.base.errors import CapacityError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.simulator import SimulatedDevice
from fitzroy.formats.darwinn import ExecutableType, PackageFile
from fitzroy.formats.object_file import ObjectFile, Reserved
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.linker.objects.recover import recover, staging
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.resolve.caching import segments_of
from fitzroy.linker.resolve.segments import Segment

ROWS = 2080


def crowded(package: PackageFile, name: str, free: int) -> ObjectFile:
    """The object of a package, which claims all rows of the chip but so many."""
    found = recover(package, name)
    assert found.resources is not None
    claim = Reserved(tiles=0xFFFF, row=free, rows=ROWS - free)
    found.resources.staging = [*(found.resources.staging or ()), claim]
    return found


def height(package: PackageFile) -> int:
    """Rows of the fullest tile."""
    return max(segment.end for segment in cached(package))


def cached(package: PackageFile) -> list[Segment]:
    """What stays on the chip."""
    return [] if package.caching is None else _segments(package, caching=True)


def shared(package: PackageFile) -> list[Segment]:
    """What the first chunk of the program loads."""
    return _segments(package, caching=False)


def _segments(package: PackageFile, *, caching: bool) -> list[Segment]:
    executable = package.caching if caching else package.main
    assert executable is not None
    streams = executable.instruction_bitstreams or []
    assert streams[0].bitstream is not None
    return segments_of(disassemble(streams[0].bitstream.tobytes()))


def used(package: PackageFile) -> Array:
    """Rows in which a package has parameters, loaded with every inference or to stay, or data."""
    rows: Array = np.zeros((16, ROWS), bool)
    for segment in (*cached(package), *shared(package)):
        rows[segment.tile, segment.row : segment.end] = True
    instructions = [
        instruction
        for stream in package.main.instruction_bitstreams or ()
        if stream.bitstream is not None
        for instruction in disassemble(stream.bitstream.tobytes())
    ]
    for reserved in staging(instructions):
        for tile in range(16):
            if reserved.tiles >> tile & 1:
                rows[tile, reserved.row : reserved.row + reserved.rows] = True
    return rows


def check_disjoint(linked: Sequence[PackageFile]) -> None:
    """What stays on the chip for one package is in nobody's way."""
    for one, other in combinations(linked, 2):
        for here, there in ((one, other), (other, one)):
            rows = used(there)
            for segment in cached(here):
                assert not rows[segment.tile, segment.row : segment.end].any()


def inputs(package: PackageFile, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(
            0, 256, layer.packed_bytes * layer.execution_count_per_inference, np.uint8
        )
        for name, layer in package.main.inputs.items()
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 4, 8])
def test_models_that_share_rows_compute_what_they_did(seed: int) -> None:
    graph, retrained = random_model(seed), random_model(seed)
    for value in [*retrained.values.values()]:
        if value.data is not None and value.data.itemsize == 1:
            retrained.set_value(replace(value, data=np.flip(value.data).copy()))
    alone = [program(graph), program(retrained)]
    free = height(alone[0])
    linked = link([crowded(package, str(n), free) for n, package in enumerate(alone)])
    assert all(shared(item) for item in linked)
    check_disjoint(linked)
    device = SimulatedDevice()
    for number in range(2):
        data = inputs(alone[0], number)
        for before, after in zip(alone, linked, strict=True):
            wanted = SimulatedDevice().run(before, data).tensors
            found = device.run(after, data).tensors
            assert wanted.keys() == found.keys()
            assert all(np.array_equal(wanted[name], found[name]) for name in wanted)
        one, other = (SimulatedDevice().run(item, data).tensors for item in alone)
        assert any(not np.array_equal(one[name], other[name]) for name in one)
    for item in linked:
        assert not [one for one in findings(item) if one.severity is Severity.ERROR]


def test_all_rows_may_be_shared() -> None:
    objects = [small_object(name, rows=2000) for name in ("a", "b")]
    linked = link(objects)
    for package in linked:
        assert package.main.kind is ExecutableType.STAND_ALONE
        assert package.caching is None
        (segment,) = shared(package)
        assert (segment.tile, segment.words) == (0, 2000)
        assert package.main.parameters is not None
        assert len(package.main.parameters) == 2000 * 256


def test_what_does_not_fit_alone_is_refused() -> None:
    with pytest.raises(CapacityError, match="do not fit on the chip"):
        link([small_object("a"), small_object("b", rows=2075)])


@pytest.mark.long
@pytest.mark.corpus
def test_many_large_models_share_the_chip() -> None:
    large = corpus() / "coral" / "yamnet_spectra_in_edgetpu.tflite"
    objects = [recover(packages(large)[0], name) for name in "abcd"]
    linked = link(objects)
    check_disjoint(linked)
    units = {
        sum(segment.units for segment in (*cached(package), *shared(package))) for package in linked
    }
    assert units == {sum(segment.units for segment in cached(packages(large)[0]))}

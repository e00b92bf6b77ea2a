from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.driver.edgetpu_programs import echo
from tests.report import timelines

from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.edgetpu import timing
from fitzroy.hw_models.edgetpu.occupancy import occupancy
from fitzroy.hw_models.edgetpu.timeline import Issued, Link, Phase, Span, Timeline
from fitzroy.hw_models.isa.conversion import NarrowToWide
from fitzroy.hw_models.isa.fields import Opcode
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import traversal
from fitzroy.report.phases import PhaseFigures, busiest_tile, phases
from fitzroy.report.run import Run

ALL = 0xFFFF


def tensor_op(
    loops: list[int],
    reduction: int,
    level: int,
    lanes: tuple[int, int],
    a: list[tuple[int, int]] | None = None,
    *,
    op: Opcode = Opcode.MAC,
    trained: bool = True,
    nlu: bool = False,
) -> TensorOp:
    return TensorOp(
        op=op,
        loops=tuple(loops + [1] * (8 - len(loops))),
        reduction=reduction,
        block_level=level,
        lanes=lanes[0],
        lanes_last=lanes[1],
        a=None if a is None else traversal(0, a, rank=8),
        trained=trained,
        nlu=nlu,
    )


def run_of(*instructions: Instruction, tiles: int = ALL, cycles: float = 10_000) -> Run:
    """A run of one phase between two empty ones."""
    issued: list[Issued] = []
    spans: list[Span] = []
    for item in instructions:
        steps, macs = 8, 0
        if isinstance(item, TensorOp):
            steps = 1
            for loop in item.loops:
                steps *= loop
            macs = steps * 64 * (4 - sum(item.idle_multipliers))
            spans.append(Span("op", tiles, len(issued), 1000, 1000 + steps + 5, steps, {"data": 5}))
        issued.append(Issued(item, 0, 16, 1, tiles, steps, macs))
    timeline = Timeline(
        clock="max",
        core_mhz=500,
        host="jetson_nano_10w_usb3",
        start=10,
        cycles=cycles + 2000,
        total=100,
        issued=tuple(issued),
        spans=tuple(spans),
        phases=(
            Phase(0, 1000, 5, 0),
            Phase(1000, 1000 + cycles, 9, 128),
            Phase(1000 + cycles, 2000 + cycles, 5, 0),
        ),
        transfers=(),
        critical_path=(
            Link("scalar", None, 0, 1500, "start"),
            Link("op", 0, 1500, 900 + cycles, "data"),
            Link("host", None, 900 + cycles, 2000 + cycles, "op"),
        ),
    )
    base = timelines.run(echo())
    return Run("m", timeline, base.occupied, 0, 0, 0, {}, {})


def middle(*instructions: Instruction, tiles: int = ALL, cycles: float = 10_000) -> PhaseFigures:
    return phases(run_of(*instructions, tiles=tiles, cycles=cycles))[1]


HOST_ROWS = Outfeed(to_host=True, buffer=traversal(0, [(40, 1)], rank=3), row_words=64)
IMAGE = Infeed(memory=InfeedMemory.ACTIVATION, buffer=traversal(0, [(64, 1)], rank=3), row_words=32)


@pytest.mark.parametrize(
    ("instructions", "name"),
    [
        # 3 x 3 windows of 8 channels at stride 1: 8-byte pixels in rows of 80 bytes.
        (
            [tensor_op([18, 16], 1, 2, (32, 32), [(2, 4), (3, 8), (3, 80), (16, 8)])],
            "conv 3x3x8 -> 32",
        ),
        # The pixels of a window follow each other, which does not make them channels.
        ([tensor_op([9, 16], 1, 2, (8, 8), [(3, 4), (3, 40), (16, 8)])], "conv 3x3x4 -> 8"),
        ([tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])], "conv 1x1x32 -> 32"),
        # Two blocks of outputs, partial sums over four groups of input channels.
        (
            [tensor_op([8, 4, 4, 2], 0b101, 3, (64, 20), [(8, 4), (4, 128), (4, 32), (2, 0)])],
            "conv 1x1x128 -> 84",
        ),
        (
            [tensor_op([9, 64, 6], 1, 2, (4, 4), [(3, 24), (3, 264), (64, 24), (6, 4)])],
            "depthwise 3x3, 24 channels",
        ),
        ([tensor_op([64], 1, 1, (44, 44), [(64, 4)])], "dense 256 -> 44"),
        # Dimensions that do not divide the loops.
        ([tensor_op([6, 4], 1, 2, (8, 8), [(4, 4), (6, 16)])], "mac of 6 terms -> 8"),
        ([tensor_op([1, 32], 0, 2, (4, 4), [(32, 4)], trained=False)], "copy"),
        (
            [tensor_op([1, 32], 0, 2, (4, 4), [(32, 4)], trained=False, nlu=True)],
            "non-linear function",
        ),
        ([tensor_op([16, 4], 3, 2, (4, 4), op=Opcode.MAX, trained=False)], "max of 64 terms"),
        (
            [tensor_op([9, 49], 1, 2, (64, 64), op=Opcode.MAX, trained=False)],
            "max pool, 9 terms",
        ),
        # Weights matter more than steps.
        (
            [
                tensor_op([1, 4096], 0, 2, (4, 4), [(4096, 4)], trained=False),
                tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)]),
            ],
            "conv 1x1x32 -> 32",
        ),
        ([IMAGE], "input"),
        (
            [IMAGE, tensor_op([3, 32], 1, 2, (4, 4), [(3, 1), (32, 3)], trained=False)],
            "input",
        ),
        ([HOST_ROWS], "output"),
        (
            [HOST_ROWS, tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])],
            "conv 1x1x32 -> 32 + output",
        ),
        ([RingProduce(wide=traversal(0, [(4, 1)], rank=4))], "move over the ring"),
        ([Mesh(send=traversal(0, [(4, 1)], rank=4)), Mesh(fill=True)], "halo"),
        ([Mesh(fill=True)], "fill"),
        (
            [
                NarrowToWide(
                    narrow=traversal(0, [(4, 1)], rank=6), wide=traversal(0, [(1, 1)], rank=4)
                )
            ],
            "repack",
        ),
        ([], "fence"),
    ],
)
def test_name_says_what_a_phase_does(instructions: list[Instruction], name: str) -> None:
    assert middle(*instructions).name == name


def test_products_are_those_of_lanes_that_are_on() -> None:
    found = middle(tensor_op([9, 64, 6], 1, 2, (4, 4), [(9, 24), (64, 24), (6, 4)]))
    assert found.macs == 9 * 64 * 6 * 4 * 4 * 16
    assert found.utilization == found.macs / (10_000 * 16 * 64 * 4)
    assert found.steps == found.op_busy == 9 * 64 * 6
    assert found.op_waits == {"data": 5}


def test_traffic_of_a_phase() -> None:
    found = middle(
        RingProduce(wide=traversal(0, [(8, 1)], rank=4)),
        Mesh(send=traversal(0, [(5, 1)], rank=4), receive=traversal(0, [(5, 1)], rank=4)),
        Mesh(receive=traversal(0, [(7, 1)], rank=4)),
        IMAGE,
        HOST_ROWS,
        tiles=0b11,
    )
    assert found.ring_rows == 8 * 2 + 64 * 8 // 128
    assert found.ring_bytes == 8 * 2 * 256 + 64 * 8
    assert found.mesh_words == 5 * 2
    assert found.output_bytes == 40 * 8
    assert found.streamed == 128


def test_critical_path_is_cut_where_phases_end() -> None:
    first, second, third = phases(run_of(IMAGE))
    assert first.critical == {"scalar": 1000}
    assert second.critical == {"scalar": 500, "op": 9400, "host": 100}
    assert third.critical == {"host": 1000}
    assert [item.bound for item in (first, second, third)] == ["scalar", "op", "host"]


def test_busiest_tile_is_that_of_its_op_engine() -> None:
    operation = tensor_op([8, 64], 1, 2, (32, 32), [(8, 4), (64, 32)])
    assert busiest_tile(run_of(operation, tiles=1 << 9)) == 9


def test_run_without_operations() -> None:
    run = timelines.run(echo())
    found = phases(run)
    assert len(found) == run.occupancy.phases
    assert sum(item.macs for item in found) == 0
    assert sum(item.output_bytes for item in found) == 256
    assert any("output" in item.name for item in found)


@pytest.mark.corpus
def test_layers_of_a_real_model(mobilenet: PackageFile) -> None:
    found = phases(timelines.run(mobilenet))
    layers = [item.name for item in found if item.macs > 50_000]
    assert layers[:3] == ["input", "conv 3x3x4 -> 8", "depthwise 3x3, 8 channels"]
    assert sum(name.startswith("depthwise") for name in layers) == 13
    # Pointwise convolutions of one position in each tile look like dense layers.
    assert sum(name.startswith(("conv", "dense")) for name in layers) == 1 + 13 + 1
    assert sum(item.input_bytes for item in found) == 128 * 128 * 3
    assert sum(item.output_bytes for item in found) == 1008
    # The model has 13.6 million products; depthwise layers count four times, others are padded.
    assert 13.6e6 < sum(item.macs for item in found) < 30e6


def test_times_count_in_the_phases_where_they_pass() -> None:
    operation = tensor_op([8, 64], 1, 2, (64, 64), [(8, 4), (64, 32)])
    run = run_of(operation)
    # A quarter of the operation is done after the phase that issued it.
    (span,) = run.timeline.spans
    late = replace(span, begin=11_000 - 300, end=11_000 + 100, busy=200, waits={"data": 80})
    found = phases(replace(run, timeline=replace(run.timeline, spans=(late,))))
    assert [item.op_busy for item in found] == [0, 150, 50]
    assert [dict(item.op_waits) for item in found] == [{}, {"data": 60}, {"data": 20}]
    assert [item.macs for item in found] == [0, 8 * 64 * 256 * 16, 0]
    assert found[1].utilization == found[1].macs * 0.75 / (10_000 * run.peak_macs)
    assert found[2].utilization == found[1].macs * 0.25 / (1_000 * run.peak_macs)


@pytest.mark.long
@pytest.mark.corpus
def test_no_unit_is_busy_for_longer_than_a_phase(mobilenet: PackageFile) -> None:
    main = timelines.stages(mobilenet)[-1]
    assert main.recording is not None
    timeline = timing.simulate(main.recording, main.chunk_sizes)
    run = Run("m", timeline, partial(occupancy, main.recording), 0, 0, 0, {}, {})
    found = phases(run)
    for item in found:
        assert item.utilization <= 1
        for cycles in item.busy.values():
            assert cycles <= item.cycles * (1 + 1e-9)
        assert sum(item.critical.values()) == pytest.approx(item.cycles)
    done = sum(item.utilization * item.cycles * run.peak_macs for item in found)
    assert done == pytest.approx(sum(item.macs for item in found))

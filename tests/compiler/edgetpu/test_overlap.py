"""Layers that compute while their input arrives, and instructions that arrive while others run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu_models import differing_bytes, findings, program

from fitzroy.base.types import DType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.fitting import strip_search
from fitzroy.compiler.targets.edgetpu.fitting.narrow import Arrangement, arranged
from fitzroy.compiler.targets.edgetpu.fitting.schedule import Schedule
from fitzroy.compiler.targets.edgetpu.fitting.strips import Segment
from fitzroy.compiler.targets.edgetpu.fitting.wide import assigned
from fitzroy.compiler.targets.edgetpu.host import host_layers, pace
from fitzroy.compiler.targets.edgetpu.host.flow import flows
from fitzroy.compiler.targets.edgetpu.instructions import builder as building
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.layers.input_stream import CREDIT, InputStream, Piece
from fitzroy.compiler.targets.edgetpu.layers.layer import Flow, Step
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options, Search
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.allocation import NARROW_BYTES
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image
from fitzroy.compiler.targets.edgetpu.program.lower import legalized, lower
from fitzroy.execution.estimate import estimate
from fitzroy.formats.darwinn import PackageFile, write_package
from fitzroy.hw_models.edgetpu.envelope import Program, departures, measured
from fitzroy.hw_models.edgetpu.envelope.fences import SHORT_CHUNKS
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES, Instruction
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.stream import Pop
from fitzroy.linker.packages.darwinn import link


@cache
def separable() -> Graph:
    """The first layers of MobileNet, for pictures that take long to arrive."""
    graph = chain(DType.INT8, (176, 144, 3))
    grow(graph, "conv_2d", 24, (3, 3), (2, 2))
    grow(graph, "depthwise_conv_2d", 24, (3, 3))
    grow(graph, "conv_2d", 48, (1, 1))
    grow(graph, "depthwise_conv_2d", 48, (3, 3), (2, 2))
    grow(graph, "conv_2d", 64, (1, 1))
    grow(graph, "conv_2d", 8, (1, 1), (4, 4))
    return graph


@cache
def arrangement() -> Arrangement:
    return arranged(legalized(separable()))


def receives() -> list[Step]:
    return [step for step in arrangement().schedule.steps if step.layer.received]


def chunks(package: PackageFile) -> list[bytes]:
    streams = package.main.instruction_bitstreams or ()
    return [b"" if stream.bitstream is None else bytes(stream.bitstream) for stream in streams]


def decoded(package: PackageFile) -> list[list[Instruction]]:
    return [disassemble(one) for one in chunks(package)]


def microseconds(package: PackageFile) -> float:
    """What an inference takes on the timing model."""
    return estimate(package, "model").timeline.total


def test_layers_begin_before_their_input_is_there() -> None:
    kinds = [step.layer.received for step in arrangement().schedule.steps]
    assert len(receives()) > 1
    first, last = kinds.index(True), len(kinds) - 1 - kinds[::-1].index(True)
    assert not all(kinds[first:last])


def test_each_strip_gets_the_rows_that_no_strip_before_it_got() -> None:
    parts = [step.result for step in receives()]
    whole = receives()[0].whole
    assert whole is not None
    for row in range(4):
        owned = [part.rows.owned[row] for part in parts if isinstance(part, Image)]
        assert owned[0][0] == whole.rows.owned[row][0]
        assert owned[-1][1] == whole.rows.owned[row][1]
        assert all(before[1] == after[0] for before, after in pairwise(owned))


def test_rows_have_arrived_when_they_are_read() -> None:
    steps = arrangement().schedule.steps
    whole = receives()[0].whole
    assert whole is not None
    there = [begin for begin, _ in whole.rows.owned]
    for step in steps:
        result = step.result
        assert isinstance(result, Image)
        if step.layer.received:
            there = [end for _, end in result.rows.owned]
        elif whole.name in step.layer.reads:
            for part, owned in enumerate(result.rows.owned):
                _, end = step.layer.windows(0)[0].needs(owned)
                assert min(end, whole.rows.extent) <= there[part]


@pytest.mark.long
def test_results_are_right_and_the_program_obeys_the_rules() -> None:
    package = program(separable())
    assert differing_bytes(separable(), package, (None, 1)) == 0
    assert not findings(package)


@pytest.mark.long
def test_the_link_stands_still_at_most_for_the_first_rows() -> None:
    pieces = [piece for step in receives() for piece in host_layers.pieces(step)]
    assert len(pieces) > len(receives())
    timeline = estimate(program(separable()), "model").timeline
    spans = [span for span in timeline.spans if span.unit == "avdata_pop"]
    assert len(spans) == len(pieces)
    computing = [span.begin for span in timeline.spans if span.unit == "op"]
    assert min(computing) < max(span.end for span in spans)


@pytest.mark.long
def test_it_saves_time() -> None:
    late = program(separable(), Options(search=Search(strips=())))
    assert microseconds(program(separable())) < microseconds(late)


def test_layers_that_do_not_fit_beside_the_whole_input_run_in_other_strips() -> None:
    layered = legalized(separable())
    search = strip_search.Search.of(Schedule.of(layered))
    early = search.choose(NARROW_BYTES, early=True)
    assert not isinstance(early, Refused)
    assert [segment.arriving for segment in early] == [True]
    smaller = search.choose(12_000, early=True)
    assert not isinstance(smaller, Refused)
    assert smaller
    assert not any(segment.arriving for segment in smaller)
    assert search.choose(NARROW_BYTES, early=False) == []


def test_strips_hide_the_reading_of_outputs() -> None:
    search = strip_search.Search.of(Schedule.of(legalized(separable())))
    end = len(search.layered.layers)
    assert search.layered.layers[-1].remote
    segment = Segment(end - 3, end, 2)
    reading = pace.READING * search.leaving(end - 1)
    assert 0 < search.hidden(segment) <= min(reading, search.cycles(segment) / 2)
    assert search.hidden(segment) < search.hidden(replace(segment, strips=3))
    assert search.hidden(replace(segment, strips=1)) == 0
    assert search.hidden(replace(segment, first=end - 4, end=end - 1)) == 0


# --- chunks --------------------------------------------------------------------------------------


@cache
def deep() -> Graph:
    """Many layers, whose instructions take long to arrive."""
    graph = chain(DType.INT8, (32, 32, 4))
    for _ in range(16):
        grow(graph, "conv_2d", 32, (3, 3))
    return graph


@cache
def forms() -> frozenset[str]:
    """Forms of its program that no published one has."""
    every = (one for chunk in decoded(program(deep())) for one in chunk)
    return frozenset(form(one) for one in every) - published().keys()


def paced() -> Options:
    """Options for a device that confirmed these forms, and short chunks."""
    return Options(confirmed=forms() | {SHORT_CHUNKS})


@pytest.mark.long
def test_chunks_are_short_only_if_that_is_confirmed() -> None:
    usual = write_package(program(deep()))
    assert write_package(program(deep(), Options(confirmed=forms()))) == usual
    assert len(chunks(program(deep()))) == 1
    short = program(deep(), paced())
    assert write_package(link([lower(deep(), paced())])[0]) == write_package(short)
    sizes = [len(one) // BUNDLE_BYTES for one in chunks(short)]
    assert len(sizes) > 2
    assert all(size >= building._SHORT_BUNDLES for size in sizes[:-1])
    # Each ends with the first phase that makes it long enough.
    assert max(sizes) < 2 * building._SHORT_BUNDLES


@pytest.mark.long
def test_conservative_programs_have_short_chunks_only_if_that_is_confirmed() -> None:
    careful = Options(conservative=True, confirmed=frozenset())
    assert write_package(program(deep(), careful)) == write_package(
        program(deep(), Options(conservative=True))
    )
    confirmed = replace(careful, confirmed=frozenset({SHORT_CHUNKS}))
    assert len(chunks(program(deep(), confirmed))) > 2


@pytest.mark.long
def test_short_chunks_change_no_result_and_save_time() -> None:
    short = program(deep(), paced())
    assert differing_bytes(deep(), short, (None, 1)) == 0
    assert not findings(short)
    left = {one.property.slug for one in departures(measured(Program.of(decoded(short))))}
    assert left == {SHORT_CHUNKS}
    assert microseconds(short) < microseconds(program(deep()))


def test_a_chunk_ends_between_two_phases_only() -> None:
    builder = Builder()
    builder.begin()
    builder.barrier()
    builder.pace()
    assert builder.position[0] == 0
    while builder.position[1] < building._SHORT_BUNDLES:
        builder.fence()
    builder.pace()
    assert builder.position[0] == 0
    builder.barrier()
    builder.pace()
    assert builder.position[0] == 1


# --- streams of inputs ---------------------------------------------------------------------------


def stream(*sizes: int) -> InputStream:
    return InputStream([[Piece("x", (0, size)) for size in sizes]])


def test_nothing_is_asked_for_before_the_stream_begins() -> None:
    found, builder = stream(10, 20), Builder()
    found.ahead(builder, 2)
    assert not found.asked
    assert [found.take(builder), found.take(builder)] == [0, 10]
    assert found.complete


def test_no_more_is_asked_for_than_the_buffer_holds() -> None:
    found, builder = stream(CREDIT, 1, CREDIT - 1, 1), Builder()
    found.take(builder)
    found.ahead(builder, 3)
    assert found.asked == 3
    assert found.requested - found.sent == CREDIT


def test_units_that_two_rows_of_tiles_get_count_twice() -> None:
    found, builder = InputStream([[Piece("x", (0, 10), again=3), Piece("x", (10, 15))]]), Builder()
    found.take(builder)
    found.take(builder)
    pops = [item for *_, item in builder.program if isinstance(item, Pop)]
    thresholds = [pop.wait[0].threshold for pop in pops if pop.wait[0] is not None]
    assert thresholds == [0, 13]


def test_after_something_else_a_stream_begins_anew() -> None:
    found, builder = InputStream([[Piece("x", (0, 10))], [Piece("x", (5, 10))]]), Builder()
    found.take(builder)
    found.ahead(builder, 1)
    assert found.stream == 0
    assert found.take(builder) == 0
    assert found.complete


# --- one phase for a transfer and a layer --------------------------------------------------------


def filtered(
    extent: tuple[int, int, int],
    channels: int,
    kernel: tuple[int, int] = (3, 3),
    stride: tuple[int, int] = (1, 1),
    op: str = "conv_2d",
) -> Graph:
    """A single convolution."""
    graph = chain(DType.INT8, extent)
    grow(graph, op, channels, kernel, stride)
    return graph


FLOWING: dict[str, Callable[[], Graph]] = {
    "few channels": lambda: filtered((12, 128, 32), 32),
    "rows between words": lambda: filtered((24, 16, 3), 8),
    "no windows": lambda: filtered((12, 40, 16), 24, (1, 1)),
    "wide windows": lambda: filtered((19, 23, 3), 12, (7, 5)),
    "stride": lambda: filtered((32, 32, 3), 16, (4, 4), (2, 2)),
    "two blocks": lambda: filtered((9, 14, 8), 100),
    "depthwise": lambda: filtered((16, 20, 8), 8, op="depthwise_conv_2d"),
    "idle tiles": lambda: filtered((2, 3, 3), 4, (1, 1)),
}
"""Convolutions that read an input, and make an output."""


def flow(graph: Graph, options: Options = DEFAULT) -> list[Flow]:
    """What the phases of its steps bring and send."""
    assignment = assigned(legalized(graph, options))
    pieces = assignment.residency.pieces
    return flows(assignment.schedule.steps, options, pieces.__contains__)


@pytest.mark.parametrize("name", FLOWING)
def test_a_convolution_runs_in_one_phase_with_its_transfers(name: str) -> None:
    graph = FLOWING[name]()
    assert [step.joins for step in flow(graph)] == [True, True, False]
    package = program(graph)
    assert differing_bytes(graph, package) == 0
    assert not findings(package)


def test_more_blocks_than_slots_of_scales_wait_for_the_input() -> None:
    # Scales of a third block need AVDATA to count blocks, and nothing else.
    graph = filtered((9, 14, 8), 200)
    assert [step.joins for step in flow(graph)] == [False, True, False]
    package = program(graph)
    assert differing_bytes(graph, package) == 0
    assert not findings(package)


def test_weights_from_the_host_flow_alone() -> None:
    graph, streamed = filtered((9, 14, 8), 32), Options(parameter_rows=0)
    assert not any(step.joins for step in flow(graph, streamed))
    assert differing_bytes(graph, program(graph, streamed)) == 0


def test_published_programs_have_a_phase_for_each() -> None:
    assert not any(step.joins for step in flow(FLOWING["stride"](), Options(conservative=True)))


def test_tiles_compute_before_the_last_rows_have_come() -> None:
    timeline = estimate(program(FLOWING["few channels"]()), "model").timeline
    fed = max(span.end for span in timeline.spans if span.unit == "infeed")
    assert min(span.begin + span.busy for span in timeline.spans if span.unit == "op") < fed
    rows = [span for span in timeline.spans if span.unit == "narrow_to_wide"]
    last = max(span.end for span in timeline.spans if span.unit == "op")
    assert min(span.end - span.busy for span in rows[1:]) < last

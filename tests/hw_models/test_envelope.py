"""The envelope: a program that leaves each property, and published programs that leave none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.envelope import mined
from benchmarks.forms import programs as published_paths
from benchmarks.support import ROOT
from tests.support import corpus, corpus_path

from fitzroy.base.diagnostics import Severity
from fitzroy.base.errors import SimulationError
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope import (
    PROPERTIES,
    Bound,
    Measured,
    Program,
    Published,
    Risk,
    departures,
    measured,
    published,
    range_text,
)
from fitzroy.hw_models.edgetpu.envelope import (
    program as programs,
)
from fitzroy.hw_models.edgetpu.envelope.check import bounds, excess
from fitzroy.hw_models.edgetpu.envelope.published import TABLE, table
from fitzroy.hw_models.edgetpu.scalar import HostWords
from fitzroy.hw_models.edgetpu.verifier import record, verify
from fitzroy.hw_models.isa.counters import signed16
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import (
    Opcode,
    Producer,
    ScalarFlag,
    StreamEngine,
    TileEngine,
    TileFlag,
    Watcher,
)
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import chunk
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.scalar import (
    Alu,
    DescriptorSlot,
    DescriptorTag,
    Halt,
    Load,
    Loop,
    Scalar,
    Special,
    Store,
)
from fitzroy.hw_models.isa.stream import Infeed, InfeedMemory, Outfeed, Pop, PopMemory
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import (
    BUFFER,
    BYTES,
    INFEED_BUFFER,
    QUARTERS,
    WIDE,
    traversal,
)
from fitzroy.hw_models.isa.units import infeed_units, pop_units

ALL = 0xFFFF
EVERY_FLAG = (1 << len(TileFlag)) - 1
ENGINES = (1 << len(TileEngine)) - 1
NOP = Scalar()
DRAIN = ScalarFence(idle=1 << StreamEngine.PIPELINE)
PUSH = Scalar(store=Store.PUSH, store_from=4)
STORE = Scalar(store=Store.ABSOLUTE, store_address=7, store_from=4)


def move(to: int, value: int = 0) -> Scalar:
    return Scalar(alu=Alu.MOV, immediate_b=True, to=to, immediate=value)


def descriptor(tag: DescriptorTag, size: int, address: int = 0) -> list[Instruction]:
    """A request, as far from the next one as published programs have it."""
    words = {
        DescriptorSlot.ADDRESS_LOW: address,
        DescriptorSlot.ADDRESS_HIGH: 0,
        DescriptorSlot.SIZE: size,
        DescriptorSlot.TAG: tag,
    }
    found: list[Instruction] = [NOP] * 18
    for number, (slot, value) in enumerate(words.items(), 4):
        found.append(move(number, value))
        store = Store.DESCRIPTOR
        found.append(Scalar(store=store, store_address=slot, store_from=number))
    return [*found, Scalar(store=Store.ISSUE)]


def output(size: int, address: int = 0) -> list[Instruction]:
    return descriptor(DescriptorTag.OUTPUT, size, address)


def special(
    kind: Special = Special.EXP2, to: int = 6, other: Scalar | None = None
) -> list[Instruction]:
    bundle = replace(other or NOP, special=kind, special_to=to, special_from=5)
    return [move(5), *[NOP] * 20, bundle]


def use(register: int) -> Scalar:
    return Scalar(alu=Alu.FADD, to=7, a=register, immediate=register)


def infeed(memory: InfeedMemory, base: int = 0, units: int = 4, *, row_words: int = 4) -> Infeed:
    buffer = traversal(base, [(units, 1)], rank=INFEED_BUFFER.rank)
    return Infeed(memory=memory, buffer=buffer, destination=1, row_words=row_words)


def fed(units: int) -> Infeed:
    """An infeed of words that the outfeed has brought."""
    wait = (Watcher(ScalarFlag.RING_OUTFEED, 0, 1, 1), None)
    return replace(infeed(InfeedMemory.SCALAR, units=units), wait=wait)


def pop(memory: PopMemory, units: int) -> Pop:
    return Pop(memory=memory, buffer=traversal(0, [(units, 1)], rank=BUFFER.rank))


def outfeed(units: Sequence[int], *, to_host: bool = True) -> Outfeed:
    buffer = traversal(0, [(count, 0) for count in units], rank=BUFFER.rank)
    return Outfeed(buffer=buffer, to_host=to_host)


def message(tokens: int = 1) -> RingProduce:
    wide = traversal(0, [(100, 1), (-(-tokens // 100), 0)], rank=WIDE.rank)
    return RingProduce(tiles=1, wide=wide, token=Producer(0), to_outfeed=True)


def summing(positions: int, groups: int, inner: int = 1) -> TensorOp:
    """Sums in wide memory: for each group, `inner` steps for each of some positions."""
    loops = (inner, positions, groups, 1, 1, 1, 1, 1)
    steps = [(inner, 0), (positions, 4), (groups, 0)]
    return TensorOp(
        tiles=1,
        loops=loops,
        a=traversal(0, [(inner, 0), (positions, 0), (groups, 0)], rank=BYTES.rank),
        b=traversal(4096, [(16, 4), (positions, 64)], rank=BYTES.rank),
        c=traversal(0, [(inner, 0), (positions, 0), (groups, 0)], rank=QUARTERS.rank),
        d=traversal(400, steps, rank=QUARTERS.rank),
        reduction=0b101,
        block_level=3,
        lanes=64,
        lanes_last=64,
    )


def running(words: int) -> TensorOp:
    """Copies words of narrow memory one further, each from where the last one went."""
    loops = (words, 1, 1, 1, 1, 1, 1, 1)
    return TensorOp(
        tiles=1,
        loops=loops,
        a=traversal(0, [(words, 4)], rank=BYTES.rank),
        b=traversal(4, [(words, 4)], rank=BYTES.rank),
        c=traversal(0, [(words, 0)], rank=QUARTERS.rank),
        d=traversal(0, [(words, 0)], rank=QUARTERS.rank, ping_pong=(0, 4)),
        accumulate=True,
        lanes=4,
        lanes_last=4,
    )


def fill(word: int) -> Mesh:
    return Mesh(
        op=Opcode.MESH_NORTHWARD,
        tiles=ALL,
        receive=traversal(word, [(1, 1)], rank=WIDE.rank),
        fill=True,
    )


def tokens_awaited() -> ScalarFence:
    return ScalarFence(wait=1 << ScalarFlag.PRODUCER_A, set=1 << ScalarFlag.PRODUCER_A)


RESET = TileFence(tiles=ALL, set=EVERY_FLAG, idle=ENGINES, signal=True)
AWAIT = ScalarFence(clear=ALL, wait_tiles=True, tiles=ALL)
INPUT, PARAMETERS = DescriptorTag.INPUT, DescriptorTag.PARAMETERS
ACTIVATION, PARAMETER, SCALAR = (
    InfeedMemory.ACTIVATION,
    InfeedMemory.PARAMETER,
    InfeedMemory.SCALAR,
)

OUTSIDE: dict[str, tuple[int, Sequence[Instruction]]] = {
    "partial-sum-run": (7, [summing(9, 3, inner=7)]),
    "partial-sum-revisit": (8, [summing(2, 3, inner=7)]),
    "partial-sum-words": (8, [summing(30, 3, inner=2)]),
    "stored-word-infeed": (1, [move(4), DRAIN, STORE, infeed(SCALAR)]),
    "relay-fence": (1, [move(4), DRAIN, message(), outfeed([2], to_host=False), *output(8), PUSH]),
    "push-run": (1, [move(4), *output(12), PUSH, PUSH, PUSH]),
    "output-descriptor-place": (8, [move(4), *output(16), PUSH, PUSH]),
    "output-descriptor-offset": (8, output(32, address=8)),
    "output-descriptor-size": (24, [*output(24), *output(32, address=24)]),
    "special-unit-spacing": (1, [*special(), special()[-1]]),
    "exponential-use": (2, [*special(), NOP, use(6)]),
    "reciprocal-use": (18, [*special(Special.RECIPROCAL), *[NOP] * 17, use(6)]),
    "special-unit-alone": (1, special(other=move(8))),
    "infeed-base": (1, [infeed(ACTIVATION, base=32_768)]),
    "infeed-reach": (2, [infeed(ACTIVATION, base=32_767, units=32_770)]),
    "open-descriptors": (2, [*descriptor(INPUT, 8), *descriptor(INPUT, 8)]),
    "open-parameter-descriptors": (5, 5 * descriptor(PARAMETERS, 64)),
    "open-pops": (2, 2 * [pop(PopMemory.ACTIVATION, 1)]),
    "open-parameter-pops": (5, 5 * [pop(PopMemory.PARAMETER, 1)]),
    "pop-requests": (2, [pop(PopMemory.ACTIVATION, 2), *2 * descriptor(INPUT, 8)]),
    "descriptor-spacing": (9, [*output(32), *output(32, address=32)[18:]]),
    "descriptor-write": (17, [*output(32), *output(32, address=32)[3:]]),
    "ring-tokens": (20_500, [message(20_500)]),
    "waiting-outfeeds": (18, 18 * [outfeed([1])]),
    "waiting-infeeds": (17, 17 * [infeed(ACTIVATION)]),
    "waiting-parameter-infeeds": (160, 160 * [infeed(PARAMETER)]),
    "waiting-scalar-infeeds": (2, 2 * [fed(4)]),
    "narrow-top": (49_149, [fill(49_149)]),
    "second-handshake": (1, [RESET, AWAIT, fill(0)]),
    "end-fence": (1, [message(), tokens_awaited()]),
    "outfeed-length": (16_400, [outfeed([16_400])]),
    "outfeed-loops": (2, [outfeed([2, 2])]),
    "scalar-load-alone": (1, [replace(move(4), load=Load.ABSOLUTE, load_to=5)]),
    "store-spacing": (2, [move(4), STORE, NOP, STORE]),
    "slot-register": (15, [Scalar(load=Load.ABSOLUTE, load_to=15)]),
    "scalar-infeed-row": (64, [replace(fed(64), row_words=64)]),
    "scalar-infeed-rest": (3, [fed(7)]),
    "self-read": (29, [running(30)]),
}
"""For every property, the value outside of a program and its instructions."""

INSIDE: dict[str, Sequence[Instruction]] = {
    "partial-sum-run": [summing(9, 3, inner=8)],
    "partial-sum-revisit": [summing(2, 3, inner=8)],
    "partial-sum-words": [summing(30, 3, inner=3)],
    "stored-word-infeed": [move(4), STORE, DRAIN, infeed(SCALAR)],
    "relay-fence": [move(4), message(), DRAIN, outfeed([2], to_host=False), *output(8), PUSH],
    "push-run": [move(4), *output(16), PUSH, PUSH, PUSH, PUSH],
    "output-descriptor-place": [move(4), *output(8), PUSH, PUSH],
    "output-descriptor-offset": output(32, address=32),
    "output-descriptor-size": [*output(32), *output(24, address=32)],
    "special-unit-spacing": [*special(), *[NOP] * 5, special()[-1]],
    "exponential-use": [*special(), NOP, NOP, use(6)],
    "reciprocal-use": [*special(Special.RECIPROCAL), *[NOP] * 18, use(6)],
    "special-unit-alone": special(),
    "infeed-base": [infeed(ACTIVATION, base=32_767)],
    "infeed-reach": [infeed(ACTIVATION, base=32_766, units=32_770)],
    "open-descriptors": [
        pop(PopMemory.ACTIVATION, 1),
        *descriptor(INPUT, 8),
        ScalarFence(idle=1 << StreamEngine.AVDATA_POP),
        pop(PopMemory.ACTIVATION, 1),
        *descriptor(INPUT, 8),
    ],
    "open-parameter-descriptors": 4 * descriptor(PARAMETERS, 64),
    "open-pops": [
        pop(PopMemory.ACTIVATION, 1),
        ScalarFence(idle=1 << StreamEngine.AVDATA_POP),
        pop(PopMemory.ACTIVATION, 1),
    ],
    "open-parameter-pops": 4 * [pop(PopMemory.PARAMETER, 1)],
    "pop-requests": 2 * [pop(PopMemory.ACTIVATION, 1), *descriptor(INPUT, 8)],
    "descriptor-spacing": [*output(32), *output(32, address=32)],
    "descriptor-write": [*output(32), *output(32, address=32)],
    "ring-tokens": [
        message(20_000),
        replace(tokens_awaited(), value=0),
        message(20_000),
    ],
    "waiting-outfeeds": [
        *16 * [outfeed([1])],
        ScalarFence(idle=1 << StreamEngine.OUTFEED),
        *16 * [outfeed([1])],
    ],
    "waiting-infeeds": 16 * [infeed(ACTIVATION)],
    "waiting-parameter-infeeds": 159 * [infeed(PARAMETER)],
    "waiting-scalar-infeeds": [fed(4), ScalarFence(idle=1 << StreamEngine.INFEED), fed(4)],
    "narrow-top": [fill(49_148)],
    "second-handshake": [RESET, AWAIT, replace(RESET, set=0), AWAIT, fill(0)],
    "end-fence": [message(), TileFence(tiles=ALL, idle=ENGINES), tokens_awaited()],
    "outfeed-length": [outfeed([16_384])],
    "outfeed-loops": [outfeed([16_384])],
    "scalar-load-alone": [Scalar(load=Load.ABSOLUTE, load_to=5)],
    "store-spacing": [move(4), STORE, NOP, NOP, STORE],
    "slot-register": [Scalar(load=Load.ABSOLUTE, load_to=14)],
    "scalar-infeed-row": [fed(64)],
    "scalar-infeed-rest": [fed(8)],
    "self-read": [running(9)],
}
"""For every property, instructions with a value inside."""


def found(slug: str, *bodies: Sequence[Instruction]) -> Measured:
    """What a program of some chunks has of a property."""
    last = len(bodies) - 1
    chunks = [
        chunk([*body, Halt(end_program=number == last)]) for number, body in enumerate(bodies)
    ]
    return measured(Program.of(chunks), [PROPERTIES[slug]])[slug]


@pytest.mark.parametrize("slug", OUTSIDE)
def test_a_program_outside_is_found(slug: str) -> None:
    value, body = OUTSIDE[slug]
    item = found(slug, body)
    assert item.worst is not None
    assert item.worst.value == value
    (departure,) = departures({slug: item})
    assert departure.property.slug == slug
    assert departure.places == item.outside
    assert slug in str(departure)


@pytest.mark.parametrize("slug", INSIDE)
def test_a_program_inside_is_not(slug: str) -> None:
    item = found(slug, INSIDE[slug])
    assert item.occurrences
    assert item.outside == ()


def test_chunks_begin_with_a_fence() -> None:
    assert len(found("chunk-begin", [NOP], [NOP]).outside) == 1
    assert found("chunk-begin", [NOP], [TileFence(tiles=ALL, idle=ENGINES)]).outside == ()


def test_a_chunk_that_another_follows_is_long() -> None:
    half = BEAGLE.memories.instruction.elements // 2
    short, long = [NOP] * (half - 1), [NOP] * half
    # HALT is the last bundle of each.
    item = found("chunk-length", long, short, [NOP])
    assert (item.lowest, item.highest) == (1, 2)
    assert [place.chunk for place in item.outside] == [1]
    assert found("chunk-length", long, [NOP]).outside == ()
    program = Program.of([chunk([NOP, Halt(end_program=True)])])
    assert measured(program, [PROPERTIES["chunk-length"]]) == {}


def test_every_property_is_left() -> None:
    several = {"chunk-begin", "chunk-length"}
    assert {*OUTSIDE, *several} == set(PROPERTIES) == {*INSIDE, *several}
    assert set(published()) == set(PROPERTIES)


# --- how properties are measured -----------------------------------------------------------------


def test_a_loop_is_as_long_as_it_runs() -> None:
    loop = [move(4), Loop(count=5, length=2), STORE, NOP, infeed(SCALAR)]
    item = found("stored-word-infeed", loop)
    assert item.worst is not None
    assert item.worst.value == 5
    assert found("store-spacing", loop).lowest == 2
    pushes = [move(4), *output(40), Loop(count=5, length=2), PUSH, PUSH]
    assert found("push-run", pushes).outside == ()
    assert found("output-descriptor-place", pushes).outside == ()


@pytest.mark.parametrize("requests", [False, True], ids=["pushes", "descriptors in a loop"])
def test_loops_that_run_once_give_the_same_events(
    requests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = descriptor(INPUT, 8)
    pushed = [move(4), Loop(count=3, length=1), PUSH, *output(12), PUSH, PUSH, PUSH]
    looped = [Loop(count=3, length=len(request)), *request] if requests else []
    # What follows a HALT is not executed.
    bodies = [[*pushed, Halt(), PUSH], [*pushed, *looped, Halt(end_program=True)]]
    chunks = [chunk(body) for body in bodies]
    assert (programs._shortened(chunks) is None) == requests
    quick = Program.of(chunks)
    monkeypatch.setattr(programs, "_shortened", lambda chunks: None)
    whole = Program.of(chunks)
    runs = [
        [len(event.words) for event in one.events if isinstance(event, HostWords)]
        for one in (quick, whole)
    ]
    assert runs == [[3, 3, 3, 3]] * 2
    assert measured(quick) == measured(whole)


def test_computed_words_are_no_relay() -> None:
    taken = [move(4), message(), outfeed([2], to_host=False)]
    assert len(found("relay-fence", [*taken, PUSH]).outside) == 1
    program = Program.of([chunk([*taken, *special(), PUSH, Halt(end_program=True)])])
    assert measured(program, [PROPERTIES["relay-fence"]]) == {}


def test_outputs_may_be_sent_in_turn() -> None:
    """Addresses begin at 0 for every output: 40 bytes of one, and 24 of another after 8."""
    turns = [*output(32), *output(40), *output(8, address=32)]
    assert found("output-descriptor-size", turns).outside == ()
    turns = [*output(32), *output(40), *output(24, address=40)]
    item = found("output-descriptor-size", turns)
    assert item.worst is not None
    assert item.worst.value == 8


def test_a_fence_tells_that_requests_are_served_which_counters_cannot_tell_apart() -> None:
    """The end of an infeed is more than half of a counter's range after its beginning."""
    units = 38_400
    stream: list[Instruction] = []
    for number in range(3):
        begin = number * units
        feed = Infeed(
            memory=ACTIVATION,
            buffer=infeed_units(ACTIVATION, units, begin),
            wait=(Watcher(ScalarFlag.AVDATA_POP, 0, signed16(begin + 1), 1), None),
            destination=1,
        )
        filling = Pop(memory=PopMemory.ACTIVATION, buffer=pop_units(PopMemory.ACTIVATION, units))
        stream += [filling, *descriptor(INPUT, 8 * units), feed]
        stream.append(ScalarFence(idle=1 << StreamEngine.INFEED))
    assert found("open-descriptors", stream).highest == 1
    unfenced = [item for item in stream if not isinstance(item, ScalarFence)]
    assert found("open-descriptors", unfenced).highest == 3


@pytest.mark.parametrize(
    "fence",
    [
        ScalarFence(idle=1 << StreamEngine.INFEED),
        ScalarFence(wait=1 << ScalarFlag.AVDATA_POP, thresholds=(1, *[0] * (len(ScalarFlag) - 1))),
    ],
    ids=["an infeed has read them", "they are counted"],
)
def test_a_fence_tells_that_a_request_is_served(fence: ScalarFence) -> None:
    wait = (Watcher(ScalarFlag.AVDATA_POP, 0, 1, 1), None)
    first = [
        pop(PopMemory.ACTIVATION, 1),
        *descriptor(INPUT, 8),
        replace(infeed(ACTIVATION, units=1), wait=wait),
    ]
    again = [*first, fence, pop(PopMemory.ACTIVATION, 1), *descriptor(INPUT, 8)]
    assert found("open-descriptors", again).highest == 1
    without = [*first, pop(PopMemory.ACTIVATION, 1), *descriptor(INPUT, 8)]
    assert found("open-descriptors", without).highest == 2


def test_a_shorter_last_chunk_ends_before_a_whole_one() -> None:
    """A pixel of 18 words, of which the second chunk of 16 has two."""
    receive = traversal(49_131, [(16, 1), (2, 16)], rank=WIDE.rank)
    short = replace(receive, part_count=2, part_dim=1, part_skip=14)
    for some, top in ((receive, 49_162), (short, 49_148)):
        assert found("narrow-top", [replace(fill(0), receive=some)]).highest == top


def test_a_course_that_depends_on_data_is_followed_up_to_there() -> None:
    load = Scalar(load=Load.ABSOLUTE, load_to=3, load_address=7)
    test = Scalar(alu=Alu.EQ, immediate_b=True, to=0, a=3)
    unsure = Scalar(predicated=True, sense=True, alu=Alu.MOV, immediate_b=True, to=4)
    body = [fill(49_149), load, NOP, NOP, test, NOP, unsure, fill(49_151), Halt(end_program=True)]
    program = Program.of([chunk(body)])
    assert not program.complete
    assert measured(program)["narrow-top"].highest == 49_149


def test_programs_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MOST_STEPS", 10)
    with pytest.raises(SimulationError, match="too many steps"):
        found("partial-sum-run", [summing(9, 3, inner=8)])


# --- ranges --------------------------------------------------------------------------------------


def test_ranges_bind_at_the_ends_that_matter() -> None:
    known = Published(3, 7, 1, 1)
    least, most, both = (
        next(item for item in PROPERTIES.values() if item.bound is bound and not item.surveyed)
        for bound in (Bound.LEAST, Bound.MOST, Bound.BOTH)
    )
    assert [excess(least, known, value) for value in (1, 3, 9)] == [2, 0, 0]
    assert [excess(most, known, value) for value in (1, 7, 9)] == [0, 0, 2]
    assert [excess(both, known, value) for value in (1, 5, 9)] == [2, 0, 2]
    assert [range_text(item, known) for item in (least, most, both)] == [
        "at least 3",
        "at most 7",
        "3 to 7",
    ]
    assert excess(most, None, 0) > 0
    assert range_text(most, None) == "not in published programs"
    wide = replace(most, surveyed=9)
    assert bounds(wide, known) == (None, 9)
    assert bounds(wide, None) == (None, 9)


def test_risk_decides_how_much_it_matters() -> None:
    assert {risk.severity for risk in Risk if risk.matters} == {Severity.WARNING}
    assert {risk.severity for risk in Risk if not risk.matters} == {Severity.NOTE}


def test_the_verifier_names_what_leaves_the_envelope() -> None:
    chunks = [chunk([RESET, AWAIT, fill(49_149), Halt(end_program=True)])]
    findings = [one for one in verify(record(chunks), chunks) if one.rule == "envelope"]
    named = {one.what.split()[0]: one for one in findings}
    assert set(named) == {"narrow-top", "second-handshake"}
    top = named["narrow-top"]
    assert top.severity is Severity.NOTE
    assert top.where == "bundle 0:4, all tiles"
    assert "at most 49,148" in top.reason
    assert top.remedy == PROPERTIES["narrow-top"].remedy
    assert verify(record(chunks)) == tuple(
        one for one in verify(record(chunks), chunks) if one.rule != "envelope"
    )


# --- published programs --------------------------------------------------------------------------


def published_params(quick: int = 10) -> list[object]:
    paths = published_paths() if corpus_path().is_dir() else []
    step = max(1, len(paths) // quick)
    return [
        pytest.param(
            path,
            id=path.stem,
            marks=[pytest.mark.corpus, *([pytest.mark.slow] if number % step else [])],
        )
        for number, path in enumerate(paths)
    ]


@pytest.mark.long
@pytest.mark.parametrize("path", published_params())
def test_published_programs_are_inside(path: Path) -> None:
    survey = mined([path])
    assert survey.programs
    assert {slug: item.leaving for slug, item in survey.ranges.items() if item.outside} == {}


@pytest.mark.slow
@pytest.mark.corpus
def test_the_table_is_that_of_published_programs() -> None:
    corpus()
    paths = published_paths()
    if not any(path.parent.name == "timing" for path in paths):
        pytest.skip("the table was made from more compiled models than the corpus has")
    shipped = ROOT / "hw_models" / "edgetpu" / "envelope" / TABLE
    assert table(mined(paths).published()) == shipped.read_text(encoding="ascii")


def test_tables_are_sorted_and_read_back() -> None:
    text = table({slug: published()[slug] for slug in sorted(published(), reverse=True)})
    shipped = ROOT / "hw_models" / "edgetpu" / "envelope" / TABLE
    assert text == shipped.read_text(encoding="ascii")

"""How programs begin, go on in another chunk, count ring tokens and end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from benchmarks.edgetpu_compiler import quantized
from benchmarks.forms import compiled
from tests.compiler.edgetpu.test_convolution import chain, grow, image
from tests.compiler.edgetpu_models import U8, differing_bytes, findings, random_model
from tests.support import corpus_models, corpus_path

from fitzroy.base.errors import CapacityError
from fitzroy.compilation.edgetpu import compile_edgetpu
from fitzroy.compilation.source import Source
from fitzroy.compiler.frontends.tflite import export_model, import_model
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.pooling import PoolAttributes
from fitzroy.compiler.targets.edgetpu.instructions import builder as builders
from fitzroy.compiler.targets.edgetpu.instructions import sync
from fitzroy.compiler.targets.edgetpu.instructions.builder import ALL_ENGINES, Builder
from fitzroy.compiler.targets.edgetpu.kernels.transfers import produce
from fitzroy.compiler.targets.edgetpu.kernels.walks import walk
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.layers.refusal import Refused
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import EVERY
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.envelope import CODE, OutsideError
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.darwinn import PackageFile
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.edgetpu.envelope import PROPERTIES, Program, Published, check, measured
from fitzroy.hw_models.edgetpu.envelope import published as published_ranges
from fitzroy.hw_models.edgetpu.verifier import record, verify
from fitzroy.hw_models.isa.fence import ScalarFence, TileFence
from fitzroy.hw_models.isa.fields import Opcode, ScalarFlag, TileEngine
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.program import chunk, disassemble
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.linker.packages.darwinn import link

KEPT = ("ring-tokens", "chunk-begin", "narrow-top", "second-handshake", "end-fence")
"""Properties that beginning, chunks, tokens and end of a program decide on."""

INSIDE = (*KEPT, *(slug for slug, item in PROPERTIES.items() if item.risk.matters))
"""Properties that no program of the code generator leaves."""

SEEDS = (0, 3, 6, 11)


def instructions(builder: Builder) -> list[Instruction]:
    return [instruction for _, _, instruction in builder.program]


def chunks_of(package: PackageFile) -> list[list[Instruction]]:
    streams = package.main.instruction_bitstreams or ()
    return [
        disassemble(bytes(stream.bitstream)) for stream in streams if stream.bitstream is not None
    ]


def outside(package: PackageFile, slugs: Sequence[str] = KEPT) -> dict[str, int]:
    properties = [PROPERTIES[slug] for slug in slugs]
    found = measured(Program.of(chunks_of(package)), properties)
    return {slug: item.worst.value for slug, item in found.items() if item.worst is not None}


def linked(graph: Graph) -> list[PackageFile]:
    objects = []
    for segment in divide(graph)[0]:
        with suppress(CapacityError):
            objects.append(lower(segment.graph))
    return list(link(objects)) if objects else []


def message(builder: Builder, tokens: int) -> RingProduce:
    return produce(
        walk(0, row=(tokens, 1)),
        token="row",
        acquire=[builder.tokens.turn(0, tokens)],
        tiles=1,
        destination=2,
    )


# --- begin and end -------------------------------------------------------------------------------


def test_tiles_are_awaited_twice_before_their_first_instruction() -> None:
    builder = Builder()
    builder.begin()
    waits = [isinstance(one, ScalarFence) and one.wait_tiles for one in instructions(builder)]
    assert sum(waits) == 2
    assert all(isinstance(one, TileFence | ScalarFence) for one in instructions(builder))
    assert {form(one) for one in instructions(builder)} <= published().keys()


def test_tiles_are_idle_before_the_last_tokens_are_awaited() -> None:
    builder = Builder()
    builder.begin()
    builder.emit(message(builder, 5))
    builder.end()
    items = instructions(builder)
    (at,) = (n for n, one in enumerate(items) if isinstance(one, ScalarFence) and one.wait)
    fence, awaited = items[at - 1], items[at]
    assert isinstance(fence, TileFence)
    assert (fence.tiles, fence.idle, fence.signal) == (EVERY, ALL_ENGINES, False)
    assert isinstance(awaited, ScalarFence)
    assert awaited.thresholds[ScalarFlag.PRODUCER_A] == 5


# --- ring tokens ---------------------------------------------------------------------------------


def test_tokens_are_reset_between_phases() -> None:
    builder = Builder()
    builder.begin()
    highest = 0
    for _ in range(9):
        builder.emit(message(builder, 2000))
        highest = max(highest, *builder.tokens.ring)
        builder.barrier()
    builder.end()
    assert highest == 10_000
    program = Program.of([chunk(instructions(builder))])
    found = measured(program, [PROPERTIES["ring-tokens"]])["ring-tokens"]
    assert found.highest == highest
    resets = [one for one in instructions(builder) if isinstance(one, ScalarFence) and one.wait]
    assert [one.thresholds[ScalarFlag.PRODUCER_A] for one in resets] == [10_000, 8_000]


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_that_reset_tokens_are_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "_TOKENS", 10)
    resets = 0
    for segment in divide(random_model(seed))[0]:
        (package,) = link([lower(segment.graph)])
        fences = (one for body in chunks_of(package) for one in body)
        resets += sum(isinstance(one, ScalarFence) and bool(one.wait) for one in fences) - 1
        assert differing_bytes(segment.graph, package, (1,)) == 0
        assert [str(finding) for finding in findings(package)] == []
    assert resets


# --- chunks --------------------------------------------------------------------------------------


def filled_chunk(monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setattr(builders, "CHUNK_BUNDLES", 100)
    builder = Builder()
    builder.begin()
    builder.emit(message(builder, 1))
    return builder


def test_a_chunk_between_phases_begins_with_idle_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = filled_chunk(monkeypatch)
    builder.barrier()
    builder.room(100)
    first = instructions(builder)[-1]
    assert isinstance(first, TileFence)
    assert first.idle == ALL_ENGINES
    assert form(first) in published()


@pytest.mark.parametrize("used", range(5))
def test_a_chunk_within_a_phase_waits_for_a_mesh_engine_without_work(
    used: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = filled_chunk(monkeypatch)
    engines = [TileEngine.MESH_WESTWARD, TileEngine.MESH_EASTWARD]
    engines += [TileEngine.MESH_SOUTHWARD, TileEngine.MESH_NORTHWARD]
    for engine in engines[:used]:
        builder.emit(Mesh(op=Opcode[engine.name], tiles=EVERY))
    count = len(instructions(builder))
    builder.room(100)
    behind = [one for one in instructions(builder)[count:] if isinstance(one, TileFence)]
    assert [one.idle for one in behind] == [1 << engine for engine in engines[used : used + 1]]
    assert {form(one) for one in behind} <= published().keys()


def end_chunks_after(bundles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let chunks end at the first place that asks for room after so many bundles."""
    room = Builder.room

    def early(builder: Builder, needed: int) -> None:
        monkeypatch.setattr(builders, "CHUNK_BUNDLES", needed + bundles)
        room(builder, needed)

    monkeypatch.setattr(Builder, "room", early)
    # What one place leaves of a chunk is less than another one needs.
    monkeypatch.setattr(Builder, "overfull", False)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_of_many_chunks_are_right(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    end_chunks_after(150, monkeypatch)
    count = 0
    for segment in divide(random_model(seed))[0]:
        (package,) = link([lower(segment.graph)])
        count += len(chunks_of(package)) - 1
        assert outside(package) == {}
        assert differing_bytes(segment.graph, package, (1,)) == 0
        assert [str(finding) for finding in findings(package)] == []
    assert count


# --- the envelope --------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    "shard",
    [pytest.param(number, marks=[pytest.mark.slow] if number else []) for number in range(20)],
)
def test_random_models_keep_to_the_envelope(shard: int) -> None:
    for seed in range(25 * shard, 25 * shard + 25):
        for package in linked(random_model(seed)):
            assert outside(package, INSIDE) == {}, seed


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [Options(parameter_rows=0), Options(narrow_bytes=16 << 10)],
    ids=["streamed", "in strips"],
)
@pytest.mark.parametrize("seed", range(6))
def test_small_memories_do_not_lead_outside(seed: int, options: Options) -> None:
    for segment in divide(random_model(seed), options)[0]:
        try:
            (package,) = link([lower(segment.graph, options)])
        except CapacityError:
            continue
        assert outside(package, INSIDE) == {}


def source_params(quick: int = 5) -> list[object]:
    """Source models of the corpus; some of them always run."""
    paths = [path for path in corpus_models() if "edgetpu" not in path.stem]
    step = max(1, len(paths) // quick)
    return [
        pytest.param(
            path,
            id=str(path.relative_to(corpus_path())),
            marks=[pytest.mark.corpus, *([pytest.mark.slow] if number % step else [])],
        )
        for number, path in enumerate(paths)
    ]


@pytest.mark.long
@pytest.mark.parametrize("path", source_params())
def test_models_keep_to_the_envelope(path: Path) -> None:
    if not quantized(path):
        pytest.skip("not quantized")
    for package in compiled(path, Options()):
        assert outside(package, INSIDE) == {}


def small() -> Graph:
    graph = chain(U8, (8, 8, 4))
    grow(graph, "conv_2d", 8, (1, 1))
    return graph


def averaged() -> Graph:
    """A program without parameters, which makes the identity matrix itself."""
    graph = chain(U8, (8, 8, 4))
    pool = PoolAttributes(kernel=(2, 2), stride=(2, 2))
    graph.outputs = [graph.emit("average_pool_2d", graph.outputs, image((1, 4, 4, 4), U8), pool)]
    return graph


def test_a_conservative_program_refuses_to_leave_the_envelope() -> None:
    graph = averaged()
    whole = BEAGLE.memories.narrow.size
    (package,) = link([lower(graph, Options(conservative=True))])
    assert outside(package, tuple(PROPERTIES)) == {}
    assert lower(graph, Options(narrow_bytes=whole))
    # No operator has the identity matrix at the top of narrow memory.
    with pytest.raises(OutsideError) as caught:
        lower(graph, Options(conservative=True, narrow_bytes=whole))
    (reject,) = caught.value.rejects
    assert reject.code == CODE
    assert "narrow-top is 49,151 words" in reject.what
    assert "at most 49,148" in reject.reason
    assert reject.hint == PROPERTIES["narrow-top"].remedy
    assert "narrow-top" in str(caught.value)


def test_the_operators_that_leave_the_envelope_are_left_to_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights of depthwise convolutions pass through scalar memory, which nothing else does."""
    ranges = {**published_ranges(), "scalar-infeed-row": Published(5, 5, 1, 1)}
    graph = small()
    grow(graph, "depthwise_conv_2d", 8, (3, 3))
    conv, depthwise = graph.nodes()
    assert lower(graph, Options(conservative=True))
    monkeypatch.setattr(check, "published", lambda: ranges)
    with pytest.raises(Refused) as caught:
        lower(graph, Options(conservative=True))
    assert caught.value.operators == (depthwise.name,)
    assert caught.value.code == CODE
    assert "scalar-infeed-row is 4 words" in caught.value.what
    assert caught.value.reason.startswith("published programs have 5; places outside: ")
    assert "--conservative" in caught.value.hint
    model = export_model(graph)
    source = Source("model.tflite", 0, model, import_model(model))
    result = compile_edgetpu(source, generator=Options(conservative=True), costs=None)
    assert [node.op for node in result.mapped] == [conv.op]
    assert [node.op for node in result.unmapped] == [depthwise.op]
    assert {reason.code for reason in result.reasons} == {CODE}


def test_the_verifier_agrees() -> None:
    (package,) = link([lower(averaged(), Options(narrow_bytes=BEAGLE.memories.narrow.size))])
    chunks = chunks_of(package)
    named = [one.what for one in verify(record(chunks), chunks) if one.rule == "envelope"]
    assert named == ["narrow-top is 49,151 words"]


def test_an_operator_of_too_many_instructions_is_left_to_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (segment, *_), _ = divide(random_model(1))
    monkeypatch.setattr(Builder, "room", lambda self, bundles: None)
    monkeypatch.setattr(builders, "CHUNK_BUNDLES", 50)
    with pytest.raises(Refused, match="takes too many instructions") as caught:
        lower(segment.graph)
    # The name of an input stands for the operators that read it.
    names = {node.name for node in segment.graph.nodes()}
    assert set(caught.value.operators) <= names | set(segment.graph.inputs)

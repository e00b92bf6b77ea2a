"""The scalar core and transfers with the host, measured in programs against published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.compiler.edgetpu.test_convolution import chain, grow
from tests.compiler.edgetpu.test_large import CASES
from tests.compiler.edgetpu.test_streaming import Chain
from tests.compiler.edgetpu.test_vectors import fully_connected
from tests.compiler.edgetpu_models import differing_bytes, findings, program

from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.ops.normalization import SoftmaxAttributes
from fitzroy.compiler.ops.windows import PaddingScheme
from fitzroy.compiler.targets.edgetpu.host import inputs, outputs, relay
from fitzroy.compiler.targets.edgetpu.host.relay import Destination
from fitzroy.compiler.targets.edgetpu.instructions import builder as building
from fitzroy.compiler.targets.edgetpu.instructions.builder import Builder
from fitzroy.compiler.targets.edgetpu.kernels import host_buffers
from fitzroy.compiler.targets.edgetpu.layers import streaming
from fitzroy.compiler.targets.edgetpu.layers.input_stream import InputStream
from fitzroy.compiler.targets.edgetpu.layers.options import Options
from fitzroy.compiler.targets.edgetpu.lowerings import softmax
from fitzroy.compiler.targets.edgetpu.memory.tensor_layout import Image, TiledAxis
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.formats.darwinn import PackageFile
from fitzroy.formats.object_file import SymbolKind
from fitzroy.hw_models.edgetpu.envelope import PROPERTIES, Measured, Program, measured
from fitzroy.hw_models.edgetpu.scalar import Descriptor
from fitzroy.hw_models.isa.conversion import WideToNarrow
from fitzroy.hw_models.isa.fields import Watcher
from fitzroy.hw_models.isa.program import disassemble
from fitzroy.hw_models.isa.ring import RingConsume, RingProduce
from fitzroy.hw_models.isa.scalar import DescriptorTag
from fitzroy.hw_models.isa.stream import Outfeed
from fitzroy.hw_models.isa.traversal import INFEED_BUFFER, Traversal, traversal
from fitzroy.hw_models.isa.units import MOST_OUTFED, outfeed_words
from fitzroy.linker.packages.darwinn import link

I8, U8 = DType.INT8, DType.UINT8

SLUGS = (
    *("stored-word-infeed", "scalar-infeed-row", "scalar-infeed-rest", "waiting-scalar-infeeds"),
    *("relay-fence", "push-run", "output-descriptor-place"),
    *("output-descriptor-offset", "output-descriptor-size"),
    *("special-unit-spacing", "special-unit-alone", "exponential-use", "reciprocal-use"),
    *("scalar-load-alone", "store-spacing", "slot-register"),
    *("infeed-base", "infeed-reach", "open-descriptors", "open-pops", "pop-requests"),
    *("open-parameter-descriptors", "open-parameter-pops"),
    *("descriptor-spacing", "descriptor-write"),
    *("waiting-outfeeds", "waiting-infeeds", "waiting-parameter-infeeds"),
    *("outfeed-length", "outfeed-loops"),
)
"""Properties of the scalar core and of transfers with the host."""


# --- programs ------------------------------------------------------------------------------------


def image_of(shape: tuple[int, int, int], channels: int) -> Graph:
    """A convolution."""
    graph = chain(I8, shape)
    grow(graph, "conv_2d", channels, (1, 1))
    return graph


def strided() -> Graph:
    """An input that is larger than its buffer."""
    graph = chain(U8, (430, 400, 3))
    grow(graph, "conv_2d", 3, (2, 2), (4, 4))
    return graph


def softmax_of(count: int, *, inner: bool) -> Graph:
    """A softmax, whose result goes to the host, or to a fully connected layer."""
    graph = Graph("softmax")
    x = graph.add_input("x", TensorType((1, count), I8, Quantization.per_tensor(0.1, 11)))
    type = TensorType((1, count), I8, Quantization.per_tensor(1 / 256, -128))
    y = graph.emit("softmax", [x], type, SoftmaxAttributes(1.0))
    rng = np.random.default_rng(count)
    graph.outputs = [fully_connected(graph, rng, y, 70, I8) if inner else y]
    return graph


def heads() -> Chain:
    """Many small layers that come from the host."""
    model = Chain((40,))
    for channels in (70, 20, 90, 30, 64, 12, 80, 25, 66, 10):
        model = model.dense(channels)
    return model


MODELS: dict[str, tuple[Callable[[], Graph], Options]] = {
    "words": (lambda: image_of((2, 2, 3), 3), Options()),
    "relayed": (lambda: image_of((75, 75, 4), 3), Options()),
    "large input": (strided, Options()),
    "strips of an input": (CASES["wide-kernel"][0], Options(narrow_bytes=CASES["wide-kernel"][1])),
    "odd strips": (CASES["odd"][0], Options(narrow_bytes=CASES["odd"][1])),
    "strips": (CASES["strided"][0], Options(narrow_bytes=CASES["strided"][1])),
    "joined parts": (CASES["detector"][0], Options(narrow_bytes=CASES["detector"][1])),
    "scratch": (CASES["unet"][0], Options(narrow_bytes=CASES["unet"][1])),
    "long vector": (lambda: Chain((4500,)).dense(10).graph, Options()),
    "softmax of few": (lambda: softmax_of(10, inner=False), Options()),
    "softmax": (lambda: softmax_of(500, inner=False), Options()),
    "softmax in portions": (lambda: softmax_of(7300, inner=False), Options()),
    "softmax of maxima": (lambda: softmax_of(8192, inner=True), Options()),
    "softmax of few inside": (lambda: softmax_of(70, inner=True), Options()),
    "softmax inside": (lambda: softmax_of(1100, inner=True), Options()),
    "streamed": (lambda: heads().graph, Options(parameter_rows=0)),
    "streamed in blocks": (lambda: Chain((300,)).dense(1100).graph, Options(parameter_rows=0)),
}


def compiled(name: str) -> PackageFile:
    make, options = MODELS[name]
    (package,) = link([lower(make(), options)])
    return package


def main_program(package: PackageFile) -> Program:
    streams = package.main.instruction_bitstreams or ()
    return Program.of([disassemble(np.asarray(item.bitstream).tobytes()) for item in streams])


def values(package: PackageFile) -> dict[str, Measured]:
    """The properties of a package's main program."""
    return measured(main_program(package), [PROPERTIES[slug] for slug in SLUGS])


@cache
def known(name: str) -> dict[str, Measured]:
    return values(compiled(name))


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_programs_stay_where_published_programs_are(name: str) -> None:
    outside = {slug: str(item.worst) for slug, item in known(name).items() if item.outside}
    assert outside == {}


@pytest.mark.long
def test_all_properties_are_measured() -> None:
    assert {slug for name in MODELS for slug in known(name)} == set(SLUGS)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_results_are_right(name: str) -> None:
    package = compiled(name)
    assert differing_bytes(MODELS[name][0](), package, (1,)) == 0
    assert [str(finding) for finding in findings(package)] == []


# --- decisions undone ----------------------------------------------------------------------------


def plain_infeed(memory: object, units: int, position: int) -> Traversal:
    """An infeed that begins at its position in the stream."""
    return traversal(position, [(units, 1)], rank=INFEED_BUFFER.rank)


def pushed_one_by_one(
    builder: Builder,
    messages: Sequence[tuple[RingProduce, int]],
    size: int,
    destination: Destination,
) -> None:
    """Every piece is pushed when it has come."""
    del size
    for message, words in messages:
        builder.emit(message)
        builder.emit(Outfeed(buffer=outfeed_words(words), row_words=64))
        relay._push(builder, words, words, destination)


UNDONE: dict[str, tuple[str, object, str, object]] = {
    "output-descriptor-offset": ("relayed", relay, "PART_BYTES", 8),
    "push-run": ("words", outputs, "relay", pushed_one_by_one),
    "relay-fence": ("words", outputs, "relay", pushed_one_by_one),
    "infeed-base": ("large input", host_buffers, "infeed_units", plain_infeed),
    "descriptor-spacing": ("strips", building, "DESCRIPTOR_BUNDLES", 0),
    "descriptor-write": ("streamed in blocks", building, "DESCRIPTOR_BUNDLES", 0),
    "open-parameter-descriptors": ("streamed in blocks", streaming, "MOST_OPEN", 99),
    "waiting-outfeeds": (
        "softmax inside", building, "_OUTFEEDS", replace(building._OUTFEEDS, most=99),
    ),
    "waiting-infeeds": ("long vector", building, "_INFEEDS", replace(building._INFEEDS, most=99)),
    "reciprocal-use": ("softmax", softmax, "_RECIPROCAL_BUNDLES", 2),
    "slot-register": ("softmax", softmax, "_TAKEN", (17, 18, 19, 20)),
    "scalar-infeed-row": ("softmax inside", softmax, "_SENT_WORDS", 16),
}  # fmt: skip
"""By property: a program, and a decision that is undone."""


@pytest.mark.long
@pytest.mark.parametrize("slug", UNDONE)
def test_decisions_that_are_undone_show(slug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, value = UNDONE[slug]
    assert not known(name)[slug].outside
    monkeypatch.setattr(owner, attribute, value)
    assert values(compiled(name))[slug].outside


# --- inputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("extent", "rows"), [(64, 4), (256, 2), (600, 1)])
def test_slots_of_inputs_hide_their_latency(extent: int, rows: int) -> None:
    axis = TiledAxis.of(extent, 4, [])
    image = Image("x", axis, axis, channels=3, zero_point=0)
    row_words = extent * 3 // 4
    assert inputs.buffer_bytes(image) == 2 * 4 * (rows * row_words + 1)
    assert inputs.buffer_bytes(image, compact=True) == 2 * 4 * (row_words + 1)


def test_tiles_that_drop_words_are_not_late_by_these() -> None:
    axis = TiledAxis.of(64, 4, [])
    image = Image("x", axis, axis, channels=3, zero_point=0, base=4096)
    builder = Builder()
    stream = InputStream([inputs.pieces(image, "x")])
    inputs.receive_image(builder, image, stream, row=2079, buffer=0)
    dropped: dict[int, int] = {}
    credit: dict[int, int] = {}
    for _, _, item in builder.program:
        match item:
            case WideToNarrow(tiles=tiles, prefix=prefix):
                dropped |= dict.fromkeys(_tiles(tiles), 0 if prefix is None else prefix.words)
            case RingConsume(tiles=tiles, wait=(Watcher(threshold=threshold), *_)):
                credit |= dict.fromkeys(_tiles(tiles), threshold)
    assert dropped == {tile: tile % 4 * 12 for tile in range(16)}
    assert credit == {tile: -192 - words for tile, words in dropped.items()}


@pytest.mark.parametrize(
    ("kernel", "stride", "rows"),
    [((1, 1), (30, 30), 31), ((3, 2), (16, 16), 35), ((1, 1), (50, 9), 1)],
)
def test_the_host_is_asked_for_the_rows_that_are_read(
    kernel: tuple[int, int], stride: tuple[int, int], rows: int
) -> None:
    graph = chain(I8, (50, 40, 3))
    grow(graph, "conv_2d", 8, kernel, stride, padding=PaddingScheme.VALID)
    package = program(graph)
    assert asked_for(package) == 8 * -(-rows * 40 * 3 // 8)
    assert differing_bytes(graph, package) == 0
    assert findings(package) == ()
    # Published programs ask for whole inputs.
    assert asked_for(program(graph, Options(conservative=True))) == 50 * 40 * 3


def asked_for(package: PackageFile) -> int:
    """Bytes of inputs that a program asks the host for."""
    return sum(
        event.size
        for _, event in main_program(package).placed
        if isinstance(event, Descriptor) and event.tag is DescriptorTag.INPUT
    )


def _tiles(mask: int) -> list[int]:
    return [tile for tile in range(16) if mask >> tile & 1]


# --- long outfeeds -------------------------------------------------------------------------------


def test_long_pieces_are_several_outfeeds_of_whole_rows() -> None:
    """A tile sends up to 192 KiB, more than what published outfeeds take."""
    rows, columns, depth = 150, 150, 8

    def axis(extent: int) -> TiledAxis:
        owned = ((0, extent), (extent, extent), (extent, extent), (extent, extent))
        return TiledAxis(extent, owned, owned)

    image = Image("image", axis(rows), axis(columns), depth, 0, 0)
    builder = Builder()
    destination = Destination(SymbolKind.OUTPUT, "y", last=True)
    outputs.send_image(builder, image, image, destination, builder.staging)
    taken = [item for _, _, item in builder.program if isinstance(item, Outfeed)]
    units = [item.buffer.steps for item in taken if item.to_host]
    assert units == [MOST_OUTFED, rows * columns * depth // 8 - MOST_OUTFED]
    assert units[0] * 8 % 256 == 0
    # The message is handed to its tile as soon as the first outfeed waits for it: a second one may
    # find the queue full.
    host = [item for item in taken if item.to_host]
    order = [item for _, _, item in builder.program if isinstance(item, Outfeed | RingProduce)]
    assert [type(item) for item in order[order.index(host[0]) :]] == [Outfeed, RingProduce, Outfeed]

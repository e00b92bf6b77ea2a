"""Faults that mutants have found, each as small as it gets."""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from dataclasses import replace

import numpy as np
import pytest
from tests.fuzz import arrays, graphs, programs
from tests.linker.edgetpu import small_object
from tests.support import need
from tests.work import calls_at_most, memory_of

from fitzroy.base.budget import limited
from fitzroy.base.errors import (
    CapacityError,
    FitzroyError,
    FormatError,
    LinkError,
    SimulationError,
)
from fitzroy.base.types import DType, Quantization, TensorType
from fitzroy.cli.terminal import Terminal
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import evaluate
from fitzroy.formats.object_file import Operand, Reserved, Run
from fitzroy.hw_models.edgetpu import scalar
from fitzroy.hw_models.edgetpu.op_plan import plan as op_plan
from fitzroy.hw_models.edgetpu.scalar import ScalarCore
from fitzroy.hw_models.edgetpu.sequence import numbers, sequence
from fitzroy.hw_models.edgetpu.stream import stream_plan
from fitzroy.hw_models.isa.fields import Opcode, Watcher
from fitzroy.hw_models.isa.instruction import Instruction
from fitzroy.hw_models.isa.program import assemble, chunk
from fitzroy.hw_models.isa.ring import RingConsume
from fitzroy.hw_models.isa.scalar import Alu, Branch, Halt, Loop, Scalar, Store
from fitzroy.hw_models.isa.stream import Infeed, Outfeed, Pop
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.isa.text import ChunkParser, listing, uncommented
from fitzroy.hw_models.isa.traversal import traversal
from fitzroy.hw_models.numerics import Arithmetic
from fitzroy.hw_models.numerics.requantization import dequantize
from fitzroy.linker.objects.text import parse_object
from fitzroy.linker.packages.darwinn import link
from fitzroy.linker.resolve.caching import segments_of
from fitzroy.linker.resolve.rows import allocate
from fitzroy.linker.schedule import derive

Symbols = dict[int, str]


def reparsed(body: list[Instruction], symbols: Symbols | None = None) -> tuple[bytes, Symbols]:
    parser = ChunkParser()
    for number, line in enumerate(listing(chunk(body), symbols=symbols), start=1):
        parser.line(number, uncommented(line))
    result = parser.finish()
    return assemble(result.instructions), result.symbols


@pytest.mark.parametrize(
    "body",
    [
        [NluTable(breakpoints=(0.0,) * 6 + (-0.0,))],
        [Scalar(), Branch(offset=-2)],
        [Loop(count=1, length=2), Scalar()],
        [Branch(offset=2), Scalar()],
        [Branch(offset=1)],
    ],
    ids=["minus zero in a series", "to START", "behind END", "to END", "to END at once"],
)
def test_listings_keep(body: list[Instruction]) -> None:
    assert reparsed(body) == (assemble(chunk(body)), {})


@pytest.mark.parametrize("bit", [0, 19, 128, 256, 300])
def test_listings_keep_symbols_in_start_and_end(bit: int) -> None:
    symbols = {bit: "low(scratch)"}
    assert reparsed([Scalar()], symbols) == (assemble(chunk([Scalar()])), symbols)


@pytest.mark.parametrize("instructions", [[], [Scalar()]])
def test_chunks_without_start_have_no_text(instructions: list[Instruction]) -> None:
    with pytest.raises(FormatError, match="does not begin with START"):
        list(listing(instructions))


@pytest.mark.parametrize(
    "line", ["mov s1, " + "s1, " * 100_000 + "(", "(" * 100_000, "mov s1, " + "(" * 100_000]
)
def test_long_operands_are_refused(line: str) -> None:
    with calls_at_most(1_000_000), pytest.raises(FormatError, match="line 1"):
        ChunkParser().line(1, line)


@pytest.mark.parametrize(
    "text",
    [
        '.text {"when":[1]}',
        '.text {"ends_chunk":"no"}',
        '.text {"when":"cached","operand":{}}',
        ".text {}\nstart\nnop",
        ".text {}\nstart size=5\nend",
    ],
)
def test_heads_and_frames_of_sections_are_checked(text: str) -> None:
    with pytest.raises(FormatError):
        parse_object(f".chip beagle\n.object {{}}\n{text}\n")


@pytest.mark.long
def test_many_runs_and_symbols_are_parsed_in_linear_time() -> None:
    run = '.run {"tile":0,"row":0,"words":1,"units":1,"group":0}\n'
    text = '.operand {"name":"a","kind":1,"lanes":16}\n' + run * 10_000
    text += ".text {}\n" + "    mov s1, low(scratch)\n" * 10_000
    with calls_at_most(4_000_000), pytest.raises(FormatError, match="bytes, not a multiple"):
        parse_object(text)


def endless(issue: Scalar) -> list[Instruction]:
    words = [
        Scalar(store=Store.DESCRIPTOR, store_address=slot, store_from=slot) for slot in range(4)
    ]
    values = [
        Scalar(alu=Alu.MOV, immediate_b=True, to=slot, immediate=value)
        for slot, value in enumerate((0, 0, 0, 4))
    ]
    return chunk([*values, *words, Loop(count=0xFFFF, length=1), issue, Halt(end_program=True)])


def test_scripts_have_an_end() -> None:
    with calls_at_most(1_200_000), pytest.raises(LinkError, match="too much"):
        derive([endless(Scalar(store=Store.ISSUE))], [])


def test_words_for_the_host_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar, "_MOST_PUSHED", 1 << 12)
    body = endless(Scalar(store=Store.PUSH))
    with calls_at_most(100_000), pytest.raises(SimulationError, match="words for the host"):
        list(ScalarCore().execute(body))


def test_outfeeds_count_against_the_budget() -> None:
    many = Outfeed(buffer=traversal(0, [(4096, 1), (15, 0)], rank=3))
    body = chunk([*[many] * 2000, Halt(end_program=True)])
    with calls_at_most(25_000), pytest.raises(SimulationError, match="does not end within 500000"):
        list(ScalarCore(budget=500_000).execute(body))
    far = replace(many, buffer=traversal(1, [(4096, 1)], rank=3))
    with pytest.raises(SimulationError, match="word 4096"):
        list(ScalarCore().execute(chunk([far, Halt()])))
    giant = replace(many, buffer=traversal(0, [(32768, 1), (32768, 0)], rank=3))
    with calls_at_most(1000), pytest.raises(SimulationError, match="does not end"):
        list(ScalarCore().execute(chunk([giant, Halt()])))


def test_vast_orders_are_refused_before_they_are_made() -> None:
    """A few bits of an instruction ask for a gigabyte."""
    vast = traversal(0, [(4096, 0), (4096, 0)], rank=8)
    loops = (4096, 4096, 1, 1, 1, 1, 1, 1)
    op = TensorOp(op=Opcode.MAC, loops=loops, a=vast, c=vast, d=vast)
    with memory_of() as memory, limited(24 << 20):
        with pytest.raises(CapacityError, match="16777216 steps wants 1 GiB"):
            op_plan(op)
        with pytest.raises(CapacityError, match="order of a traversal of 16777216 steps"):
            sequence(vast)
    assert memory.peak < 1 << 20
    with pytest.raises(SimulationError, match="16777216 units"):
        stream_plan(Pop(buffer=vast))


def test_orders_are_kept_in_limited_memory() -> None:
    with memory_of() as memory:
        for base in range(200):
            walk = sequence(traversal(base, [(1 << 16, 1)], rank=8))
            assert walk.begins(0)[-1] == (1 << 16) - 1
    assert memory.peak < 40 << 20


def test_bounds_take_little_memory() -> None:
    """Of a million iterations, 8 bytes each at most; numbers of Python take 40."""
    even = np.arange(0, 10 << 20, 10)
    odd = even + (np.arange(1 << 20) % 7 == 0)
    for positions, most in ((even, 1000), (odd, (8 << 20) + 1000)):
        taken = numbers(positions)
        with memory_of() as memory:
            again = numbers(positions)
        assert list(taken[:100]) == positions[:100].tolist()
        assert len(again) == 1 << 20
        assert bisect_right(again, int(positions[777])) == 778
        assert memory.peak < most + (17 << 20)


def test_giant_consumers_are_refused_unread() -> None:
    pair: list[Instruction] = [
        RingConsume(
            op=Opcode.RING_CONSUME_A, tiles=1, wide=traversal(0, [(0x10000, 1), (2, 1)], rank=4)
        ),
        Infeed(
            destination=1,
            buffer=traversal(0, [(1 << 19, 1)], rank=3),
            wait=(Watcher(1, 0, 1, 1), None),
        ),
    ]
    with calls_at_most(1000), pytest.raises(FitzroyError):
        segments_of(pair * 1000)


def test_scattered_rows_are_placed_in_linear_time() -> None:
    file = small_object()
    assert file.operands is not None
    file.operands += [
        Operand(
            name="scattered",
            lanes=16,
            data=np.zeros(64 * 1000, np.uint8),
            runs=[Run(tile=n % 2, row=500, words=2, units=2, group=9) for n in range(500)],
        )
    ]
    assert file.resources is not None
    # Free pairs of rows on one tile are never beside those on the other one.
    file.resources.staging = [
        Reserved(tiles=1 + (row // 2 & 1), row=row, rows=2) for row in range(0, 2070, 2)
    ]
    with calls_at_most(40_000):
        (allocation,) = allocate([file])
    assert allocation.moves[9] == 2070 - 500


@pytest.mark.parametrize("name", ["narrow_bytes", "scratch_bytes", "batch_size"])
def test_resources_fit_packages(name: str) -> None:
    file = small_object()
    setattr(file.resources, name, 1 << 31)
    with pytest.raises(FormatError, match=f"{name} is 2147483648"):
        link([file])


def test_the_programs_of_the_fuzzer_link_alone_and_together() -> None:
    names = [package.main.name for package in link(list(programs.objects()))]
    assert names == ["everything", "small", "other"]


def test_means_of_nothing_are_refused() -> None:
    text = 'graph "g" { input %x : float32[2,0] %y : float32[2] = mean(%x) {axes = [1]} output %y }'
    with pytest.raises(FormatError, match="an empty operand has no mean"):
        graphs.parse(text.replace("[1]}", "[1], keep_dims = false}").encode())


@pytest.mark.filterwarnings("error")
def test_steep_logistic_functions_do_not_warn() -> None:
    kind = TensorType((3,), DType.INT8, Quantization.per_tensor(1000))
    graph = Graph("steep")
    graph.add_input("x", kind)
    unit = TensorType((3,), DType.INT8, Quantization.per_tensor(1 / 256, -128))
    graph.outputs = [graph.emit("sigmoid", ["x"], unit)]
    inputs = {"x": np.array([-128, 0, 127], np.int8)}
    (values,) = evaluate(graph, inputs, Arithmetic.TFLITE).values()
    assert values.tolist() == [-128, 0, 127]


@pytest.mark.filterwarnings("error")
def test_kernels_compute_infinities_without_warnings() -> None:
    graph = Graph("large")
    graph.add_input("x", TensorType((2,), DType.FLOAT32))
    graph.outputs = [graph.emit("exp", ["x"], TensorType((2,), DType.FLOAT32))]
    (values,) = evaluate(graph, {"x": np.array([1e30, np.nan], np.float32)}).values()
    assert values[0] == np.inf
    assert np.isnan(values[1])


@pytest.mark.parametrize("op", ["resize_bilinear", "resize_nearest_neighbor"])
def test_images_of_nothing_are_not_resized(op: str) -> None:
    text = (
        'graph "g" { input %x : float32[1,2,0,3] %y : float32[1,4,4,3] = '
        f"{op}(%x) {{size = [4, 4], sampling = legacy}} output %y }}"
    )
    with pytest.raises(FormatError, match="an image of 2 x 0"):
        graphs.parse(text.encode())


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float32_become_infinite() -> None:
    real = dequantize(np.array([-128, 0, 127], np.int8), Quantization.per_tensor(3e37))
    assert real.tolist() == [-np.inf, 0, np.inf]


def test_documents_of_ascii_escape_delete(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().document("as", {"name": "\x7f"})
    assert capsys.readouterr().out.endswith('  "name": "\\u007f"\n}\n')


def test_images_with_a_text_for_an_offset_are_refused() -> None:
    need("PIL", "images")
    from PIL import Image, TiffTags

    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, "TIFF")
    offsets = 273
    number, text = (struct.pack("<HH", offsets, kind) for kind in (TiffTags.LONG, TiffTags.ASCII))
    assert stream.getvalue().count(number) == 1
    with pytest.raises(FormatError, match="no readable image"):
        arrays.as_image(stream.getvalue().replace(number, text))


@pytest.mark.parametrize("kind", [DType.INT8, DType.INT16, DType.INT32, DType.INT64])
def test_functions_of_wide_integers_need_no_table_of_all_of_them(kind: DType) -> None:
    graph = Graph("wide")
    graph.add_input("x", TensorType((3,), kind, Quantization.per_tensor(2)))
    result = TensorType((3,), DType.UINT8, Quantization.per_tensor(1))
    graph.outputs = [graph.emit("abs", ["x"], result)]
    inputs = {"x": np.array([-3, 0, 50], kind.numpy)}
    (values,) = evaluate(graph, inputs).values()
    assert values.tolist() == [6, 0, 100]

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.forms import compiled
from tests.compiler.edgetpu_models import differences, findings, random_model
from tests.support import corpus

from fitzroy.base.errors import CapacityError
from fitzroy.compiler.targets.edgetpu.instructions.encoding import encoded
from fitzroy.compiler.targets.edgetpu.layers.options import DEFAULT, Options
from fitzroy.compiler.targets.edgetpu.partition.divide import divide
from fitzroy.compiler.targets.edgetpu.program.lower import lower
from fitzroy.hw_models.edgetpu.sequence import sequence
from fitzroy.hw_models.isa.fields import Opcode, Producer, TileFlag, Watcher
from fitzroy.hw_models.isa.forms import form, published
from fitzroy.hw_models.isa.mesh import Mesh
from fitzroy.hw_models.isa.ring import RingProduce
from fitzroy.hw_models.isa.tensor import TensorOp
from fitzroy.hw_models.isa.traversal import BYTES, QUARTERS, WIDE, Traversal, traversal
from fitzroy.linker.packages.darwinn import link
from fitzroy.report.forms import forms_of

CONSERVATIVE = Options(conservative=True)


# --- encoding ------------------------------------------------------------------------------------


def random_dims(rng: np.random.Generator, rank: int) -> list[tuple[int, int]]:
    """Loops that continue each other, or do not."""
    dims, span = [], 1
    for _ in range(int(rng.integers(1, rank + 1))):
        count = int(rng.integers(1, 4))
        dims.append((count, int(rng.choice([span, span + 3, 0]))))
        span *= count
    return dims


@pytest.mark.long
def test_an_encoding_counts_and_waits_at_the_same_elements() -> None:
    rng = np.random.default_rng(0)
    changed = 0
    for _ in range(400):
        dims, level = random_dims(rng, WIDE.rank), int(rng.integers(0, 4))
        mesh = Mesh(
            op=Opcode.MESH_NORTHWARD,
            send=traversal(8, dims, rank=WIDE.rank),
            receive=traversal(400, dims, rank=WIDE.rank),
            received=Producer(level),
            wait=(Watcher(TileFlag.AVDATA, level, 5, int(rng.integers(2))), *[None] * 5),
        )
        found = encoded(mesh)
        changed += found != mesh
        assert mesh.send is not None
        assert mesh.receive is not None
        assert found.send is not None
        assert found.receive is not None
        assert np.array_equal(found.send.addresses(), mesh.send.addresses())
        assert np.array_equal(found.receive.addresses(), mesh.receive.addresses())
        assert found.received is not None
        ends = sequence(mesh.receive).ends(level)
        assert np.array_equal(sequence(found.receive).ends(found.received.level), ends)
        assert needs(found, len(mesh.send.addresses())) == needs(mesh, len(mesh.send.addresses()))
    assert changed > 100


def needs(mesh: Mesh, elements: int) -> list[int]:
    """The value of the flag that must have been reached before each word is sent."""
    watcher, traversal = mesh.wait[0], mesh.send
    assert watcher is not None
    assert traversal is not None
    found = np.zeros(elements, np.int64)
    for number, begin in enumerate(sequence(traversal).begins(watcher.level)):
        found[begin:] = watcher.threshold + watcher.increment * number
    return found.tolist()


def _operands(op: TensorOp) -> tuple[Traversal | None, ...]:
    return op.a, op.b, op.c, op.d


def test_operations_have_the_nest_of_published_programs() -> None:
    """The loops of a convolution over a kernel and channels are one loop, and so are positions."""
    dims = [(8, 4), (4, 128), (2, 512), (2, 32), (3, 0)]
    op = TensorOp(
        loops=(8, 4, 2, 2, 3, 1, 1, 1),
        a=traversal(0, dims, rank=BYTES.rank),
        b=traversal(0, [(16, 4), (4, 128), (2, 512), (3, 64)], rank=BYTES.rank),
        c=traversal(64, [(8, 4), (8, 0), (2, 0), (3, 0)], rank=QUARTERS.rank, ping_pong=(2, 32)),
        d=traversal(0, [(8, 0), (8, 4), (2, 0), (3, 0)], rank=QUARTERS.rank),
        avdata=Producer(3),
        parameters=Producer(2),
        wait=(
            Watcher(TileFlag.RING_READ_B, 3, 1, 1),
            Watcher(TileFlag.WIDE_TO_SCALING, 4, 1, 1),
            *[None] * 4,
        ),
        trained=True,
        bias_in_memory=True,
        block_level=4,
        reduction=0b1001,
        lanes=64,
        lanes_last=64,
    )
    found = encoded(op)
    assert form(op) not in published()
    assert form(found) in published()
    assert found.loops == (8, 8, 2, 3, 1, 1, 1, 1)
    assert found.reduction == 0b101
    for before, after in zip(_operands(op), _operands(found), strict=True):
        assert before is not None
        assert after is not None
        assert np.array_equal(before.addresses(), after.addresses())


def test_what_is_published_stays() -> None:
    produce = RingProduce(
        wide=traversal(0, [(1, 1), (7, 0)], rank=WIDE.rank, ping_pong=(1, 1)),
        ring_write=Producer(1),
        token=Producer(2),
        wait=(
            Watcher(TileFlag.RING_PRODUCER_A, 2, 3, 1),
            Watcher(TileFlag.NARROW_TO_WIDE, 1, 1, 1),
        ),
        to_outfeed=True,
    )
    assert encoded(produce) is produce


def test_a_single_word_at_address_0_stays() -> None:
    """A traversal whose bits are all zero is absent."""
    word = traversal(0, [(1, 4), (1, 4)], rank=BYTES.rank)
    op = TensorOp(
        loops=(3, *[1] * 7),
        a=traversal(0, [(3, 1)], rank=BYTES.rank, ping_pong=(4, 12)),
        b=word,
        c=traversal(64, [(3, 1)], rank=QUARTERS.rank),
        d=traversal(0, [(3, 0)], rank=QUARTERS.rank, ping_pong=(1, 4)),
        avdata=Producer(3),
        wait=(Watcher(TileFlag.WIDE_TO_NARROW, 4, 1, 3), *[None] * 5),
        accumulate=True,
        idle_multipliers=(True,) * 3,
        block_level=1,
        reduction=1,
        lanes=4,
        lanes_last=4,
    )
    assert encoded(op) != op
    assert TensorOp.unpack(encoded(op).pack()).b is not None


def test_a_single_turn_may_grow() -> None:
    turn = Watcher(TileFlag.RING_PRODUCER_B, 1, 3)
    produce = RingProduce(
        wide=traversal(0, [(7, 1)], rank=WIDE.rank),
        token=Producer(0),
        wait=(turn, None),
        channel=1,
    )
    assert encoded(produce).wait == (replace(turn, increment=1), None)
    assert form(encoded(produce)) in published()


# --- programs ------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed: int) -> None:
    graph = random_model(seed)
    for segment in divide(graph)[0]:
        try:
            (package,) = link([lower(segment.graph, CONSERVATIVE)])
        except CapacityError:
            continue
        assert not differences(segment.graph, package, seed)
        assert not findings(package)
        assert all(item.novelty.explained for item in forms_of([package]).novel)


MODELS = (
    "templates/dense_256.tflite",
    "templates/gabor_64x64_7k_4o_2s.tflite",
    "layers/model_stride_64x64x3.tflite",
    "conv3x3/conv2d_12x128x32_to_32_k3_s1_same_quant.tflite",
    "coral/split_concat.tflite",
    "coral/mobilenet_v1_0.25_128_quant.tflite",
)


def shares(names: Sequence[str], options: Options) -> tuple[float, float]:
    """Shares of instructions, and of forms, that are published."""
    packages = [package for name in names for package in compiled(corpus() / name, options)]
    report = forms_of(packages)
    for item in report.novel:
        assert item.novelty.explained, item.novelty
    return report.known_instructions / report.instructions, report.known_forms / report.forms


@pytest.mark.long
@pytest.mark.corpus
def test_every_form_is_explained_and_most_are_published() -> None:
    plain, conservative = (shares(MODELS, options) for options in (DEFAULT, CONSERVATIVE))
    assert plain[0] > 0.9
    assert conservative[0] > 0.93
    assert all(ours >= usual for ours, usual in zip(conservative, plain, strict=True))

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitzroy.base.errors import CapacityError, UsageError
from fitzroy.formats.object_file import OperandKind
from fitzroy.hw_models.parameters import ConvolutionLayout, DepthwiseLayout, Prefix
from fitzroy.linker.resolve.caching import caching_program, check_segments, segments_of
from fitzroy.linker.resolve.placement import Operand, Placement, place

FC, CONV, PACKED = OperandKind.FULLY_CONNECTED, OperandKind.CONVOLUTION, OperandKind.PACKED


def conv(name: str, words: int, lanes: int = 64) -> Operand:
    return Operand(name, CONV, words * lanes * 4, words, lanes)


def fc(name: str, words: int, blocks: int, prefix: int = 1) -> Operand:
    return Operand(name, FC, words * blocks * 256, words, 64, prefix, blocks)


def check(placements: Sequence[Placement], limit: int) -> None:
    """Rows are disjoint over all models, below the limit, and the blobs are complete."""
    taken: set[tuple[int, int]] = set()
    for placement in placements:
        rows = [0] * len(placement.rows_used)
        for segment in placement.segments:
            assert segment.end <= limit
            cells = {(segment.tile, row) for row in range(segment.row, segment.end)}
            assert not cells & taken
            taken |= cells
            rows[segment.tile] += segment.words
        assert tuple(rows) == placement.rows_used
        if placement.segments:
            check_segments(placement.segments)
        streamed = [item.operand for item in placement.streamed]
        assert sorted([*placement.cached, *streamed]) == list(range(len(placement.operands)))
        for index in placement.cached:
            units = sum(segment.units for segment in placement.of(index))
            assert units == placement.operands[index].units
        position = 0
        for item in placement.streamed:
            assert item.position == position
            position += placement.operands[item.operand].units
            assert item.units == placement.operands[item.operand].units
        sizes = sum(operand.size for operand in placement.operands)
        assert placement.cached_bytes + placement.streamed_bytes == sizes


def test_blocks_lie_on_their_tiles() -> None:
    [placement] = place([[fc("dense", 10, 18, prefix=3)]])
    assert [segment.tile for segment in placement.segments] == [*range(16), 0, 1]
    first, last = placement.segments[0], placement.segments[16]
    assert (first.row, first.weights_row, first.prefix_words) == (0, 3, 3)
    assert (last.row, last.position, last.units) == (10, 16 * 40, 40)
    check([placement], 2080)


def test_owners_share_the_load() -> None:
    [placement] = place([[conv(f"conv{index}", 100) for index in range(32)]])
    assert placement.rows_used == (200,) * 16
    assert placement.streamed == ()


def test_large_convolution_is_split() -> None:
    [placement] = place([[conv("first", 30), conv("large", 3000, 32)]], reserved=80)
    check([placement], 2000)
    parts = placement.of(1)
    assert [segment.words for segment in parts] == [2000, 1000]
    assert [segment.units for segment in parts] == [4000, 2000]
    assert parts[0].tile != parts[1].tile


def test_packed_operands_are_not_split() -> None:
    packed = Operand("depthwise", PACKED, 256 * 11 + 64, 12, 64)
    [placement] = place([[packed, conv("conv", 155)]], rows=10)
    assert placement.cached == (1,)
    assert [item.operand for item in placement.streamed] == [0]
    with pytest.raises(CapacityError, match=r"depthwise: 12 rows are needed on one tile, 10 are"):
        place([[packed]], rows=10, streaming=False)


def test_fewest_bytes_are_streamed() -> None:
    operands = [conv("a", 60), conv("b", 55), conv("c", 45), conv("narrow", 40, 16)]
    [placement] = place([operands], rows=100, tiles=1)
    assert placement.cached == (1, 2)
    assert placement.streamed_bytes == 60 * 256 + 40 * 64
    check([placement], 100)


def test_first_model_comes_first() -> None:
    one, two = [conv("one", 20_000)], [conv("two", 20_000), conv("three", 10_000)]
    first, second = place([one, two])
    assert first.streamed == ()
    assert second.cached == (1,)
    check([first, second], 2080)
    first, second = place([two, one])
    assert first.streamed == ()
    assert [item.operand for item in second.streamed] == [0]


def test_equal_requests_give_equal_placements() -> None:
    operands = [conv("a", 700), fc("b", 90, 10), conv("c", 700), conv("d", 5, 16)]
    assert place([operands, operands]) == place([operands, operands])


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(CapacityError) as caught:
        place([[conv("small", 1)], [conv("huge", 40_000)]], streaming=False)
    assert str(caught.value) == (
        "model 1: parameters do not fit wide memory: huge: 40000 rows are needed, 33279 are free "
        "(hint: allow streaming, link fewer models together, or use a smaller model)"
    )
    with pytest.raises(CapacityError, match="2081 rows of wide memory"):
        place([[]], reserved=2081)


def test_impossible_operands_are_refused() -> None:
    with pytest.raises(UsageError, match="multiples of 64"):
        Operand("a", CONV, 100, 1, 64)
    with pytest.raises(UsageError, match="16, 32, 48 or 64"):
        Operand("a", CONV, 64, 4, 4)
    with pytest.raises(UsageError, match="only blocks of fully connected"):
        Operand("a", CONV, 512, 1, 64, 0, 2)
    with pytest.raises(UsageError, match="it has 512 bytes"):
        Operand("a", CONV, 512, 3, 64)
    with pytest.raises(UsageError, match="a block has 2 words"):
        Operand("a", FC, 512, 2, 64, 2)
    with pytest.raises(UsageError, match="each of 16 tiles"):
        place([[]], reserved=[1, 2])


def test_operands_of_layouts() -> None:
    prefix = Prefix(biases=True)
    dense = ConvolutionLayout(channels=130, in_channels=40, prefix=prefix, fully_connected=True)
    assert Operand.of("d", FC, dense) == Operand("d", FC, 3 * 11 * 256, 11, 64, 1, 3)
    image = ConvolutionLayout(channels=130, in_channels=40, prefix=prefix)
    assert Operand.of("c", CONV, image) == Operand("c", CONV, 3 * 11 * 256, 33, 64, 1)
    depthwise = DepthwiseLayout(channels=24, kernel=(3, 3), prefix=prefix)
    assert Operand.of("w", CONV, depthwise) == Operand("w", PACKED, 960, 4, 64)
    few = ConvolutionLayout(channels=2, in_channels=40)
    with pytest.raises(UsageError, match="4 lanes"):
        Operand.of("f", FC, few)


_OPERANDS = st.lists(
    st.one_of(
        st.builds(conv, st.just("c"), st.integers(1, 3000), st.sampled_from([16, 32, 48, 64])),
        st.builds(fc, st.just("f"), st.integers(4, 700), st.integers(1, 40), st.integers(0, 3)),
        st.builds(
            lambda units: Operand("p", PACKED, units * 64, -(-units // 4), 64),
            st.integers(1, 3000),
        ),
    ),
    max_size=8,
)


@given(st.lists(_OPERANDS, max_size=3), st.integers(0, 2080))
def test_any_request(models: list[list[Operand]], reserved: int) -> None:
    placements = place(models, reserved=reserved)
    check(placements, 2080 - reserved)
    for placement in placements:
        if placement.segments:
            found = segments_of(caching_program(placement.segments).instructions)
            assert [s.position for s in found] == [s.position for s in placement.segments]
            assert [s.row for s in found] == [s.row for s in placement.segments]

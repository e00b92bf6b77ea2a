from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import corpus
from tests.work import calls_at_most, memory_of

from fitzroy.base.errors import FormatError, UsageError
from fitzroy.base.types import Array
from fitzroy.hw_models.parameters import (
    ConvolutionLayout,
    DepthwiseLayout,
    FilterLayout,
    Parameters,
    Prefix,
    TableLayout,
    Word,
    WordKind,
    WordOrder,
    ZeroBias,
    effective_scale,
    one_hot,
    pack,
    prefix_for,
    read_softmax_table,
    softmax_layout,
    softmax_table,
    unpack,
)

ALL = Prefix(scales=True, biases=True, zero_points=True)
BIAS = Prefix(biases=True)

LAYOUTS: list[FilterLayout] = [
    ConvolutionLayout(channels=1, in_channels=1),
    ConvolutionLayout(channels=2, in_channels=3, prefix=BIAS),
    ConvolutionLayout(channels=3, in_channels=3, kernel=(3, 3), prefix=ALL),
    ConvolutionLayout(channels=4, in_channels=12, kernel=(1, 5), prefix=Prefix(zero_points=True)),
    ConvolutionLayout(channels=5, in_channels=8, prefix=BIAS),
    ConvolutionLayout(channels=33, in_channels=7, kernel=(2, 3), prefix=ALL),
    ConvolutionLayout(channels=64, in_channels=4, prefix=ALL),
    ConvolutionLayout(channels=70, in_channels=9, kernel=(3, 1), prefix=ALL),
    ConvolutionLayout(channels=130, in_channels=16, kernel=(3, 3)),
    ConvolutionLayout(channels=1, in_channels=10, prefix=BIAS, fully_connected=True),
    ConvolutionLayout(channels=100, in_channels=3, kernel=(2, 2), fully_connected=True),
    DepthwiseLayout(channels=4, kernel=(2, 2)),
    DepthwiseLayout(channels=6, kernel=(3, 3), prefix=BIAS),
    DepthwiseLayout(channels=6, kernel=(3, 3), prefix=ALL),
    DepthwiseLayout(channels=32, kernel=(5, 1), prefix=ALL),
]
LAYOUTS += [
    replace(layout, order=WordOrder.IC_INNER)
    for layout in LAYOUTS
    if isinstance(layout, ConvolutionLayout) and layout.order_matters
]


def parameters(layout: FilterLayout, seed: int = 0) -> Parameters:
    rng = np.random.default_rng(seed)
    count, prefix = layout.channels, layout.prefix
    return Parameters(
        rng.integers(0, 256, layout.weight_shape, np.uint8),
        rng.integers(1, 256, count if prefix.zero_points else 1, np.uint8),
        rng.integers(-5000, 5000, count, np.int32) if prefix.biases else None,
        rng.uniform(0.001, 0.1, count).astype(np.float32) if prefix.scales else None,
    )


def naive_pack(layout: FilterLayout, values: Parameters) -> bytes:
    """The manual's tables, byte by byte, apart from the code under test."""
    depthwise = isinstance(layout, DepthwiseLayout)
    count, (rows, columns) = layout.channels, layout.kernel
    if depthwise:
        block, lanes, groups = 4, 4, 1
    else:
        assert isinstance(layout, ConvolutionLayout)
        block, groups = 64, -(-layout.in_channels // 4)
        lanes = 64 if count > 64 else -(-count // 16) * 16
        if count <= 4 and not layout.fully_connected:
            lanes = 4
    zero = values.zero_points
    filled = -(-count // 4) * 4

    def zero_of(channel: int) -> int:
        assert zero is not None
        return int(zero[channel if len(zero) > 1 and channel < count else 0])

    def byte(channel: int, y: int, x: int, source: int) -> int:
        if channel >= filled:
            return 0
        if channel >= count:
            return zero_of(channel)
        if depthwise:
            own = source == channel % 4
            return int(values.weights[0, y, x, channel]) if own else zero_of(channel)
        if source >= values.weights.shape[3]:
            return zero_of(channel)
        return int(values.weights[channel, y, x, source])

    order = layout.order if isinstance(layout, ConvolutionLayout) else WordOrder.IC_OUTER
    taps = [(g, y, x) for g in range(groups) for y in range(rows) for x in range(columns)]
    if order is WordOrder.IC_INNER:
        taps = [(g, y, x) for y in range(rows) for x in range(columns) for g in range(groups)]
    out = bytearray()
    for first in range(0, count, block):
        channels = range(first, first + lanes)
        if values.scales is not None:
            beyond = 1.0 if count > 64 else 0.0
            for channel in channels:
                scale = values.scales[0] if not depthwise else 0.0
                scale = values.scales[channel] if channel < count else scale
                out += np.float32(beyond if channel >= filled else scale).tobytes()
        if values.biases is not None:
            for channel in channels:
                bias = values.biases[channel] if channel < count else 0
                out += int(bias).to_bytes(4, "little", signed=True)
        if layout.prefix.zero_points:
            for channel in channels:
                limit = count if depthwise else filled
                point = zero_of(channel) if channel < limit else 0
                out += point.to_bytes(4, "little")
        for g, y, x in taps:
            for channel in channels:
                out += bytes(byte(channel, y, x, 4 * g + i) for i in range(4))
    return bytes(out) + bytes(-len(out) % 64)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_packing_follows_the_tables(layout: FilterLayout) -> None:
    values = parameters(layout)
    packed = pack(layout, values)
    assert packed.tobytes() == naive_pack(layout, values)
    assert packed.size == layout.nbytes


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_unpacking_inverts_packing(layout: FilterLayout) -> None:
    values = parameters(layout, seed=1)
    packed = pack(layout, values)
    found = unpack(layout, packed)
    assert np.array_equal(found.weights, values.weights)
    for name in ("biases", "scales"):
        wanted, got = getattr(values, name), getattr(found, name)
        assert wanted is None if got is None else np.array_equal(wanted, got)
    if layout.is_padded or layout.prefix.zero_points:
        assert found.zero_points is not None
        assert values.zero_points is not None
        assert np.array_equal(found.zero_points, values.zero_points)
    else:
        assert found.zero_points is None
    assert np.array_equal(pack(layout, found), packed)


def test_every_byte_matters() -> None:
    # A changed byte either changes a parameter or is refused; none is ignored.
    for layout in LAYOUTS:
        packed = pack(layout, parameters(layout, seed=2))
        original = unpack(layout, packed)
        rng = np.random.default_rng(3)
        for offset in rng.integers(0, packed.size, 40):
            changed = packed.copy()
            changed[offset] ^= 0x41
            try:
                found = unpack(layout, changed)
            except FormatError:
                continue
            same = [
                np.array_equal(getattr(found, name), getattr(original, name))
                for name in ("weights", "zero_points", "biases", "scales")
                if getattr(original, name) is not None
            ]
            assert not all(same), (layout, offset)


def test_wrong_padding_is_refused() -> None:
    layout = ConvolutionLayout(channels=5, in_channels=3, prefix=ALL)
    packed = pack(layout, parameters(layout))
    for offset in (4 * 12, 64 + 4 * 6, 128 + 4 * 8, 192 + 3, 192 + 4 * 8):
        changed = packed.copy()
        changed[offset] ^= 1
        with pytest.raises(FormatError, match="padding bytes") as caught:
            unpack(layout, changed)
        assert caught.value.offset == offset
    with pytest.raises(FormatError, match="255 bytes for parameters that take 256"):
        unpack(layout, packed[:-1])
    changed = packed.copy()
    changed[129] = 1
    with pytest.raises(FormatError, match=r"zero point .* exceeds 8 bits"):
        unpack(layout, changed)


def test_parameters_that_do_not_fit_are_refused() -> None:
    layout = ConvolutionLayout(channels=6, in_channels=3, prefix=ALL)
    good = parameters(layout)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"weights": good.weights.astype(np.int8)}, "weights are int8"),
        ({"weights": good.weights[:5]}, r"uint8\[5, 1, 1, 3\], expected uint8\[6, 1, 1, 3\]"),
        ({"biases": None}, "0 values of kind bias, expected 6"),
        ({"scales": np.ones(5, np.float32)}, "5 values of kind scale, expected 6"),
        ({"zero_points": None}, "zero points are absent"),
        ({"zero_points": np.zeros(1, np.uint8)}, "1 zero points, expected 6"),
        ({"zero_points": np.full(6, 256)}, "256 exceed 8 bits"),
    ]
    for change, message in bad:
        with pytest.raises(UsageError, match=message):
            pack(layout, replace(good, **change))
    with pytest.raises(UsageError, match="have no elements"):
        ConvolutionLayout(channels=0, in_channels=4)


@pytest.mark.parametrize(
    ("layout", "lanes", "blocks", "words", "nbytes", "rows", "row_bytes"),
    [
        # A pointwise layer of 4 outputs: words of 16 bytes share rows.
        (ConvolutionLayout(channels=4, in_channels=32, prefix=BIAS), 4, 1, 9, 192, 1, 256),
        (ConvolutionLayout(channels=4, in_channels=32, fully_connected=True), 16, 1, 8, 512, 8, 64),
        (ConvolutionLayout(channels=48, in_channels=4, prefix=ALL), 48, 1, 4, 768, 4, 192),
        # 256 to 256, per channel: 4 tiles of 66 rows each.
        (
            ConvolutionLayout(
                channels=256,
                in_channels=256,
                prefix=Prefix(scales=True, zero_points=True),
                fully_connected=True,
            ),
            64, 4, 264, 67584, 264, 256,
        ),
        (DepthwiseLayout(channels=32, kernel=(3, 3), prefix=BIAS), 4, 8, 80, 1280, 5, 256),
        (DepthwiseLayout(channels=32, kernel=(3, 3), prefix=ALL), 4, 8, 96, 1536, 6, 256),
    ],
)  # fmt: skip
def test_sizes(
    layout: FilterLayout,
    lanes: int,
    blocks: int,
    words: int,
    nbytes: int,
    rows: int,
    row_bytes: int,
) -> None:
    found = (layout.lanes, layout.blocks, layout.word_count, layout.nbytes, layout.rows)
    assert (*found, layout.row_bytes) == (lanes, blocks, words, nbytes, rows, row_bytes)


def test_words_describe_the_bytes() -> None:
    layout = ConvolutionLayout(channels=70, in_channels=4, kernel=(1, 2), prefix=ALL)
    kinds = (WordKind.SCALE, WordKind.BIAS, WordKind.ZERO_POINT)
    assert list(layout.words()) == [
        word
        for block in (0, 1)
        for word in (
            *(Word(kind, block) for kind in kinds),
            Word(WordKind.WEIGHTS, block, 0),
            Word(WordKind.WEIGHTS, block, 1),
        )
    ]
    values = parameters(layout)
    assert values.scales is not None
    rows = pack(layout, values).reshape(layout.word_count, layout.word_bytes)
    for word, row in zip(layout.words(), rows, strict=True):
        channels = slice(64 * word.block, 64 * word.block + 6)
        if word.kind is WordKind.SCALE:
            assert np.array_equal(row.view("<f4")[:6], values.scales[channels])
        if word.kind is WordKind.WEIGHTS:
            wanted = values.weights[channels, 0, word.index]
            assert np.array_equal(row[:24].reshape(6, 4), wanted)


def test_word_order_matters_only_for_larger_windows() -> None:
    for kernel, depth, matters in (((1, 1), 64, False), ((3, 3), 4, False), ((1, 2), 5, True)):
        layout = ConvolutionLayout(channels=8, in_channels=depth, kernel=kernel)
        other = replace(layout, order=WordOrder.IC_INNER)
        values = parameters(layout)
        assert layout.order_matters is matters
        assert np.array_equal(pack(layout, values), pack(other, values)) is not matters


def test_effective_scale_rounds_every_operation() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.001, 0.1, 200).astype(np.float32)
    source, result = np.float32(0.1), np.float32(0.033)
    inverse = np.float32(1) / result
    found = effective_scale(float(source), weights, float(result))
    assert found.dtype == np.float32
    assert found.tolist() == [(source * weight) * inverse for weight in weights]
    # A single rounding at the end gives other numbers.
    once = (float(source) * weights.astype(np.float64) / float(result)).astype(np.float32)
    assert (found != once).any()


@pytest.mark.parametrize(
    ("scales", "biases", "per_channel", "zero_bias", "wanted"),
    [
        ([0.5], [1, 2], False, ZeroBias.KEEP, BIAS),
        ([0.5], None, False, ZeroBias.KEEP, Prefix()),
        ([0.5], [0, 0], False, ZeroBias.KEEP, BIAS),
        ([0.5], [0, 0], False, ZeroBias.DROP, Prefix()),
        ([0.5, 0.25], [1, 2], True, ZeroBias.DROP, ALL),
        ([0.5, 0.5], [1, 2], True, ZeroBias.DROP, Prefix(biases=True, zero_points=True)),
        ([0.5, 0.5], [0, 0], True, ZeroBias.DROP, Prefix(zero_points=True)),
    ],
)
def test_prefix(
    scales: list[float],
    biases: list[int] | None,
    per_channel: bool,
    zero_bias: ZeroBias,
    wanted: Prefix,
) -> None:
    vector = None if biases is None else np.array(biases, np.int32)
    found = prefix_for(
        np.array(scales, np.float32), vector, per_channel=per_channel, zero_bias=zero_bias
    )
    assert found == wanted


def test_one_hot_convolution_moves_elements() -> None:
    layout = ConvolutionLayout(
        channels=9, in_channels=1, kernel=(3, 3), prefix=BIAS, fully_connected=True
    )
    words = pack(layout, one_hot(layout, range(9))).reshape(10, 64)
    assert not words[0].any()
    assert all(np.flatnonzero(words[1 + k]).tolist() == [4 * k] for k in range(9))
    unused = unpack(layout, pack(layout, one_hot(layout, [-1] * 8 + [3])))
    assert np.argwhere(unused.weights).tolist() == [[8, 1, 0, 0]]
    with pytest.raises(UsageError, match="9 channels of 9 elements"):
        one_hot(layout, range(1, 10))
    with pytest.raises(UsageError, match="neither scales nor zero points"):
        one_hot(replace(layout, prefix=ALL), range(9))


def test_softmax_table() -> None:
    table = softmax_table(10, 0.125, unit_row=True)
    layout = softmax_layout(10, unit_row=True)
    assert layout == TableLayout(entries=10)
    assert table.size == layout.nbytes == 640
    assert [word.index for word in layout.words()] == list(range(10))
    rows = table.view("<i4").reshape(10, 16)
    assert not rows[:, 4:].any()
    assert rows[2, :4].tolist() == rows[5, :4].tolist() == [0, 0, -(2**31), -(2**31)]
    factors = table.view("<f4").reshape(10, 16)[:, :4]
    greatest = float(np.finfo(np.float32).max)
    assert factors[8].tolist() == [0.125, 0.125, greatest / 8, greatest / 8]
    assert factors[9].tolist() == [1, 0, 0, 0]
    assert read_softmax_table(10, table, unit_row=True) == 0.125
    assert read_softmax_table(10, table[:-64], unit_row=False) == 0.125
    changed = table.copy()
    changed[70] = 1
    with pytest.raises(FormatError, match="1 bytes differ"):
        read_softmax_table(10, changed, unit_row=True)
    with pytest.raises(FormatError, match="576 bytes for a table of 640"):
        read_softmax_table(10, table[:-64], unit_row=True)
    with pytest.raises(FormatError, match=r"input scale 0\.0"):
        read_softmax_table(10, np.zeros_like(table), unit_row=True)


def test_packing_computes_with_whole_arrays() -> None:
    # As many bytes as MobileNetV2 has.
    layout = ConvolutionLayout(channels=1000, in_channels=3500, prefix=ALL)
    values = parameters(layout)
    with memory_of() as memory, calls_at_most(1000):
        packed = pack(layout, values)
    assert packed.size > 3_500_000
    assert memory.peak < 4 * packed.size


# --- vectors of the manual -----------------------------------------------------------------------


def _floats(bits: list[int]) -> Array:
    return np.array(bits, np.uint32).view(np.float32)


@pytest.mark.corpus
def test_vectors_of_the_manual() -> None:
    path: Path = corpus().parent / "beagle" / "vectors" / "parameters.json"
    if not path.is_file():
        pytest.skip(f"no vectors at {path}")
    cases = json.loads(path.read_text())["packing"]
    assert len(cases) == 17
    for case in cases:
        weights = np.frombuffer(bytes.fromhex(case["weights_hex"]), np.uint8)
        weights = weights.reshape(case["shape"])
        signed = case["dtype"] == "int8"
        weights = weights ^ np.uint8(0x80 if signed else 0)
        zero_points = np.array(case["weight_zero_point"]) + (128 if signed else 0)
        biases = None if case["bias"] is None else np.array(case["bias"], np.int32)
        scales = effective_scale(
            _floats([case["in_scale_f32"]])[0],
            _floats(case["weight_scale_f32"]),
            _floats([case["out_scale_f32"]])[0],
        )
        prefix = prefix_for(scales, biases, per_channel=len(scales) > 1, zero_bias=ZeroBias.KEEP)
        layout: FilterLayout
        if case["kind"] == "dw":
            layout = DepthwiseLayout(
                channels=weights.shape[3], kernel=weights.shape[1:3], prefix=prefix
            )
        else:
            if case["kind"] == "fc":
                window = case.get("input_hwc", [1, 1, weights.shape[1]])
                weights = weights.reshape(-1, *window)
            if case["kind"] == "dwm":
                weights = weights.transpose(3, 1, 2, 0)
            layout = ConvolutionLayout(
                channels=weights.shape[0], in_channels=weights.shape[3], kernel=weights.shape[1:3],
                prefix=prefix, order=WordOrder(case["order"]),
                fully_connected=case["kind"] == "fc",
            )  # fmt: skip
        values = Parameters(weights, zero_points, biases, scales if prefix.scales else None)
        assert pack(layout, values).tobytes().hex() == case["expected_hex"], case["name"]
        unpack(layout, bytes.fromhex(case["expected_hex"]))

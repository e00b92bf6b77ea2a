from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fitzroy.base.errors import FormatError
from fitzroy.formats import bundled, flat
from fitzroy.formats import executorch as et


def program(*methods: str) -> bytes:
    plans = [et.ExecutionPlan(name=name) for name in methods]
    return et.write_program(
        et.Program(
            execution_plan=plans,
            constant_segment=et.SubsegmentOffsets(offsets=np.array([0], np.uint64)),
        )
    )


def suites() -> list[bundled.Suite]:
    image = np.arange(12, dtype=np.float32).reshape(3, 4)
    case = bundled.Case((image, 3, True), (np.array([-1, 2], np.int8), 0.5))
    return [
        bundled.Suite("forward", (case, bundled.Case((), ()))),
        bundled.Suite("other", (bundled.Case((np.zeros((), np.int64),), (image.T,)),)),
    ]


def assert_same(found: bundled.Suite, wanted: bundled.Suite) -> None:
    assert found.method == wanted.method
    assert len(found.cases) == len(wanted.cases)
    for one, other in zip(found.cases, wanted.cases, strict=True):
        for items, others in ((one.inputs, other.inputs), (one.outputs, other.outputs)):
            assert len(items) == len(others)
            for item, wanted_item in zip(items, others, strict=True):
                assert type(item) is type(wanted_item)
                np.testing.assert_array_equal(item, wanted_item)
                if isinstance(item, np.ndarray):
                    assert isinstance(wanted_item, np.ndarray)
                    assert item.dtype == wanted_item.dtype


def test_round_trip() -> None:
    inner = program("forward", "other")
    data = bundled.write_bundle(inner, suites())
    assert data[4:8] == b"BP08"
    bundle = bundled.read_bundle(data, path="a.bpte")
    assert bytes(bundle.program) == inner
    assert data.index(inner) % 32 == 0
    for found, wanted in zip(bundle.suites, suites(), strict=True):
        assert_same(found, wanted)
    assert bundle.suite("other") is bundle.suites[1]
    assert bundle.suite("absent") is None
    assert bundled.write_bundle(bundle.program, bundle.suites) == data


def test_old_layout_round_trip() -> None:
    first, second = suites()
    bundle = bundled.Bundle(
        b"BP04",
        memoryview(program("forward", "other")),
        (dataclasses.replace(first, metadata={"note": "text", "raw": b"\1\2"}), second),
        {"count": 3, "ratio": 0.25, "done": True},
    )
    data = bundled.write_old_bundle(bundle)
    assert data[4:8] == b"BP04"
    found = bundled.read_bundle(data)
    assert found.identifier == b"BP04"
    assert found.attachments == bundle.attachments
    assert found.suites[0].metadata == {"note": "text", "raw": b"\1\2"}
    for one, other in zip(found.suites, bundle.suites, strict=True):
        assert_same(one, other)
    assert bundled.write_old_bundle(found) == data


def test_old_layout_with_too_many_tests() -> None:
    bundle = bundled.Bundle(b"BP04", memoryview(program("forward")), tuple(suites()))
    with pytest.raises(FormatError, match="2 methods of a program with 1"):
        bundled.read_bundle(bundled.write_old_bundle(bundle))


def test_metadata_has_no_place_today() -> None:
    with pytest.raises(ValueError, match="no place for metadata"):
        bundled.write_bundle(b"x", [bundled.Suite("forward", (), {"a": 1})])


def with_tensor(**fields: object) -> bytes:
    tensor = bundled.Tensor(**fields)  # type: ignore[arg-type]
    return with_value(bundled.Value(val=tensor))


def with_value(value: bundled.Value) -> bytes:
    case = bundled.TestCase(inputs=[value])
    root = bundled.BundledProgram(
        method_test_suites=[bundled.TestSuite(method_name="forward", test_cases=[case])],
        program=np.zeros(4, np.uint8),
    )
    return flat.encode(root, identifier=bundled.IDENTIFIER)


SIZES = np.array([2, 3], np.int32)
SIX = np.zeros(6, np.uint8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (with_tensor(scalar_type=99, sizes=SIZES, data=SIX), "scalar type 99"),
        (with_tensor(sizes=SIZES, data=SIX[:5]), "5 bytes for uint8"),
        (with_tensor(sizes=SIZES), "0 bytes for uint8"),
        (with_tensor(sizes=-SIZES, data=SIX), "negative extent"),
        (with_tensor(sizes=SIZES, data=SIX, dim_order=SIX[:2]), "dimension order"),
        (with_value(bundled.Value()), "a value without contents"),
        (b"\0" * 64, "BP08 is expected"),
        (flat.encode(bundled.BundledProgram(), identifier=b"BP08"), "without a program"),
    ],
)
def test_bad_bundles(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        bundled.read_bundle(data)


def test_dimension_order_is_followed() -> None:
    data = with_tensor(
        sizes=SIZES, data=np.arange(6, dtype=np.uint8), dim_order=np.array([1, 0], np.uint8)
    )
    (found,) = bundled.read_bundle(data).suites[0].cases[0].inputs
    np.testing.assert_array_equal(found, np.arange(6).reshape(3, 2).T)


def old_bytes() -> bytes:
    return bundled.write_old_bundle(
        bundled.Bundle(
            b"BP04", memoryview(program("forward", "other")), tuple(suites()), {"a": "b"}
        )
    )


@pytest.mark.parametrize("old", [False, True])
def test_truncation_and_mutation_give_nothing_but_format_errors(old: bool) -> None:
    data = old_bytes() if old else bundled.write_bundle(program("forward"), suites())
    # Vectors are written backwards, so the last bytes belong to what is needed.
    for size in range(len(data) - 16):
        with pytest.raises(FormatError):
            bundled.read_bundle(data[:size])
    refused, work = 0, bytearray(data)
    for place in range(len(data)):
        for flip in (0x01, 0xFF):
            work[place] ^= flip
            try:
                bundled.read_bundle(work)
            except FormatError:
                refused += 1
            work[place] ^= flip
    assert refused > 100

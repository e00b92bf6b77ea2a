from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from tests.support import need

from fitzroy.base.errors import FormatError
from fitzroy.base.types import Array
from fitzroy.formats import flat, xnnpack
from fitzroy.formats.xnnpack import (
    Blob,
    Buffer,
    ConstantDataOffset,
    DataType,
    OutputMinMax,
    PerChannelQuant,
    PerTensorQuant,
    QuantizedTensorValue,
    TensorValue,
    ValueFlag,
    XNNFullyConnected,
    XNNGraph,
    XNode,
    XValue,
)

CONSTANTS = bytes(range(32))


def tensor(number: int, *dims: int, constant: int = 0, **fields: int) -> TensorValue:
    return TensorValue(
        num_dims=len(dims), dims=np.array(dims, np.uint32),
        constant_buffer_idx=constant, id_out=number,
        **{"datatype": DataType.QINT8, "external_id": xnnpack.INVALID_ID, **fields},
    )  # fmt: skip


def quantized(value: TensorValue, scale: float, zero_point: int) -> XValue:
    parameters = PerTensorQuant(scale=scale, zero_point=zero_point)
    return XValue(value=QuantizedTensorValue(tensor_value=value, quant_params=parameters))


def graph() -> XNNGraph:
    """A fully connected node of 4 inputs and 2 outputs, with a clamp."""
    weights = QuantizedTensorValue(
        tensor_value=tensor(1, 2, 4, constant=1, datatype=DataType.QCINT8),
        quant_params=PerChannelQuant(scale=np.array([0.5, 0.25], np.float32)),
    )
    return XNNGraph(
        version="0",
        xnodes=[
            XNode(
                node=XNNFullyConnected(
                    input1_id=0, filter_id=1, bias_id=xnnpack.INVALID_ID, output_id=2
                ),
                output_min_max=OutputMinMax(output_min=-1.0, output_max=1.0),
            )
        ],
        xvalues=[
            quantized(tensor(0, 1, 4, external_id=0, flags=ValueFlag.EXTERNAL_INPUT), 0.5, -3),
            XValue(value=weights),
            quantized(tensor(2, 1, 2, external_id=1, flags=ValueFlag.EXTERNAL_OUTPUT), 0.25, 7),
        ],
        num_externs=2,
        input_ids=np.array([0], np.uint32),
        output_ids=np.array([2], np.uint32),
        constant_data=[ConstantDataOffset(), ConstantDataOffset(offset=16, size=8)],
    )


def test_a_blob_survives_writing_and_reading() -> None:
    data = xnnpack.write_blob(graph(), CONSTANTS)
    blob = xnnpack.read_blob(data)
    assert blob.graph == graph()
    assert bytes(blob.constants) == CONSTANTS
    assert xnnpack.write_blob(blob.graph, blob.constants) == data


def test_the_header_is_laid_out_as_the_runtime_reads_it() -> None:
    data = xnnpack.write_blob(graph(), CONSTANTS)
    assert data[:4] == bytes(4)
    assert data[4:8] == b"XH00"
    assert int.from_bytes(data[8:10], "little") == 30
    start, size, constants = (int.from_bytes(data[at : at + 4], "little") for at in (10, 14, 18))
    assert start == 32
    assert data[start + 4 : start + 8] == b"XN00"
    assert constants == start + size
    assert constants % xnnpack.CONSTANT_ALIGNMENT == 0
    assert int.from_bytes(data[22:30], "little") == len(CONSTANTS)
    assert len(data) == constants + len(CONSTANTS)


@pytest.mark.parametrize("identifier", [b"XN00", b"XN01"])
def test_bare_flatbuffers_are_read(identifier: bytes) -> None:
    blob = xnnpack.read_blob(flat.encode(graph(), identifier=identifier))
    assert blob.graph == graph()
    assert len(blob.constants) == 0
    assert blob.offset == 0


@pytest.mark.parametrize("cls", xnnpack.NODE_TYPES, ids=lambda item: item.__name__)
def test_every_node_survives(cls: type[xnnpack.NodeTable]) -> None:
    fields: dict[str, int | float | Array] = {}
    for slot, name, kind in cls.declared().fields:
        if isinstance(kind, flat._Vector):
            fields[name] = np.arange(slot + 1, dtype=np.uint32)
        else:
            fields[name] = slot + 1
    written = XNNGraph(xnodes=[XNode(node=cls(**fields), debug_handle=9)])
    nodes = xnnpack.read_blob(xnnpack.write_blob(written)).graph.xnodes
    assert nodes is not None
    assert type(nodes[0].node) is cls
    assert nodes[0] == (written.xnodes or [])[0]


def test_node_codes_are_those_of_the_published_schema() -> None:
    need("executorch", "executorch")
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    roots = [Path(place) for place in spec.submodule_search_locations or ()]
    files = [file for root in roots for file in root.glob("**/xnnpack/serialization/schema.fbs")]
    if not files:
        pytest.skip("the installed ExecuTorch carries no XNNPACK schema")
    text = re.sub(r"//.*", "", files[0].read_text())
    found = re.search(r"union XNodeUnion \{(.*?)\}", text, re.S)
    assert found is not None
    members = [part.split(":")[0].strip() for part in found[1].split(",") if part.strip()]
    assert members == [cls.__name__ for cls in xnnpack.NODE_TYPES]


def test_constants_are_found_by_offset_by_name_and_inside() -> None:
    blob = xnnpack.read_blob(xnnpack.write_blob(graph(), CONSTANTS))
    assert bytes(xnnpack.constant_bytes(blob, 1)) == CONSTANTS[16:24]
    named = ConstantDataOffset(offset=xnnpack.NAMED_OFFSET, named_key="weights")
    blob.graph.constant_data = [ConstantDataOffset(), named]
    store = {"weights": memoryview(b"abcd")}
    assert bytes(xnnpack.constant_bytes(blob, 1, store.get)) == b"abcd"
    with pytest.raises(FormatError, match="no named data 'weights'"):
        xnnpack.constant_bytes(blob, 1)
    inside = XNNGraph(constant_buffer=[Buffer(), Buffer(storage=np.arange(3, dtype=np.uint8))])
    inline = xnnpack.read_blob(flat.encode(inside, identifier=b"XN00"))
    assert bytes(xnnpack.constant_bytes(inline, 1)) == b"\0\1\2"


@pytest.mark.parametrize("index", [0, 2, 1 << 31])
def test_constants_that_do_not_exist_are_refused(index: int) -> None:
    blob = xnnpack.read_blob(xnnpack.write_blob(graph(), CONSTANTS))
    with pytest.raises(FormatError, match=f"constant {index} of 2"):
        xnnpack.constant_bytes(blob, index)
    with pytest.raises(FormatError, match=f"constant {index} of 0"):
        xnnpack.constant_bytes(Blob(XNNGraph(), memoryview(b"")), index)


def test_constants_beyond_the_area_are_refused() -> None:
    blob = xnnpack.read_blob(xnnpack.write_blob(graph(), CONSTANTS[:20]))
    with pytest.raises(FormatError, match="spans bytes 16 to 24 of 20"):
        xnnpack.constant_bytes(blob, 1)


def test_tensors_are_found_in_both_kinds_of_values() -> None:
    value = tensor(5, 1)
    assert xnnpack.tensor_of(XValue(value=value)) is value
    assert xnnpack.tensor_of(quantized(value, 1.0, 0)) is value
    assert xnnpack.tensor_of(XValue()) is None


def test_every_truncation_and_byte_mutation_is_refused_or_reads() -> None:
    data = xnnpack.write_blob(graph(), CONSTANTS)
    outcomes = set()

    def attempt(mutant: bytes) -> None:
        try:
            xnnpack.read_blob(mutant)
        except FormatError:
            outcomes.add("refused")
        else:
            outcomes.add("read")

    for size in range(len(data)):
        attempt(data[:size])
    assert outcomes == {"refused"}
    for position in range(len(data)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, data[position] ^ 4}:
            attempt(data[:position] + bytes([value]) + data[position + 1 :])
    assert outcomes == {"refused", "read"}


@pytest.mark.parametrize(
    ("at", "width", "name"), [(10, 4, "flatbuffer"), (18, 4, "constant area"), (22, 8, "constant")]
)
def test_ranges_of_the_header_are_checked(at: int, width: int, name: str) -> None:
    data = bytearray(xnnpack.write_blob(graph(), CONSTANTS))
    data[at : at + width] = b"\xff" * width
    with pytest.raises(FormatError, match=f"a.pte, byte 0x10a, XH00: the {name}"):
        xnnpack.read_blob(bytes(data), path="a.pte", base=0x100)

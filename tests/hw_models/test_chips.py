from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from tests.support import corpus

from fitzroy.base.bits import Choice
from fitzroy.base.errors import UsageError
from fitzroy.base.evidence import Evidence
from fitzroy.hw_models.chips.beagle import BEAGLE
from fitzroy.hw_models.chips.catalog import CHIPS, chip
from fitzroy.hw_models.chips.facts import facts
from fitzroy.hw_models.chips.usb import (
    BosDescriptor,
    DfuStatus,
    Event,
    InterruptPacket,
    QualifierDescriptor,
    Speed,
    StreamHeader,
    Tag,
    boot_configuration,
    configuration,
    device_descriptor,
    object_store,
    to_bytes,
)
from fitzroy.hw_models.csr.fields import AxiClock, CoreClock, McuClock
from fitzroy.hw_models.isa.fields import PREDICATE, REGISTER, TILES
from fitzroy.hw_models.isa.instruction import BUNDLE_BYTES
from fitzroy.hw_models.isa.scalar import DescriptorTag, Scalar, Start
from fitzroy.hw_models.isa.stream import Infeed
from fitzroy.hw_models.isa.tensor import NluTable, TensorOp
from fitzroy.hw_models.isa.traversal import BYTES, NARROW, QUARTERS, WIDE


def test_quantities_read_as_plain_values() -> None:
    assert BEAGLE.memories.wide.elements == 2_080
    assert BEAGLE.memories.wide.size == 520 * 1024
    assert BEAGLE.memories.narrow.size == 192 * 1024
    assert BEAGLE.tiles.count == 16
    with pytest.raises(dataclasses.FrozenInstanceError):
        BEAGLE.tiles.rows = 5  # type: ignore[misc, assignment]


def test_every_fact_has_evidence_and_a_source() -> None:
    rows = list(facts(BEAGLE))
    assert len(rows) > 100
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        assert row.doc
        assert row.source
        assert row.evidence is not Evidence.UNKNOWN
        value: object = BEAGLE
        for step in row.name.replace("['", ".['").split("."):
            value = value[step[2:-2]] if step.startswith("[") else getattr(value, step)  # type: ignore[index]
        assert value == row.value


def test_chips_are_found_by_name() -> None:
    assert chip("beagle") is BEAGLE is CHIPS["beagle"]
    with pytest.raises(UsageError, match="beagle"):
        chip("abrolhos")


def test_the_numbers_agree_with_the_instruction_set() -> None:
    loops = TensorOp.field("loops").codec
    assert loops.decode((1 << loops.width) - 1)[0] == BEAGLE.limits.loop_iterations
    assert 1 << REGISTER.width == BEAGLE.scalar.registers
    assert 1 << PREDICATE.width == BEAGLE.scalar.predicates
    assert TILES.width == BEAGLE.tiles.count
    assert Infeed.field("row_words").codec.decode(63) == BEAGLE.compute.lanes
    assert 1 << Scalar.field("load_address").width == BEAGLE.memories.scalar.elements
    assert len(NluTable().coefficients) == BEAGLE.compute.nlu_segments
    assert BEAGLE.memories.instruction.element_bytes == BUNDLE_BYTES
    assert BEAGLE.limits.chunk_bundles == BEAGLE.memories.instruction.elements + 2
    Start(size=BEAGLE.memories.instruction.size * 8).pack()


def test_addresses_reach_all_of_the_memories() -> None:
    memories = BEAGLE.memories
    assert memories.wide.elements <= 1 << WIDE.address
    assert memories.wide.elements * 4 <= 1 << QUARTERS.address
    assert memories.narrow.elements <= 1 << NARROW.address
    assert memories.narrow.size <= 1 << BYTES.address
    assert memories.wide.elements <= 1 << TensorOp.field("zero_point_last").width
    assert memories.wide.element_bytes == BEAGLE.compute.lanes * BEAGLE.compute.multipliers
    assert memories.scaling.element_bytes * 16 == memories.wide.element_bytes // 2


def test_clocks_are_settings_of_the_registers() -> None:
    for clocks in BEAGLE.clocks.values():
        assert clocks.core_mhz in [clock.mhz for clock in CoreClock]
        assert clocks.axi_mhz in [clock.mhz for clock in AxiClock]
        assert clocks.mcu_mhz in [clock.mhz for clock in McuClock]


def test_descriptor_tags_are_those_of_the_scalar_core() -> None:
    assert {tag.name: tag.value for tag in DescriptorTag} == {
        tag.name: tag.value for tag in Tag if tag is not Tag.INSTRUCTIONS
    }


def test_descriptors_have_the_bytes_of_the_firmware() -> None:
    usb = BEAGLE.usb
    fast = to_bytes(device_descriptor(usb.runtime, Speed.SUPER))
    slow = to_bytes(device_descriptor(usb.runtime, Speed.HIGH))
    assert fast == bytes.fromhex("12 01 10 03 00 00 00 09 d1 18 02 93 00 01 00 00 00 01")
    assert slow == bytes.fromhex("12 01 10 02 00 00 00 40 d1 18 02 93 00 01 00 00 00 01")
    super_speed = "".join(
        f"07 05 {address} 02 00 04 00 06 30 0f 00 00 00 "
        for address in ("01", "02", "03", "81", "82")
    )
    assert configuration(usb, Speed.SUPER) == bytes.fromhex(
        "09 02 60 00 01 01 00 c0 0c 09 04 00 00 06 ff ff ff 00"
        + super_speed
        + "07 05 83 03 40 00 01 06 30 00 00 04 00"
    )
    high_speed = "".join(
        f"07 05 {address} 02 00 02 00" for address in ("01", "02", "03", "81", "82")
    )
    assert configuration(usb, Speed.HIGH) == bytes.fromhex(
        "09 02 3c 00 01 01 00 c0 31 09 04 00 00 06 ff ff ff 00"
        + high_speed
        + "07 05 83 03 40 00 01"
    )
    assert object_store() == bytes.fromhex(
        "05 0f 16 00 02 07 10 02 02 00 00 00 0a 10 03 00 0c 00 02 00 00 00"
    )
    assert to_bytes(QualifierDescriptor()) == bytes.fromhex("0a 06 10 03 00 00 00 09 01 00")
    assert BosDescriptor.unpack(int.from_bytes(object_store()[:5], "little")).capabilities == 2


def test_messages_have_their_published_layout() -> None:
    assert to_bytes(StreamHeader(length=1072, tag=Tag.INSTRUCTIONS)).hex() == "3004000000000000"
    assert to_bytes(StreamHeader(length=67584, tag=Tag.PARAMETERS)).hex() == "0008010002000000"
    assert to_bytes(Event(tag=Tag.INTERRUPT_0)) == bytes(12) + b"\4\0\0\0"
    codec = StreamHeader.field("tag").codec
    assert isinstance(codec, Choice)
    assert Tag.OUTPUT not in codec.members
    assert InterruptPacket.unpack(0b10001) == InterruptPacket(True, (False, False, False, True))
    assert DfuStatus.unpack(int.from_bytes(bytes.fromhex("000000000500"), "little")).state == 5


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["dense_256", "mobilenet_v1_0.25_128_quant", "posenet_481_641"])
def test_recorded_conversations_use_these_descriptors_and_messages(name: str) -> None:
    path = corpus().parent / "beagle" / "usb-traces" / f"trace_{name}.jsonl"
    if not path.exists():
        pytest.skip(f"no recorded conversation at {path}")
    headers = events = descriptors = 0
    for line in Path(path).read_text().splitlines():
        record = json.loads(line)
        head = bytes.fromhex(record.get("head", ""))
        if record["type"] == "control" and record["setup"]["wValue"] == "0x0100":
            if record["setup"]["bRequest"] == 6:
                identity = BEAGLE.usb.boot if head[8:10] == b"\x6e\x1a" else BEAGLE.usb.runtime
                assert head == to_bytes(device_descriptor(identity, Speed.SUPER))
                descriptors += 1
        elif record["type"] == "control" and record["setup"]["wValue"] == "0x0200":
            assert head == boot_configuration(BEAGLE.usb)
            descriptors += 1
        elif record["type"] == "bulk" and record["dir"] == "out" and record["length"] == 8:
            header = StreamHeader.unpack(int.from_bytes(head, "little"))
            assert record["dev"] == [{"ev": "header", "tag": header.tag, "size": header.length}]
            headers += 1
        elif record["type"] == "bulk" and record.get("ev") == "complete" and record["length"] == 16:
            assert Event.unpack(int.from_bytes(head, "little")) == Event(tag=Tag.INTERRUPT_0)
            events += 1
    assert headers
    assert events
    assert descriptors

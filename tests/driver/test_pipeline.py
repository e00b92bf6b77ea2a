"""Plans of executables, and requests that overlap."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.driver.edgetpu_programs import SIZE, echo

from fitzroy.base.errors import FormatError
from fitzroy.driver.device.limits import Limits, Watch
from fitzroy.driver.device.streams import ENDPOINTS, Message, Streams
from fitzroy.driver.runtime.devices import SIMULATED, DeviceOptions, virtual_device
from fitzroy.driver.runtime.prepared import Action, PreparedExecutable
from fitzroy.driver.transports.transport import Attached, Payload, Room
from fitzroy.formats.darwinn import Executable
from fitzroy.hw_models.chips.usb import Event, StreamHeader, Tag, to_bytes
from fitzroy.hw_models.usb_device.device import VirtualDevice
from fitzroy.linker.schedule import (
    AwaitInterrupt,
    ReceiveOutput,
    ReceiveScratch,
    SendInput,
    SendInstructions,
    SendScratch,
    to_hints,
)
from fitzroy.linker.schedule.steps import Script, Step

ROW = np.arange(SIZE)[::-1].astype(np.uint8)
_, _, _, _, EVENT, _ = ENDPOINTS
HEADER = StreamHeader.width // 8


class Slow(ThreadPoolExecutor):
    """Lets a program take its time, as a chip does."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def later() -> Any:
            time.sleep(0.1)
            return fn(*args, **kwargs)

        return super().submit(later)


def test_the_next_program_is_sent_while_one_computes(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Slow(1) as executor:
        device = VirtualDevice(booted=True, executor=executor)
        with virtual_device(DeviceOptions(record=path), device) as host:
            requests = [host.submit(echo(), {"x": ROW + n}) for n in range(4)]
            for number, request in enumerate(requests):
                assert (request.result(10).tensors["y"] == ROW + number).all()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    moves = [
        line["op"]
        for line in sorted(lines, key=lambda line: line.get("posted", line["t"]))
        if (line.get("op") == "write" and line["size"] == HEADER and line["data"][8:10] == "00")
        or (line.get("op") == "read" and line["endpoint"] == "0x82" and line.get("data"))
    ]
    # Instructions of a program, and its event: the next one does not wait for the event.
    assert moves == ["write", *["write", "read"] * 3, "read"]


def with_script(*steps: Step, batch: int = 1, scratch: int = 0) -> Executable:
    hints = to_hints(Script(tuple(steps)))
    return replace(echo().main, dma_hints=hints, batch_size=batch, scratch_size_bytes=scratch)


class Loop:
    """A transport that takes everything, and gives what it was told to."""

    def __init__(self, output: bytes = b"") -> None:
        self.attached = Attached("1-1", 1, 0, 0, None)
        self.sent: list[bytes] = []
        self.output = output
        self.under_way = 0

    def post(self, endpoint: int, data: Payload) -> None:
        self.sent.append(bytes(data))

    def read_into(self, endpoint: int, room: Room, timeout: float) -> int:
        data = self.read(endpoint, len(room), timeout)
        room[: len(data)] = np.frombuffer(data, np.uint8)
        return len(data)

    def read(self, endpoint: int, size: int, timeout: float) -> bytes:
        if endpoint == EVENT:
            return to_bytes(Event(tag=Tag.INTERRUPT_0))
        part, self.output = self.output[:size], self.output[size:]
        return part


def carry_out(plan: PreparedExecutable, loop: Any, inputs: dict[str, Any]) -> Any:
    streams = Streams(loop, Limits(), False, lambda: None)
    exchange = plan.exchange(plan.encoded(inputs))
    actions: tuple[Action, ...] = (*plan.head, *plan.tail)
    for action in actions:
        action(exchange, streams, Watch(1.0))
    streams.finish()
    return exchange


def test_batches() -> None:
    steps: list[Step] = [SendInstructions(0)]
    steps += [SendInput("x", n, 0, SIZE) for n in range(2)]
    steps += [ReceiveOutput("y", n, 0, SIZE) for n in range(2)] + [AwaitInterrupt(0)]
    plan = PreparedExecutable(with_script(*steps, batch=2))
    loop = Loop(bytes(range(256)) * 2)
    both = np.concatenate([ROW, ROW + 1])
    exchange = carry_out(plan, loop, {"x": both})
    assert b"".join(loop.sent[3::2]) == both.tobytes()
    assert plan.tensors(exchange)["y"].tobytes() == bytes(range(256)) * 2
    with pytest.raises(FormatError, match="batch of 2"):
        plan.encoded({"x": both[1:]})


def test_parts_of_buffers_and_scratch() -> None:
    plan = PreparedExecutable(
        with_script(
            SendInstructions(0),
            SendInput("x", 0, 0, 192),
            SendInput("x", 0, 128, 128),
            ReceiveScratch(8, 16),
            SendScratch(0, 32),
            ReceiveOutput("y", 0, 0, 100),
            ReceiveOutput("y", 0, 100, 156),
            AwaitInterrupt(0),
            scratch=32,
        )
    )
    assert not plan.overlaps
    loop = Loop(bytes([9]) * 16 + bytes(range(256)))
    exchange = carry_out(plan, loop, {"x": ROW})
    headers, payloads = loop.sent[::2], loop.sent[1::2]
    assert payloads[1:] == [
        ROW[:192].tobytes(),
        ROW[128:].tobytes(),
        bytes(8) + bytes([9]) * 16 + bytes(8),
    ]
    assert headers[3] == to_bytes(StreamHeader(length=32, tag=Tag.INPUT))
    assert plan.buffers(exchange)["y"].tobytes() == bytes(range(256))


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ([SendInstructions(3)], "chunk 3 of 1"),
        ([SendInput("x", 0, 200, 100)], "there are 256"),
        ([SendInput("z", 0, 0, 1)], "there are 0"),
        ([SendInput("x", 1, 0, 1)], "there are 0"),
        ([ReceiveOutput("y", 0, 0, 255)], "255 of 256"),
        ([ReceiveOutput("y", 0, 1, 255)], "0 of 256"),
        ([ReceiveScratch(0, 1)], "there are 0"),
    ],
)
def test_scripts_that_do_not_fit(steps: list[Step], what: str) -> None:
    with pytest.raises(FormatError, match=what):
        PreparedExecutable(with_script(*steps))


def test_messages_are_cut() -> None:
    message = Message.of(Tag.PARAMETERS, bytes((1 << 20) + 5_000))
    assert [len(part) for part in message.parts] == [1 << 20, 5_000]
    early, late = message.divided(1_024)
    assert (early.size, late.size) == (message.size - 1_024, 1_024)
    early, late = Message.of(Tag.INPUT, b"abc").divided(1_024)
    assert (early.size, late.size) == (0, 3)


def test_limits_of_the_simulator_are_longer() -> None:
    assert SIMULATED.request > 10 * Limits().request

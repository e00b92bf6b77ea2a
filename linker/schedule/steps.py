"""Steps of the host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SendInstructions:
    """Send a chunk of instructions."""

    chunk: int


@dataclass(frozen=True, slots=True)
class SendInput:
    """Send bytes of an input."""

    name: str
    batch: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class SendParameters:
    """Send bytes of the parameters."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class SendScratch:
    """Send bytes of the scratch buffer back to the device."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ReceiveOutput:
    """Receive bytes of an output."""

    name: str
    batch: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ReceiveScratch:
    """Receive bytes of the scratch buffer."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class AwaitInterrupt:
    """Wait for an interrupt of the scalar core, 0 to 3."""

    number: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Complete all steps so far before the next one starts."""


Transfer = SendInput | SendParameters | SendScratch | ReceiveOutput | ReceiveScratch
Step = SendInstructions | Transfer | AwaitInterrupt | Fence


@dataclass(frozen=True, slots=True)
class Script:
    """What the host does for one run of a program.

    Attributes:
        steps: in order.
        deterministic: these are all steps; else what follows depends on data in the device, and
            the host has to ask it.
    """

    steps: tuple[Step, ...]
    deterministic: bool = True


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps, with adjacent transfers of adjacent bytes of a buffer made one."""
    result: list[Step] = []
    for step in steps:
        last = result[-1] if result else None
        if (
            isinstance(step, Transfer)
            and isinstance(last, Transfer)
            # The same buffer: transfers that differ in nothing but offset and size.
            and replace(last, offset=step.offset, size=step.size) == step
            and last.offset + last.size == step.offset
        ):
            result[-1] = replace(last, size=last.size + step.size)
        else:
            result.append(step)
    return tuple(result)


def fenced(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same steps, with fences where scratch bytes are sent that may still be on their way.

    Steps may overlap in time; that one sends what another one receives is the only dependence
    between steps of a program that the device does not enforce itself.
    """
    result: list[Step] = []
    received: list[ReceiveScratch] = []
    for step in steps:
        if isinstance(step, Fence):
            received.clear()
        elif isinstance(step, ReceiveScratch):
            received.append(step)
        elif isinstance(step, SendScratch) and any(
            step.offset < other.offset + other.size and other.offset < step.offset + step.size
            for other in received
        ):
            result.append(Fence())
            received.clear()
        result.append(step)
    return tuple(result)

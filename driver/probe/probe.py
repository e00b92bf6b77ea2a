"""What a probe is: a tiny program that exercises one thing, and what it should answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from fitzroy.base.types import Array
from fitzroy.driver.probe.program import Sketch


class Risk(IntEnum):
    """How likely a probe leaves a device that has to be brought back; the order of a suite."""

    CONTROL = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3


@dataclass(frozen=True, eq=False, slots=True)
class Probe:
    """A program that settles one question.

    Attributes:
        slug: its name, which stays the same.
        title: what it exercises.
        settles: what its answer says about the device.
        risk: how likely it hangs or upsets the device.
        program: the listing of an object.
        inputs: bytes of every input layer, uint8[size].
        expected: bytes of every output layer, uint8[size], by a formula of its own; None for what
            the simulator answers.
        form: the form of its one instruction that no published program has, empty for none.
        properties: slugs of the properties of published programs that it leaves.
        alternatives: outputs of devices that follow another rule, by the name of the rule.
    """

    slug: str
    title: str
    settles: str
    risk: Risk
    program: str
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array] | None
    form: str = ""
    properties: tuple[str, ...] = ()
    alternatives: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)


def probe(
    slug: str,
    title: str,
    settles: str,
    sketch: Sketch,
    inputs: Mapping[str, Array] | Array,
    expected: Mapping[str, Array] | Array,
    *,
    risk: Risk = Risk.LOW,
    form: str = "",
    properties: tuple[str, ...] = (),
    alternatives: Mapping[str, Array] | None = None,
) -> Probe:
    """A probe; inputs and outputs that are arrays are those of the layers "x" and "y"."""
    return Probe(
        slug,
        title,
        settles,
        risk,
        sketch.text(slug),
        {name: as_bytes(data) for name, data in _layers("x", inputs).items()},
        {name: as_bytes(data) for name, data in _layers("y", expected).items()},
        form,
        properties,
        {rule: {"y": as_bytes(data)} for rule, data in (alternatives or {}).items()},
    )


def _layers(name: str, data: Mapping[str, Array] | Array) -> Mapping[str, Array]:
    return {name: data} if isinstance(data, np.ndarray) else data


def as_bytes(data: Array) -> Array:
    """Elements as bytes, uint8[size]."""
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def noise(count: int, seed: int) -> Array:
    """Bytes that look random and never change, uint8[count]."""
    state = np.arange(count, dtype=np.uint64) + np.uint64(seed * 0x10001 + 1)
    # The finalizer of splitmix64; arithmetic of uint64 wraps.
    state = state * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((state >> np.uint64(56)).astype(np.uint8))

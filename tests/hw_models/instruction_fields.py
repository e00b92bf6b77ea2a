"""Traversals and wait conditions of hand-written instructions, in short."""

from __future__ import annotations

from typing import Any

from fitzroy.hw_models.isa.fields import Side, Watcher
from fitzroy.hw_models.isa.traversal import Traversal, traversal


def wide(base: int, *dims: tuple[int, int], **more: Any) -> Traversal:
    return traversal(base, list(dims), rank=4, **more)


def narrow(base: int, *dims: tuple[int, int], **more: Any) -> Traversal:
    return traversal(base, list(dims), rank=6, **more)


def units(base: int, count: int) -> Traversal:
    return traversal(base, [(count, 1)], rank=3)


def wait(
    flag: int, level: int, threshold: int, increment: int = 0, *, side: Side = Side.READ
) -> Watcher:
    return Watcher(flag, level, threshold, increment, side=side)


def waits(*watchers: Watcher, count: int) -> tuple[Watcher | None, ...]:
    return (*watchers, *(None,) * (count - len(watchers)))

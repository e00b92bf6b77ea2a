"""Queues between threads, whose length may be limited at any time."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class BoundedQueue(Generic[T]):
    """Items in order, from one thread to another.

    Args:
        limit: how many items may wait, 0 for any number.
    """

    def __init__(self, limit: int = 0) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self._changed = threading.Condition()
        self._closed = False

    def limit(self, limit: int) -> None:
        """Let at most so many items wait, 0 for any number; those that wait already stay."""
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    def put(self, item: T) -> bool:
        """Append an item as soon as there is room.

        Returns:
            Whether it was appended; False after `close`.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or not self._limit or len(self._items) < self._limit
            )
            if self._closed:
                return False
            self._items.append(item)
            self._changed.notify_all()
            return True

    def get(self) -> T | None:
        """The first item, as soon as there is one; None when the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._items))
            if not self._items:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Take no more items."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def drop(self) -> int:
        """Take no more items, and forget those that wait; returns how many they were."""
        with self._changed:
            count = len(self._items)
            self._items.clear()
            self._closed = True
            self._changed.notify_all()
            return count

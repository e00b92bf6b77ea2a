"""Sets that have no item in common, and grow by being joined (union-find)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class DisjointSets(Generic[Item]):
    """Disjoint sets of items, each represented by one of its items.

    An item that has not been mentioned before is a set of its own.
    """

    def __init__(self) -> None:
        self._parent: dict[Item, Item] = {}

    def find(self, item: Item) -> Item:
        """The representative of the set that an item belongs to."""
        root = item
        while (parent := self._parent.setdefault(root, root)) != root:
            root = parent
        while item != root:
            item, self._parent[item] = self._parent[item], root
        return root

    def join(self, *items: Item) -> None:
        """Merge the sets of some items; the representative of the first one stays."""
        for item in items[1:]:
            self._parent[self.find(item)] = self.find(items[0])

    def members(self) -> dict[Item, list[Item]]:
        """All sets by their representative, in order of first mention."""
        result: dict[Item, list[Item]] = {}
        for item in self._parent:
            result.setdefault(self.find(item), []).append(item)
        return result

"""Disjoint sets."""

from __future__ import annotations

from fitzroy.base.disjoint_sets import DisjointSets


def test_joined_items_have_the_representative_of_the_first() -> None:
    sets = DisjointSets[str]()
    assert sets.find("z") == "z"
    sets.join("a", "b", "c")
    sets.join("d", "e")
    assert sets.find("c") == "a"
    sets.join("e", "b")
    assert {sets.find(item) for item in "abcde"} == {"d"}
    members = sets.members()
    assert {key: sorted(items) for key, items in members.items()} == {
        "z": ["z"],
        "d": ["a", "b", "c", "d", "e"],
    }
    assert list(members) == ["z", "d"]

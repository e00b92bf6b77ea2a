"""Ranges that published programs keep to.

`benchmarks.envelope` takes them from compiled models and executables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

TABLE = "published.json"


@dataclass(frozen=True, slots=True)
class Published:
    """Values of a property in published programs.

    Attributes:
        lowest: the lowest value.
        highest: the highest value.
        occurrences: places where it was measured.
        programs: programs that have such places.
    """

    lowest: int
    highest: int
    occurrences: int
    programs: int


@cache
def published() -> Mapping[str, Published]:
    """Ranges by slug of the property."""
    text = resources.files("fitzroy.hw_models.edgetpu.envelope").joinpath(TABLE).read_text("ascii")
    return {slug: Published(**item) for slug, item in json.loads(text).items()}


def table(found: Mapping[str, Published]) -> str:
    """The file that ships with the declaration, a property on each line."""
    lines = (
        f"  {json.dumps(slug)}: "
        + json.dumps(
            {
                "lowest": found[slug].lowest,
                "highest": found[slug].highest,
                "occurrences": found[slug].occurrences,
                "programs": found[slug].programs,
            }
        )
        for slug in sorted(found)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"

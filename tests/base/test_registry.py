from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fitzroy.base.errors import UsageError
from fitzroy.base.registry import Registry
from fitzroy.compiler.frontends.frontend import FRONTENDS
from fitzroy.compiler.passes.base import PASSES, Pass

GROUP = "fitzroy.tests"


def install(folder: Path, name: str, entries: str, code: str = "") -> None:
    """A package as importlib.metadata finds it on the path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")
    (folder / f"{name}.py").write_text(code)


def registry() -> Registry[Pass]:
    own = {"dead-code": PASSES.own["dead-code"]}
    return Registry("pass", "passes", group=GROUP, base=Pass, own=own)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


CODE = """
from fitzroy.compiler.passes.base import Pass

class Twice(Pass):
    name = "twice"

class Misnamed(Pass):
    name = "other"

class Stranger:
    name = "stranger"
"""


def test_ours_come_first_and_others_after_them(site: Path) -> None:
    assert registry().names() == ("dead-code",)
    install(site, "outside_a", "twice = outside_a:Twice", CODE)
    assert registry().names() == ("dead-code", "twice")
    assert registry().get("twice").name == "twice"
    assert registry().get("dead-code").name == "dead-code"
    assert [item.name for item in registry().others()] == ["twice"]


def test_names_that_nobody_has(site: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'dead-code'"):
        registry().get("deadcode")
    with pytest.raises(UsageError, match="passes: dead-code"):
        registry().get("zzz")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("twice = outside_b:Missing", "AttributeError"),
        ("twice = outside_b.nowhere:Twice", "ModuleNotFoundError"),
        ("twice = outside_b:Misnamed", "its own name is 'other'"),
        ("stranger = outside_b:Stranger", "makes no Pass"),
    ],
)
def test_what_others_offer_must_be_usable(site: Path, entry: str, reason: str) -> None:
    install(site, "outside_b", entry, CODE)
    with pytest.raises(UsageError, match=reason) as caught:
        registry().get(entry.partition(" ")[0])
    assert caught.value.where == "outside_b 1.0"


def test_no_name_is_claimed_twice(site: Path) -> None:
    install(site, "outside_c", "dead-code = outside_c:Twice", CODE)
    with pytest.raises(UsageError, match="two passes are named 'dead-code'") as caught:
        registry().names()
    assert "FitzRoy and outside_c 1.0" in caught.value.reason


@pytest.mark.parametrize("registry", [PASSES, FRONTENDS])
def test_all_of_ours_have_their_names(registry: Registry[Pass]) -> None:
    for name in registry.own:
        assert registry.get(name).name == name

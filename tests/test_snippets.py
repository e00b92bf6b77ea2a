"""Every snippet of every page runs."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.given import give
from tests.snippets import DATA, RUN, Block, Session, blocks

from fitzroy.driver.transports import libusb, usb
from fitzroy.driver.transports.virtual import VirtualBackend
from fitzroy.hw_models.usb_device.device import VirtualDevice

ROOT = Path(__file__).parents[1]
COMPLETE = [ROOT / "README.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
"""Pages whose commands need nothing but a clone."""

PAGES = [*COMPLETE, ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
PAGES += [path for path in sorted((ROOT / "docs").rglob("*.md")) if path not in COMPLETE]

NOT_RUN = Counter(
    {
        "needs PyTorch": 2,
        "needs a board with the module on PCIe": 1,
        "needs a model that does not come with FitzRoy": 1,
        "needs root, and a second machine": 2,
        "needs such a board, and Google's runtime": 1,
        "needs the model above, and pictures of yours": 1,
        "needs the network": 2,
        "needs two accelerators, and several machines": 1,
        "takes minutes to hours": 2,
    }
)
"""How many blocks of all pages cannot be run here, by their reason."""

SLOW = {"codegen", "detections", "evaluate", "explorer", "hosts", "pipelines", "probe", "running"}
"""Pages whose snippets take more than a few seconds."""


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in RUN and not block.reason]


def parameters() -> list[object]:
    """Pages with something to run."""
    return [
        pytest.param(
            page,
            id=page.relative_to(ROOT).with_suffix("").as_posix(),
            marks=pytest.mark.slow if page.stem in SLOW else pytest.mark.long,
        )
        for page in PAGES
        if runnable(page)
    ]


def test_every_block_names_a_language() -> None:
    unnamed = [
        block.where for page in PAGES for block in blocks(page) if block.language not in RUN | DATA
    ]
    assert unnamed == []


def test_no_block_is_indented_and_thus_overlooked() -> None:
    indented = [
        f"{page.name}:{number}"
        for page in PAGES
        for number, line in enumerate(page.read_text().splitlines(), start=1)
        if line.startswith(" ") and line.lstrip().startswith("```")
    ]
    assert indented == []


def test_blocks_that_are_not_run_are_those_that_cannot_be() -> None:
    reasons = Counter(block.reason for page in PAGES for block in blocks(page) if block.reason)
    assert reasons == NOT_RUN


@pytest.mark.parametrize("page", parameters())
def test_snippets_of_a_page_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FITZROY_DEBUG", raising=False)
    if page in COMPLETE:
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    session = Session(capsys, (lambda said: None) if page in COMPLETE else give)
    plug(monkeypatch, 3 if "usb:1-2" in page.read_text() else 1)
    original = shown = page.read_text()
    for block in blocks(page):
        now = session.run(block)
        if now != block.text:
            shown = shown.replace(block.text, now, 1)
    if pytestconfig.getoption("--renew"):
        page.write_text(shown)
    assert shown == original


def plug(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Plug virtual accelerators into this machine's USB, in place of what is there."""
    backend = VirtualBackend([VirtualDevice(booted=True) for _ in range(count)])
    monkeypatch.setattr(libusb, "open_backend", lambda: backend)
    monkeypatch.setattr(libusb, "name_of", lambda found: "virtual devices")
    # No other process can reach them.
    monkeypatch.setattr(usb, "Ownership", lambda: None)

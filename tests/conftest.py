from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.sharing import sharing_in

# Examples fail by what they show, not by the time that they take.
settings.register_profile("fitzroy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fitzroy")


# A shell that starts tests in the background lets them ignore interrupts, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run slow tests too, and all samples in full"
    )
    parser.addoption(
        "--renew", action="store_true", help="write texts that golden cases expect again"
    )
    parser.addoption(
        "--device",
        metavar="NAME",
        default="sim",
        help="run the tests that any accelerator passes on this one: usb, or usb:PATH",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    # Not skipped: to tell about every one of thousands takes the time of hundreds of others.
    slow = [item for item in items if "slow" in item.keywords]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if "slow" not in item.keywords]


@pytest.fixture(scope="session")
def session_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the processes of a session share, and no other session."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(autouse=True)
def _sharing(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[None]:
    # What a test makes with parts replaced is of no use to others, nor theirs to it.
    replaces = "monkeypatch" in request.fixturenames
    with sharing_in(None if replaces else session_folder):
        yield


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether --full was given."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def device_name(pytestconfig: pytest.Config) -> str:
    """Name of the accelerator for tests that any one passes."""
    return str(pytestconfig.getoption("--device"))

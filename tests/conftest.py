from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="run slow tests too, and all samples in full"
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
    skip = pytest.mark.skip(reason="slow (run with --full)")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether --full was given."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def device_name(pytestconfig: pytest.Config) -> str:
    """Name of the accelerator for tests that any one passes."""
    return str(pytestconfig.getoption("--device"))

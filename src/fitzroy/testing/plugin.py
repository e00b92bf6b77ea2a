"""A plugin of pytest: the fixture ``edgetpu``, and test files as tests.

pytest finds it by its entry point. It imports little: what it needs is imported by the first test
that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fitzroy.testing.harness import Harness

SUFFIX = ".edgetpu.toml"
"""How names of test files end that pytest collects."""

_OPTIONS = {
    "device": "where compiled models run: sim:direct, sim, usb, usb:PATH, twin or replay:FILE",
    "record": "file that takes down everything that is said on USB, for replay:FILE",
    "clock": "performance level of the chip: max, high, medium or low",
    "host": "host of predicted times: a name, or a file that fitzroy calibrate-host wrote",
    "driver": "driver of predicted times: libedgetpu or fitzroy",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options and settings of the same names."""
    group = parser.getgroup("edgetpu", "compiled Edge TPU models (FitzRoy)")
    for name, text in _OPTIONS.items():
        group.addoption(f"--edgetpu-{name}", metavar=name.upper(), default=None, help=text)
        parser.addini(f"edgetpu_{name}", text)


def _chosen(config: pytest.Config, name: str) -> str | None:
    """What an option says, or the setting of the same name."""
    value = config.getoption(f"--edgetpu-{name}") or config.getini(f"edgetpu_{name}")
    return str(value) if value else None


@pytest.fixture(scope="session")
def edgetpu_session(pytestconfig: pytest.Config) -> Iterator[Harness]:
    """The device of a session, which is opened by the first test that runs a model."""
    with _harness(pytestconfig) as harness:
        yield harness


@pytest.fixture
def edgetpu(edgetpu_session: Harness) -> Harness:
    """Compiled models on a device: ``edgetpu.load(model)``, ``edgetpu.check(spec)``."""
    return edgetpu_session


def _harness(config: pytest.Config) -> Harness:
    from fitzroy.driver.device.bringup import Clocks
    from fitzroy.driver.runtime.devices import DeviceOptions
    from fitzroy.execution.estimate import CLOCK, HOST, Conditions
    from fitzroy.hw_models.chips.hosts import LIBEDGETPU
    from fitzroy.testing.harness import Harness

    conditions = Conditions(
        _chosen(config, "clock") or CLOCK,
        _chosen(config, "host") or HOST,
        _chosen(config, "driver") or LIBEDGETPU,
    )
    conditions.check()
    options = DeviceOptions(
        clocks=Clocks[conditions.clock.upper()], record=_chosen(config, "record")
    )
    return Harness(_chosen(config, "device"), options, conditions)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A test file is a test."""
    if not file_path.name.endswith(SUFFIX):
        return None
    found: pytest.Collector = SpecFile.from_parent(parent, path=file_path)
    return found


class SpecFile(pytest.File):
    """A test file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Its only test."""
        yield SpecItem.from_parent(self, name=self.path.name.removesuffix(SUFFIX))


class SpecItem(pytest.Item):
    """All that a test file asks."""

    def runtest(self) -> None:
        """Check it."""
        with _harness(self.config) as harness:
            harness.check(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What did not hold, without a traceback through this program."""
        from fitzroy.base.errors import FitzroyError

        if isinstance(excinfo.value, FitzroyError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is."""
        return self.path, None, f"{self.path.name}"

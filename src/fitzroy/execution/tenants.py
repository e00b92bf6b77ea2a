"""Several models that take turns on one chip: who waits how long, and what changing models costs.

A chip keeps the parameters of the model that ran last. Another one's are loaded before it runs,
unless both were compiled together and share the memory. Requests are taken to come at random times,
independent of each other, and wait in one queue (the formula of Pollaczek and Khinchine).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fitzroy.execution import whole
from fitzroy.execution.estimate import Conditions, recorded, timed
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.darwinn import PackageFile

_US = 1e-6


@dataclass(frozen=True, slots=True)
class Tenant:
    """A model with requests.

    Attributes:
        name: its file.
        rate: requests a second.
        seconds: of an inference whose parameters are on the chip.
        loading: seconds that loading its parameters takes.
        cached: bytes of parameters that it keeps on the chip.
        streamed: bytes of parameters that come with every inference.
        tokens: what its packages share the memory by; models with one token keep theirs side by
            side.
    """

    name: str
    rate: float
    seconds: float
    loading: float
    cached: int = 0
    streamed: int = 0
    tokens: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A way to serve tenants.

    Attributes:
        name: what it is called.
        tenants: the tenants, in their order.
        busy: share of the time that the chip and its link are busy; above 1, requests pile up.
        loads: times a second that parameters are loaded.
        latency: seconds from a request to its answer in the mean, for each tenant; infinite if
            requests pile up.
        cycle: seconds of a round, if the tenants are served in turns.
    """

    name: str
    tenants: tuple[Tenant, ...]
    busy: float
    loads: float
    latency: tuple[float, ...]
    cycle: float | None = None

    @property
    def mean_latency(self) -> float:
        """Seconds from a request to its answer, in the mean of all requests."""
        requests = sum(item.rate for item in self.tenants)
        shares = zip(self.tenants, self.latency, strict=True)
        return sum(item.rate * seconds for item, seconds in shares) / requests


def tenant(data: bytes, path: str, rate: float, conditions: Conditions) -> Tenant:
    """A compiled model with requests.

    Args:
        data: the model.
        path: its file.
        rate: requests a second.
        conditions: clock, host and driver.

    Raises:
        UsageError: as `fitzroy.execution.whole.predict`.
        FormatError: as `fitzroy.execution.whole.predict`.
        SimulationError: as `fitzroy.execution.whole.predict`.
    """
    found = whole.predict(data, path, conditions)
    packages = [item.read() for item in custom_op.extract(tflite.read_model(data, path), path)]
    return Tenant(
        path,
        rate,
        _US * found.total,
        _US * sum(_loading(package, path, conditions) for package in packages),
        sum(run.cached for run in found.runs),
        sum(run.streamed for run in found.runs),
        frozenset(package.main.parameter_caching_token for package in packages),
    )


def _loading(package: PackageFile, path: str, conditions: Conditions) -> float:
    """Microseconds that loading the parameters of a package takes."""
    caching = package.caching
    if caching is None:
        return 0.0
    return timed([recorded(caching)], path, {}, conditions).timeline.total


def share(tenants: Sequence[Tenant]) -> bool:
    """Whether tenants keep their parameters side by side, because they were compiled together."""
    tokens = {item.tokens for item in tenants if item.cached}
    return len(tokens) <= 1


def together(tenants: Sequence[Tenant], name: str = "compiled together") -> Arrangement:
    """Requests in the order in which they come; parameters stay."""
    return _queued(name, tenants, lambda item: (item.seconds, 0.0))


def as_they_come(tenants: Sequence[Tenant]) -> Arrangement:
    """Requests in the order in which they come; a model loads its parameters after another one."""
    requests = sum(item.rate for item in tenants)
    return _queued("as they come", tenants, lambda item: (item.seconds, 1 - item.rate / requests))


def _queued(
    name: str, tenants: Sequence[Tenant], work: Callable[[Tenant], tuple[float, float]]
) -> Arrangement:
    """One queue; `work` gives the seconds of an inference, and how likely it loads first."""
    busy = loads = square = 0.0
    services = []
    for item in tenants:
        seconds, likely = work(item)
        services.append(seconds + likely * item.loading)
        busy += item.rate * services[-1]
        loads += item.rate * likely * (item.cached > 0)
        with_load = (seconds + item.loading) ** 2
        square += item.rate * ((1 - likely) * seconds**2 + likely * with_load)
    waiting = square / (2 * (1 - busy)) if busy < 1 else math.inf
    latency = tuple(waiting + seconds for seconds in services)
    return Arrangement(name, tuple(tenants), busy, loads, latency)


def in_turns(tenants: Sequence[Tenant]) -> Arrangement:
    """Each model in turn answers all of its requests that wait; it loads parameters once a round.

    The shortest round in which that is possible. A request waits for half a round in the mean.
    """
    computing = sum(item.rate * item.seconds for item in tenants)
    loading = sum(item.loading for item in tenants)
    cycle = loading / (1 - computing) if computing < 1 else math.inf
    latency = tuple(cycle / 2 + item.loading + item.seconds for item in tenants)
    count = sum(item.cached > 0 for item in tenants)
    return Arrangement(
        "in turns",
        tuple(tenants),
        1.0 if cycle and math.isfinite(cycle) else computing,
        count / cycle if cycle else 0.0,
        latency,
        cycle,
    )


def best(arrangements: Sequence[Arrangement]) -> Arrangement | None:
    """That with the least latency of all requests; None if requests pile up in all."""
    found = min(arrangements, key=lambda item: item.mean_latency)
    return found if math.isfinite(found.mean_latency) else None

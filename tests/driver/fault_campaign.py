"""Sessions with several faults, malicious devices, reset storms and rivals, at random.

``python -m tests.driver.fault_campaign --sessions 10000 --seed 1`` plays them and prints tables;
``--first N --sessions 1`` plays one of them again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any

from tests.driver.fault_sessions import Bench, Ending, Verdict, Work, guarded
from tests.driver.hostile_device import ENDPOINTS, HostileDevice, Lie
from tests.driver.simulated_clock import SharedClock, SimulatedClock

from fitzroy.base.errors import DeviceError
from fitzroy.driver.runtime.edgetpu import EdgeTpu
from fitzroy.hw_models.chips.usb import Speed
from fitzroy.hw_models.csr import beagle as csr
from fitzroy.hw_models.csr.fields import HibError
from fitzroy.hw_models.usb_device.faults import Fault, FaultKind

MOST_FAULTS = 5

PHASES = ("boot", "open", "load", "infer", "close")
"""What a host does, as `CountedDevice.trace` names it."""

_FRESH = (Work.CACHED, Work.ECHO)
"""What a fresh session runs in the end."""

_OUT, _OUTPUT = ENDPOINTS[1], 0x81
_OPENING = (csr.SCU_CTRL_0, csr.SCU_CTRL_2, csr.SCU_CTRL_3, csr.TILECONFIG0, csr.OMC0_D8)
"""Registers that every opening of the chip accesses, from its first step to its last."""

_ERRORS = tuple(spec.name for spec in HibError.fields())


class Rivalry(Enum):
    """What two processes do with one device; the value is the row of the table."""

    INTRUDES = "the second one comes while the first one runs"
    INTRUDER_DIES = "the second one comes, and dies"
    DIES = "the first one dies, the second one goes on"
    WAITS = "the second one is refused until the first one dies"
    TURNS = "they take turns"


class DiedError(BaseException):
    """The process ends where it is."""


@dataclass(frozen=True)
class Case:
    """A session to be played.

    Attributes:
        number: its number in the campaign.
        rows: table and row of everything that it belongs to.
        faults: what goes wrong.
        works: what is run.
        booted: whether the device has its firmware.
        multiple: whether the firmware that it is given has several endpoints.
        speed: of the connection.
        timeout: deadline of requests, None for that of the limits.
        background: whether requests are submitted instead of run.
        lie: what the device does.
        first: first transfer of the lie.
        rivalry: what the other process does.
        moments: transfers at which it does so.
        turns: how often a host opens the device, runs everything, and closes it.
    """

    number: int
    rows: tuple[tuple[str, str], ...]
    faults: tuple[Fault, ...] = ()
    works: tuple[Work, ...] = (Work.CACHED, Work.ECHO)
    booted: bool = False
    multiple: bool = False
    speed: Speed = Speed.SUPER
    timeout: float | None = None
    background: bool = False
    lie: Lie | None = None
    first: int = 1
    rivalry: Rivalry | None = None
    moments: tuple[int, int] = (1, 1)
    turns: int = 1

    @property
    def verify(self) -> bool:
        """Bytes that are damaged where no checksum looks are only noticed by repetition."""
        return any(fault.kind is FaultKind.CORRUPT for fault in self.faults)


# --- what is played ------------------------------------------------------------------------------


@cache
def trace(works: tuple[Work, ...], booted: bool) -> tuple[str, ...]:
    """Phase of every transfer of a session in which nothing goes wrong."""
    case = Case(0, (), works=works, booted=booted)
    bench, verdict = _bench(case), Verdict()
    _turn(bench, bench.host(), case, verdict)
    assert verdict.ending is Ending.UNNOTICED
    return tuple(bench.device.trace)


def make(seed: int, number: int) -> Case:
    """A session of a campaign."""
    rng = random.Random(f"{seed}:{number}")
    booted = rng.random() < 0.4
    works = tuple(rng.choices(tuple(Work), weights=(2, 3, 2), k=rng.randint(2, 3)))
    case = Case(
        number,
        (),
        works=works,
        booted=booted,
        multiple=rng.random() < 0.2,
        speed=rng.choice((Speed.HIGH, Speed.SUPER, Speed.SUPER)),
        timeout=rng.choice((None, None, None, 10 ** rng.uniform(-2.5, -0.5))),
    )
    kinds = (_combined, _hostile, _storm, _rivals)
    (kind,) = rng.choices(kinds, weights=(50, 25, 12, 13))
    # Rivals act between two transfers of one thread.
    background = kind is not _rivals and rng.random() < 0.1
    return kind(replace(case, background=background), rng)


def _combined(case: Case, rng: random.Random) -> Case:
    count = rng.randint(2, MOST_FAULTS)
    faults = _faults(case, rng, count)
    rows = [("Faults in a session", str(count))]
    rows += [("Kinds of faults", kind.value) for kind in {fault.kind for fault in faults}]
    return replace(case, faults=faults, rows=tuple(rows))


def _hostile(case: Case, rng: random.Random) -> Case:
    lie = rng.choice(tuple(Lie))
    faults = _faults(case, rng, rng.choice((0, 0, 1, 2)))
    first = rng.choice((1, 1, _place(case, rng)))
    return replace(
        case, lie=lie, first=first, faults=faults, rows=(("Malicious devices", lie.value),)
    )


def _storm(case: Case, rng: random.Random) -> Case:
    """The device is unplugged and comes back, again and again in the same phase."""
    phase = rng.choice(PHASES[:4])
    count, first, step = rng.randint(2, 20), rng.randint(1, 3), rng.randint(1, 2)
    seconds = rng.choice((0.0, 0.01, 0.05, 0.2))
    places: dict[str, dict[str, Any]] = {
        "boot": {},
        "open": {"register": rng.choice(_OPENING).address},
        "load": {"endpoint": _OUT},
        "infer": {"endpoint": _OUTPUT},
    }
    if phase == "boot":
        first, step = rng.randint(1, 100), rng.randint(1, 60)
    if phase == "load":
        case = replace(case, works=(Work.CACHED, *case.works[1:]))
        first, step = rng.randint(1, 4), rng.randint(1, 4)
    faults = tuple(
        Fault(FaultKind.REPLUG, first + n * step, seconds=seconds, **places[phase])
        for n in range(count)
    )
    return replace(case, faults=faults, rows=(("Reset storms", phase),))


def _rivals(case: Case, rng: random.Random) -> Case:
    rivalry = rng.choice(tuple(Rivalry))
    one, other = _place(case, rng), _place(case, rng)
    moments = (one, rng.randint(1, 300)) if rivalry is Rivalry.INTRUDER_DIES else (one, other)
    return replace(
        case,
        rivalry=rivalry,
        moments=moments,
        faults=_faults(case, rng, rng.choice((0, 0, 1, 2))),
        rows=(("Two processes", rivalry.value),),
    )


def _place(case: Case, rng: random.Random) -> int:
    """Number of a transfer, of all phases alike."""
    phases = trace(case.works, case.booted)
    phase = rng.choice([phase for phase in PHASES if phase in phases])
    return rng.choice([n for n, name in enumerate(phases, start=1) if name == phase])


def _faults(case: Case, rng: random.Random, count: int) -> tuple[Fault, ...]:
    """Faults anywhere, some of them shortly after another one: while the driver recovers."""
    faults: list[Fault] = []
    for _ in range(count):
        endpoint = None
        if faults and rng.random() < 0.4:
            at = faults[-1].transfer + rng.randint(1, 40)
            endpoint = faults[-1].endpoint
        elif rng.random() < 0.7:
            at = _place(case, rng)
        else:
            at, endpoint = rng.randint(1, 12), rng.choice(ENDPOINTS)
        faults.append(
            Fault(
                rng.choice(tuple(FaultKind)),
                at,
                endpoint=endpoint,
                length=rng.randrange(24),
                # Never what another fault does as well: two results would agree on it.
                data=rng.randbytes(rng.choice((4, 8, 64))),
                seconds=rng.choice((0.0, 0.01, 0.1, 0.25, 0.5)),
                error=rng.choice(_ERRORS),
                celsius=rng.choice((25.0, 90.0, 120.0, 200.0)),
            )
        )
    return tuple(faults)


# --- how it is played ----------------------------------------------------------------------------


def play(case: Case, seed: int = 1) -> Verdict:
    """Play a session, and a fresh one afterwards with the same device and nothing going wrong."""

    def run(verdict: Verdict) -> None:
        bench = _bench(case, f"{seed}:{case.number}")
        device = bench.device
        try:
            if case.rivalry is not None:
                _RIVALRIES[case.rivalry](bench, case, verdict)
            else:
                for _ in range(case.turns):
                    _turn(bench, _host(bench, case), case, verdict)
        finally:
            verdict.lost = not device.connected
            verdict.transfers = len(device.trace)
        device.heal()
        fresh = Verdict()
        with bench.host() as host:
            bench.run(host, _FRESH, fresh)
        if fresh.right != len(_FRESH):
            verdict.bad.append((Ending.UNUSABLE, ", ".join(fresh.errors)))
        verdict.bad += fresh.bad

    return guarded(run)


def _bench(case: Case, seed: str = "") -> Bench:
    clock = SharedClock() if case.background else SimulatedClock()
    lies = case.lie, case.first
    device = HostileDevice(clock, case.faults, lies, seed, booted=case.booted, speed=case.speed)
    return Bench(device, clock)


def _host(bench: Bench, case: Case) -> EdgeTpu:
    return bench.host(verify=case.verify, multiple=case.multiple)


def _turn(bench: Bench, host: EdgeTpu, case: Case, verdict: Verdict) -> None:
    """Open, run what is to be run, and close."""
    bench.device.phase = "open"
    with bench.timed("opening", verdict):
        try:
            host.open()
        except DeviceError as error:
            # The first request tries again.
            verdict.errors.append(type(error).__name__)
    if case.background:
        bench.submit(host, case.works, verdict, case.timeout)
    else:
        bench.run(host, case.works, verdict, case.timeout)
    # A process that dies before does not get here.
    bench.device.phase = "close"
    with bench.timed("closing", verdict):
        host.close()
    verdict.refused |= bool(verdict.errors) and not host.connection.sessions
    verdict.recoveries += host.recoveries


def _intrusion(bench: Bench, case: Case, verdict: Verdict) -> Callable[[], None]:
    """All of another process, in the middle of a transfer of the first one."""

    def intrude() -> None:
        phase = bench.device.phase
        _turn(bench, _host(bench, case), case, verdict)
        bench.device.phase = phase

    return intrude


def _die() -> None:
    raise DiedError


def _mortal(bench: Bench, host: EdgeTpu, case: Case, verdict: Verdict) -> None:
    """A turn of a process that may die; the system closes what it has open."""
    try:
        _turn(bench, host, case, verdict)
    except DiedError:
        host.connection.drop()
    bench.device.hooks.clear()


def _intruded(bench: Bench, case: Case, verdict: Verdict) -> None:
    bench.device.hooks[case.moments[0]] = _intrusion(bench, case, verdict)
    _turn(bench, _host(bench, case), case, verdict)


def _intruder_dies(bench: Bench, case: Case, verdict: Verdict) -> None:
    def intrude() -> None:
        device = bench.device
        last = len(device.trace) + case.moments[1]
        device.hooks[last] = _die
        _mortal(bench, _host(bench, case), case, Verdict())

    bench.device.hooks[case.moments[0]] = intrude
    _turn(bench, _host(bench, case), case, verdict)


def _dies(bench: Bench, case: Case, verdict: Verdict) -> None:
    bench.device.hooks[case.moments[0]] = _die
    _mortal(bench, _host(bench, case), case, verdict)
    _turn(bench, _host(bench, case), case, verdict)


def _waits(bench: Bench, case: Case, verdict: Verdict) -> None:
    first, last = sorted(case.moments)
    second = _host(bench, case)

    def ask() -> None:
        bench.device.hooks[max(last, len(bench.device.trace)) + 1] = _die
        try:
            second.open()
        except DeviceError as error:
            verdict.errors.append(type(error).__name__)

    bench.device.hooks[first] = ask
    _mortal(bench, _host(bench, case), case, verdict)
    _turn(bench, second, case, verdict)


def _turns(bench: Bench, case: Case, verdict: Verdict) -> None:
    for work in case.works:
        for _ in range(2):
            one = replace(case, works=(work,))
            _turn(bench, _host(bench, case), one, verdict)


_RIVALRIES: dict[Rivalry, Callable[[Bench, Case, Verdict], None]] = {
    Rivalry.INTRUDES: _intruded,
    Rivalry.INTRUDER_DIES: _intruder_dies,
    Rivalry.DIES: _dies,
    Rivalry.WAITS: _waits,
    Rivalry.TURNS: _turns,
}


# --- one fault at every transfer -----------------------------------------------------------------


def single(kind: FaultKind, transfer: int, *, background: bool = False) -> Verdict:
    """Boot, open, infer, close, and the same with what is booted, with one fault."""
    fault = Fault(kind, transfer, length=3, seconds=0.05, celsius=120.0)
    return play(replace(_SINGLE, faults=(fault,), background=background))


@cache
def transfers() -> list[int]:
    """Endpoints of the transfers of `single` without a fault."""
    bench = _bench(_SINGLE)
    for _ in range(_SINGLE.turns):
        _turn(bench, bench.host(), _SINGLE, Verdict())
    return bench.device.endpoints


_SINGLE = Case(0, (), works=(Work.ECHO,) * 4, turns=2)


# --- tables --------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What came of the sessions of a campaign.

    Attributes:
        rows: endings by table and row.
        errors: kinds of errors by table.
        failures: sessions that ended as none may.
    """

    rows: dict[tuple[str, str], Counter[Ending]] = field(default_factory=dict)
    errors: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    transfers: int = 0
    latest: float = 0.0

    def add(self, case: Case, verdict: Verdict) -> None:
        """Count a session."""
        for row in case.rows:
            self.rows.setdefault(row, Counter())[verdict.ending] += 1
        self.errors.setdefault(case.rows[0][0], Counter()).update(verdict.errors)
        self.transfers += verdict.transfers
        self.latest = max(self.latest, verdict.latest)
        self.failures += [f"{case.number}: {end.value}: {text}" for end, text in verdict.bad]

    def as_json(self) -> dict[str, Any]:
        """For `benchmarks/results`."""
        order = sorted(self.rows, key=lambda row: (TABLES.index(row[0]), row[1]))
        return {
            "rows": [
                {
                    "table": table,
                    "row": row,
                    "endings": {end.value: self.rows[table, row][end] for end in Ending},
                }
                for table, row in order
            ],
            "errors": {name: dict(sorted(self.errors[name].items())) for name in self.errors},
            "transfers": self.transfers,
            "latest_seconds": round(self.latest, 3),
            "failures": self.failures,
        }


_ONE = "One fault in a session"

TABLES = (
    _ONE,
    "Faults in a session",
    "Kinds of faults",
    "Malicious devices",
    "Reset storms",
    "Two processes",
)
"""Tables in their order; a session with several kinds of faults is in several rows of one."""


def campaign(
    sessions: int, seed: int, first: int = 0, progress: Callable[[int], None] = lambda _: None
) -> Tally:
    """Play the sessions of a campaign.

    Args:
        sessions: how many.
        seed: of the campaign.
        first: number of the first one.
        progress: called with the number of each.
    """
    tally = Tally()
    for number in range(first, first + sessions):
        progress(number)
        case = make(seed, number)
        tally.add(case, play(case, seed))
    return tally


def singles(step: int = 1) -> Tally:
    """Play the sessions with one fault, at every `step`-th transfer."""
    tally = Tally()
    for kind in FaultKind:
        for transfer in range(1, len(transfers()) + 1, step):
            tally.add(Case(transfer, ((_ONE, kind.value),)), single(kind, transfer))
    return tally


def tables(results: Mapping[str, Any]) -> str:
    """The tables of `Tally.as_json`, as Markdown."""
    text = ""
    for table in TABLES:
        rows = [row for row in results["rows"] if row["table"] == table]
        if not rows:
            continue
        text += f"### {table}\n\n"
        text += _line("", "sessions", *(end.value for end in Ending))
        text += _line(*["---"] * (len(Ending) + 2))
        for row in rows:
            endings = row["endings"]
            text += _line(row["row"], sum(endings.values()), *endings.values())
        errors = results["errors"].get(table)
        if errors:
            kinds = ", ".join(f"`{name}` {count}" for name, count in errors.items())
            text += f"\nErrors: {kinds}.\n"
        text += "\n"
    return text


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.driver.fault_campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first session")
    parser.add_argument(
        "--single", type=int, metavar="N", help="one fault instead, at every N-th transfer"
    )
    options = parser.parse_args()
    began = time.monotonic()
    if options.single:
        tally = singles(options.single)
    else:
        tally = campaign(options.sessions, options.seed, options.first)
    print(tables(tally.as_json()), end="")
    print(
        f"{tally.transfers} transfers; nothing ended more than {tally.latest:.2f} s of simulated "
        f"time after its deadline; {time.monotonic() - began:.0f} s"
    )
    for failure in tally.failures:
        print(failure, file=sys.stderr)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""``usbip serve`` as a process, and ``usbip list``."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.support import Run
from tests.driver.edgetpu_programs import SIZE, echo
from tests.hw_models.test_usbip import COUNTING, FIRMWARE, RUNTIME, Echo, payloads, serving
from tests.hw_models.usbip_client import Coral, listing

from fitzroy.cli.usbip import _stopped_by_signals
from fitzroy.hw_models.chips.usb import Speed


class Process:
    """A server in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def document(self) -> Any:
        return json.loads(self.line())

    def stop(self, number: signal.Signals) -> tuple[int, str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


@contextmanager
def started(*arguments: str, cwd: Path | None = None) -> Iterator[Process]:
    command = [sys.executable, "-m", "fitzroy", "usbip", "serve", "--port", "0", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=cwd) as process:
        try:
            yield Process(process)
        finally:
            process.kill()


@pytest.mark.parametrize("arguments", [["usbip"], ["usbip", "serve"], ["usbip", "list"]], ids=str)
def test_help(fitzroy: Run, arguments: list[str]) -> None:
    result = fitzroy(*arguments, "--help")
    assert result.code == 0
    assert max(map(len, result.out.splitlines())) <= 80
    if arguments == ["usbip"]:
        assert fitzroy(*arguments).out.rstrip() == result.out.rstrip()
        assert "serve" in result.out
    else:
        assert f"fitzroy {' '.join(arguments)}" in result.out.partition("Examples")[2]
    if "serve" in arguments:
        assert "usbip attach" in result.out
        assert "no encryption" in result.out


@pytest.mark.long
def test_a_process_that_serves() -> None:
    with started("--json", "--speed", "high", "--seed", "5", "--devices", "2") as server:
        first = server.document()
        assert first["listening"]["host"] == "127.0.0.1"
        port = first["listening"]["port"]
        assert [device["busid"] for device in first["devices"]] == ["1-1", "1-2"]
        assert {device["id"] for device in first["devices"]} == {"1a6e:089a"}
        assert {device["speed"] for device in first["devices"]} == {"high speed"}
        with Coral(port, "1-2") as client:
            client.enumerate()
            client.download(FIRMWARE)
            assert client.enumerate() == RUNTIME
            client.open()
            program = payloads(echo().main, COUNTING.tobytes())
            assert client.run(program, SIZE) == COUNTING.tobytes()
            events = [server.document() for _ in range(4)]
            kinds = [event["event"] for event in events]
            assert kinds == ["import", "download", "boot", "program"]
            assert {event["busid"] for event in events} == {"1-2"}
            assert events[1]["bytes"] == len(FIRMWARE)
            assert (events[2]["vendor"], events[2]["product"]) == RUNTIME
            assert events[3]["sent"] == sum(8 + len(payload) for _, payload in program)
            code, out, err = server.stop(signal.SIGTERM)
    assert code == 0
    [last] = [json.loads(line) for line in out.splitlines()]
    assert (last["event"], last["text"]) == ("release", "the server stops")
    assert err.splitlines()[-1] == "stopped"


@pytest.mark.long
def test_text_and_interruption(tmp_path: Path) -> None:
    faults = [{"at": {"transfer": 1}, "do": "replug", "seconds": 0.0}]
    (tmp_path / "faults.json").write_text(json.dumps(faults))
    options = ("--booted", "--fresh", "--faults", "faults.json", "--host", "127.0.0.1")
    with started(*options, cwd=tmp_path) as server:
        assert server.line().split() == ["bus", "id", "device", "speed"]
        assert server.line().split() == ["1-1", "18d1:9302", "super", "speed"]
        port = int(server.line().rpartition(" ")[2])
        with Coral(port) as client:
            client.submit(0, room=18, setup=bytes.fromhex("8006000100001200"), inward=True)
            assert client.ended()
        assert "1-1 import: by 127.0.0.1:" in server.line()
        lines = [server.line()]
        while "release" not in lines[-1]:
            lines.append(server.line())
        assert "1-1 release: the device was unplugged" in lines[-1]
        # With --fresh, the next client finds a device that was just plugged in.
        (device,) = listing(port)
        assert (device.vendor, device.product) == RUNTIME
        code, _, err = server.stop(signal.SIGINT)
    assert code == 0
    assert f"usbip --tcp-port {port} attach -r HOST -b 1-1" in err


@pytest.mark.long
def test_other_interfaces_come_with_a_warning() -> None:
    with started("--host", "0.0.0.0", "-q") as server:
        for _ in range(3):
            server.line()
        code, _, err = server.stop(signal.SIGTERM)
    assert code == 0
    assert err.startswith("warning: whoever reaches port ")
    assert "no encryption" in err


@pytest.mark.long
def test_a_reader_that_goes_away() -> None:
    with started() as server:
        for _ in range(2):
            server.line()
        port = int(server.line().rpartition(" ")[2])
        assert server.process.stdout is not None
        server.process.stdout.close()
        with Coral(port) as client:
            client.ended()
        assert server.process.wait(20) == 141


def test_the_list(fitzroy: Run) -> None:
    with serving(Echo(), Echo(Speed.HIGH, booted=True)) as served:
        text = fitzroy("usbip", "list", "127.0.0.1", "--port", served.port)
        assert text.code == 0
        rows = [line.split() for line in text.out.splitlines()]
        assert rows[1:] == [
            ["1-1", "1a6e:089a", "super", "speed"],
            ["1-2", "18d1:9302", "high", "speed"],
        ]
        document = fitzroy("usbip", "list", "-p", served.port, "--json").json
        assert [device["id"] for device in document["devices"]] == ["1a6e:089a", "18d1:9302"]
    with serving() as served:
        assert "no device is free" in fitzroy("usbip", "list", "-p", served.port).out


def test_no_server(fitzroy: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        odd = fitzroy("usbip", "list", "-p", port)
        thread.join()
    assert odd.code == 3
    refused = fitzroy("usbip", "list", "-p", port)
    assert refused.code == 7
    assert "fitzroy usbip serve" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (["--host", "192.0.2.1"], 2, "cannot listen"),
        (["--devices", "0"], 2, "--devices"),
        (["--port", "65536"], 2, "--port"),
        (["--speed", "full"], 2, "--speed"),
        (["--seed", "-1"], 2, "--seed"),
        (["--faults", "missing.json"], 2, "no such file"),
        (["--faults", "bad.json"], 3, "not JSON"),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_mistakes(fitzroy: Run, arguments: list[str], code: int, what: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    result = fitzroy("usbip", "serve", *arguments)
    assert (result.code, result.out) == (code, "")
    assert what in result.err


def test_a_port_in_use(fitzroy: Run) -> None:
    with serving() as served:
        result = fitzroy("usbip", "serve", "--port", served.port)
        assert (result.code, result.out) == (2, "")
        assert "Address already in use" in result.err
        assert "--port 0" in result.err
        document = fitzroy("usbip", "serve", "--port", served.port, "--json").json
        assert document["error"]["exit_code"] == 2


def test_a_second_signal_is_not_waited_for() -> None:
    stops: list[int] = []
    with _stopped_by_signals(lambda: stops.append(1)):
        signal.raise_signal(signal.SIGINT)
        assert stops == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stops == [1]

"""``fitzroy explore``."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.cli.support import Run

from fitzroy.cli.explore import handler


@pytest.mark.long
def test_pages_of_sources_and_of_compiled_models(
    fitzroy: Run, digits: Path, tmp_path: Path
) -> None:
    assert fitzroy("explore", digits, "-o", "a.html").code == 0
    source = (tmp_path / "a.html").read_text("utf-8")
    assert fitzroy("compile", digits, "-o", "m_edgetpu.tflite").code == 0
    assert fitzroy("explore", "m_edgetpu.tflite", "--package", 0, "-o", "b.html").code == 0
    compiled = (tmp_path / "b.html").read_text("utf-8")
    for text in (source, compiled):
        assert "global average mean" in text
        assert "://" not in text
    assert "Edge TPU program 0" in compiled


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["missing.tflite", "-o", "x.html"], "missing.tflite"),
        (["{digits}", "-o", "no/such/x.html"], "no/such"),
        (["{digits}", "--package", "7", "-o", "x.html"], "there is no package 7"),
        (["{digits}", "--clock", "warp", "-o", "x.html"], "warp"),
    ],
)
def test_mistakes(fitzroy: Run, digits: Path, arguments: list[str], what: str) -> None:
    result = fitzroy("explore", *(item.format(digits=digits) for item in arguments))
    assert result.code == 2
    assert what in result.err


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(b"a page")) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def asked(port: int, path: str, host: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_page_is_for_this_machine_only(port: int) -> None:
    assert asked(port, "/", f"127.0.0.1:{port}") == (200, b"a page")
    assert asked(port, "/", f"localhost:{port}") == (200, b"a page")
    assert asked(port, "/", f"evil.example:{port}")[0] == 403
    assert asked(port, "/etc/passwd", f"127.0.0.1:{port}")[0] == 404

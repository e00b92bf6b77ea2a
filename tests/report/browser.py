"""A headless browser for tests, by the WebDriver protocol; it has no network."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


class Browser:
    """A session of a browser."""

    def __init__(self, url: str) -> None:
        self._url = url

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A command of the protocol."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._url + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        """Open a file."""
        self.call("POST", "/url", {"url": path.as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        """What a script returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def devtools(self, command: str, **params: Any) -> Any:
        """A command of the developer tools."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def size(self, width: int, height: int, *, dark: bool = False, scale: float = 1) -> None:
        """Set the size of the window and the colour scheme."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", media="", features=[scheme])

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of the window, or of the whole page."""
        shot = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def mouse(self, kind: str, x: float, y: float, **params: Any) -> None:
        """Send an event of the mouse."""
        self.devtools("Input.dispatchMouseEvent", type=kind, x=x, y=y, **params)

    def key(self, key: str) -> None:
        """Press and release a key that gives a character."""
        self.devtools("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.devtools("Input.dispatchKeyEvent", type="keyUp", key=key)

    def log(self) -> list[dict[str, Any]]:
        """Messages of the console since the last time."""
        found: list[dict[str, Any]] = self.call("POST", "/se/log", {"type": "browser"})
        return found


def installed() -> tuple[str, str] | None:
    """Paths of the browser and its driver, if they are installed."""
    browser = next((path for path in map(shutil.which, _CHROMIUM) if path), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser; skips the test if none is installed."""
    paths = installed()
    if paths is None:
        pytest.skip("chromium and chromedriver are not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as profile:
        process = subprocess.Popen(
            [paths[1], f"--port={port}", "--silent"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            session = _session(f"http://127.0.0.1:{port}", paths[0], profile)
            try:
                yield session
            finally:
                session.call("DELETE", "")
        finally:
            process.terminate()
            process.wait(timeout=30)


def _session(url: str, path: str, profile: str) -> Browser:
    driver = Browser(url)
    deadline = time.monotonic() + 30
    while True:
        try:
            if driver.call("GET", "/status")["ready"]:
                break
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    options = {"binary": path, "args": [*_SWITCHES, f"--user-data-dir={profile}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    answer = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
    return Browser(f"{url}/session/{answer['sessionId']}")

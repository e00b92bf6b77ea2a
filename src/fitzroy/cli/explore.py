"""``fitzroy explore``: graph, layers, instructions, memory and time of a model on one page."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from fitzroy.base.errors import UsageError
from fitzroy.base.files import text_bytes
from fitzroy.cli.files import check_output, write_file
from fitzroy.cli.help import PackageNumber, Quiet, SourceFile, Verb
from fitzroy.cli.models import Importing
from fitzroy.cli.terminal import Terminal
from fitzroy.cli.timing import Assumed

_ADDRESS = "127.0.0.1"
"""The page is for this machine: nothing else can reach it."""


def explore(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A quantized model, which is compiled for the Edge TPU first, or a compiled model "
            "(*_edgetpu.tflite) or package.",
            show_default=False,
        ),
    ],
    where: Assumed,
    importing: Importing,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE.html",
            help="Write the page there. [dim]default: serve it on 127.0.0.1 until Ctrl-C[/dim]",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Port to serve the page on; 0 takes a free one.",
        ),
    ] = 0,
    package: PackageNumber = None,
    source: SourceFile = None,
    quiet: Quiet = False,
) -> None:
    """Look into a model: what each operator became, instruction by instruction.

    The page links the graph, layers, instructions as assembly text, memory and timeline. Select an
    operator to see its instructions, bytes and time; select an instruction to see its fields and
    their meaning.
    """
    from fitzroy.compilation.exploring import explored
    from fitzroy.report.explorer import page

    terminal = Terminal(quiet=quiet)
    if output is not None:
        check_output(output, [model])
    conditions = where.speed.conditions
    with terminal.working("exploring") as progress:
        found = explored(
            model,
            package=package,
            source=source,
            how=importing.how,
            conditions=conditions,
            progress=progress,
        )
        content = text_bytes(page(found))
    if output is not None:
        write_file(output, content)
        terminal.note(f"wrote {output}")
        return
    with _listening(content, port) as server:
        try:
            terminal.line(f"http://{_ADDRESS}:{server.server_port}/")
            terminal.note("Ctrl-C ends it")
            server.serve_forever()
        except KeyboardInterrupt:
            terminal.note("stopped")


def _listening(content: bytes, port: int) -> ThreadingHTTPServer:
    """A server of one page on this machine.

    Raises:
        UsageError: the port cannot be had.
    """
    try:
        return ThreadingHTTPServer((_ADDRESS, port), handler(content))
    except OSError as error:
        raise UsageError(
            f"port {port} of {_ADDRESS} cannot be had",
            reason=str(error.strerror or error),
            hint="leave out --port for one that is free",
        ) from error


def handler(content: bytes) -> type[BaseHTTPRequestHandler]:
    """What answers requests: the page at its address, for browsers of this machine, nothing else.

    A request that names another host than this one comes from a page that has its name point here
    (DNS rebinding), and is refused.

    Args:
        content: the page.
    """

    class Page(BaseHTTPRequestHandler):
        """Answers of the server."""

        server: ThreadingHTTPServer

        def do_GET(self) -> None:
            """The page, or a refusal."""
            port = self.server.server_port
            if self.headers.get("Host") not in (f"{_ADDRESS}:{port}", f"localhost:{port}"):
                self.send_error(403)
            elif self.path != "/":
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the terminal is for the user."""

    return Page


explore_command = Verb(
    explore,
    (
        "fitzroy explore model.tflite",
        "fitzroy explore quantized.onnx --input images=1x3x320x320",
        "fitzroy explore model_edgetpu.tflite --output page.html",
        "fitzroy explore model_edgetpu.tflite --source model.tflite --package 0",
    ),
)

"""Worker process that holds LiteRT; run by `fitzroy.driver.runtime.litert`.

It answers messages from standard input on standard output until either is closed. A fault that
Python sees becomes an answer; one that it does not see ends the process, which the client explains.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from fitzroy.base.errors import DeviceError
from fitzroy.base.types import Array
from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.driver.runtime.wire import Message, receive, send


def handle(models: dict[int, LiteRtModel], message: Message) -> Sequence[Array]:
    """Do what a message asks for.

    Args:
        models: those that are loaded, by number.
        message: the message.

    Raises:
        DeviceError: LiteRT refuses the model or an input, or a kernel fails.
    """
    fields, number = message.fields, message.fields["model"]
    for stale in fields["forget"]:
        models.pop(stale, None)
    if fields["command"] == "load":
        data = message.arrays[0].tobytes()
        models[number] = LiteRtModel(data, xnnpack=fields["xnnpack"])
        return ()
    return models[number].run(message.arrays)


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer messages until the source ends."""
    models: dict[int, LiteRtModel] = {}
    send(sink, {"ready": True})
    while True:
        try:
            message = receive(source)
        except EOFError:
            return
        try:
            results = handle(models, message)
            send(sink, {"ok": True}, results)
        except DeviceError as error:
            send(sink, {"ok": False, "what": error.what, "reason": error.reason})
        except (RuntimeError, ValueError, TypeError, MemoryError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}"
            send(sink, {"ok": False, "what": "LiteRT fails", "reason": reason})


def main() -> None:
    """Serve on the standard streams."""
    sink = os.fdopen(os.dup(1), "wb")
    # Nothing but messages may go to the real standard output.
    os.dup2(2, 1)
    serve(sys.stdin.buffer, sink)


if __name__ == "__main__":
    main()

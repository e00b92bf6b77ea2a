"""Worker process that holds LiteRT; run by `fitzroy.driver.runtime.litert`."""

from __future__ import annotations

from functools import partial

from fitzroy.driver.runtime.litert import LiteRtModel
from fitzroy.driver.runtime.wire import Answer, Message, serve


def handle(models: dict[int, LiteRtModel], message: Message) -> Answer:
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
        models[number] = LiteRtModel(data, xnnpack=fields["xnnpack"], threads=fields["threads"])
        return {}, ()
    return {}, models[number].run(message.arrays)


if __name__ == "__main__":
    serve(lambda: partial(handle, {}))

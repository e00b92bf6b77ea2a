"""Worker process that holds ExecuTorch's runtime; run by `fitzroy.driver.runtime.executorch`.

It answers messages from standard input on standard output until either is closed. A fault of
the runtime that Python sees becomes an answer; one that it does not see ends the process, which
the client explains. Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import numpy as np

from fitzroy.base.types import Array
from fitzroy.driver.runtime.wire import Message, receive, send

Answer = tuple[Mapping[str, Any], Sequence[Array]]


class _Module(Protocol):
    """What the worker uses of a loaded program."""

    def run_method(self, name: str, inputs: Sequence[Any], clone_outputs: bool) -> list[Any]: ...


class _Worker:
    def __init__(self, threads: int | None) -> None:
        import torch
        from executorch.extension.pybindings import _portable_lib

        self.torch = torch
        self.library = _portable_lib
        if threads is not None:
            # Safe only while nothing is loaded: delegates keep a pointer to the pool.
            self.library._unsafe_reset_threadpool(threads)
        self.modules: dict[int, _Module] = {}
        # The runtime refers to the bytes of a program as long as it is loaded.
        self.kept: dict[int, bytes] = {}

    def handle(self, message: Message) -> Answer:
        handlers: dict[str, Callable[[Message], Answer]] = {
            "kernels": self.kernels,
            "load": self.load,
            "run": self.run,
            "time": self.time,
            "unload": self.unload,
            "verify": self.verify,
        }
        return handlers[message.fields["command"]](message)

    def kernels(self, message: Message) -> Answer:
        return {"kernels": sorted(self.library._get_operator_names())}, ()

    def load(self, message: Message) -> Answer:
        number = message.fields["session"]
        if message.fields["path"]:
            module = self.library._load_for_executorch(message.fields["path"])
        else:
            self.kept[number] = message.arrays[0].tobytes()
            module = self.library._load_for_executorch_from_buffer(self.kept[number])
        self.modules[number] = module
        # Methods are initialized when first used; faults of theirs belong to loading.
        for method in message.fields["methods"]:
            module.method_meta(method)
        return {}, ()

    def run(self, message: Message) -> Answer:
        module = self.modules[message.fields["session"]]
        outputs = module.run_method(
            message.fields["method"], self.tensors(message), clone_outputs=True
        )
        return {}, [self.array(output) for output in outputs]

    def time(self, message: Message) -> Answer:
        module, method = self.modules[message.fields["session"]], message.fields["method"]
        inputs = self.tensors(message)
        seconds = []
        for _ in range(message.fields["repeats"]):
            start = time.perf_counter()
            module.run_method(method, inputs, clone_outputs=False)
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}, ()

    def unload(self, message: Message) -> Answer:
        self.modules.pop(message.fields["session"], None)
        self.kept.pop(message.fields["session"], None)
        return {}, ()

    def verify(self, message: Message) -> Answer:
        data = message.arrays[0].tobytes()
        # Room for inputs that the program does not plan; 16 KiB is the library's default.
        module = self.library._load_bundled_program_from_buffer(data, message.fields["input_bytes"])
        module.verify_result_with_bundled_expected_output(
            message.fields["method"],
            message.fields["case"],
            message.fields["rtol"],
            message.fields["atol"],
        )
        return {}, ()

    def tensors(self, message: Message) -> list[Any]:
        return [self.torch.from_numpy(array) for array in message.arrays]

    def array(self, output: Any) -> Array:
        if isinstance(output, self.torch.Tensor):
            result: Array = output.contiguous().numpy()
            return result
        return np.asarray(output)


def serve(source: BinaryIO, sink: BinaryIO, threads: int | None) -> None:
    """Answer messages until the source ends."""
    worker = _Worker(threads)
    send(sink, {"ready": True})
    while True:
        try:
            message = receive(source)
        except EOFError:
            return
        try:
            fields, arrays = worker.handle(message)
            send(sink, {"ok": True, **fields}, arrays)
        except (RuntimeError, ValueError, TypeError, MemoryError, KeyError) as error:
            send(sink, {"ok": False, "error": f"{type(error).__name__}: {error}"})


def main() -> None:
    """Serve on the standard streams."""
    sink = os.fdopen(os.dup(1), "wb")
    # Nothing but messages may go to the real standard output.
    os.dup2(2, 1)
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else None
    serve(sys.stdin.buffer, sink, threads)


if __name__ == "__main__":
    main()

"""Worker process that holds ExecuTorch's runtime; run by `fitzroy.driver.runtime.executorch`.

Whatever libraries print goes to standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fitzroy.base.types import Array
from fitzroy.driver.runtime.wire import Answer, Message, serve


class _Method(Protocol):
    """What the worker uses of a loaded method."""

    def set_inputs(self, inputs: Sequence[Any]) -> None: ...

    def execute(self) -> None: ...

    def get_outputs(self, clone_outputs: bool) -> list[Any]: ...


class _Worker:
    def __init__(self, threads: int | None) -> None:
        import torch
        from executorch.extension.pybindings import portable_lib

        self.torch = torch
        self.library = portable_lib
        if threads is not None:
            # Safe only while nothing is loaded: delegates keep a pointer to the pool.
            self.library._unsafe_reset_threadpool(threads)
        self.methods: dict[int, dict[str, _Method]] = {}
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
        check = self.library.Verification.InternalConsistency
        if message.fields["path"]:
            program = self.library._load_program(message.fields["path"], program_verification=check)
        else:
            self.kept[number] = message.arrays[0].tobytes()
            program = self.library._load_program_from_buffer(
                self.kept[number], program_verification=check
            )
        self.methods[number] = {
            name: program.load_method(name) for name in message.fields["methods"]
        }
        return {}, ()

    def method(self, message: Message) -> _Method:
        return self.methods[message.fields["session"]][message.fields["method"]]

    def run(self, message: Message) -> Answer:
        # Inputs that the program does not plan are used in place: they live until the end.
        method, inputs = self.method(message), self.tensors(message)
        method.set_inputs(inputs)
        method.execute()
        return {}, [self.array(output) for output in method.get_outputs(clone_outputs=True)]

    def time(self, message: Message) -> Answer:
        method, inputs = self.method(message), self.tensors(message)
        seconds = []
        for _ in range(message.fields["repeats"]):
            # The memory of inputs may have served other tensors during the last run.
            method.set_inputs(inputs)
            start = time.perf_counter()
            method.execute()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds}, ()

    def unload(self, message: Message) -> Answer:
        self.methods.pop(message.fields["session"], None)
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


if __name__ == "__main__":
    serve(lambda: _Worker(int(sys.argv[1]) if len(sys.argv) > 1 else None).handle)

"""Programs on the model of ExecuTorch's runtime: exact reference, no packages, no speed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fitzroy.base.closing import Closing
from fitzroy.base.errors import UsageError
from fitzroy.base.files import read_file
from fitzroy.base.types import Array
from fitzroy.driver.runtime.session import (
    MethodInfo,
    find_method,
    method_infos,
)
from fitzroy.formats import executorch as et
from fitzroy.hw_models.executorch import MethodModel


class OracleRuntime(Closing):
    """Runs programs with numpy."""

    def load(self, data: bytes, path: str = "") -> OracleSession:
        """Load a program from memory; see `Runtime.load`.

        Raises:
            FormatError: the bytes are no program.
            UnsupportedError: it calls a kernel or a backend that has no model.
        """
        return OracleSession(et.read_program(data, path=path))

    def load_file(self, path: str | os.PathLike[str]) -> OracleSession:
        """Load a program from a file; see `Runtime.load_file`."""
        return self.load(read_file(path), os.fspath(path))

    def close(self) -> None:
        """Nothing is held."""


class OracleSession(Closing):
    """A program on the model; made by `OracleRuntime`."""

    def __init__(self, file: et.ProgramFile) -> None:
        self._methods = method_infos(file)
        self._models = {info.name: MethodModel(file, info.name) for info in self._methods}
        self._path = file.path

    @property
    def methods(self) -> tuple[MethodInfo, ...]:
        """Methods of the program, in order of the file."""
        return self._methods

    def run(self, inputs: Sequence[Array], method: str = "forward") -> list[Array]:
        """Run a method; see `Session.run`.

        Raises:
            UsageError: the session is closed, no such method, or the inputs do not suit it.
            SimulationError: the program does what the runtime would not survive.
        """
        if not self._models:
            raise UsageError("the session is closed", where=self._path)
        find_method(self._methods, method).check(inputs)
        return self._models[method].run(inputs)

    def close(self) -> None:
        """Forget the program."""
        self._models = {}

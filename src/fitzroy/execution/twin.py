"""A device that is the twin of the chip: it computes the source of programs, not the programs.

Outputs are those of the programs to the byte, some hundred times faster than on the simulated
chip. There are no cycles, and faults of a program stay unseen: a twin stands for programs that
were compared with it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fitzroy.base.closing import Closing
from fitzroy.base.errors import DeviceError, UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.parameters.operands import STATE_SUFFIX
from fitzroy.compiler.targets.edgetpu.twin.published import operators, published_logistic
from fitzroy.compiler.targets.edgetpu.twin.semantics import OPERATORS
from fitzroy.compiler.targets.edgetpu.twin.twin import Twin
from fitzroy.driver.runtime.devices import Answer, Pending
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.packages.darwinn import PRODUCER


@dataclass(frozen=True)
class TwinOutputs:
    """What a twin computed.

    Attributes:
        tensors: bytes of every output in the order of its elements, by layer name.
    """

    tensors: Mapping[str, Array]


class TwinDevice(Closing):
    """The twin of the chip, for packages that were compiled from one model.

    Args:
        source: the model that the packages were compiled from, quantized to 8 bits.
    """

    def __init__(self, source: Graph) -> None:
        self.description = f"the twin of the chip, which computes {source.name}"
        self._source = source
        self._twins: dict[int, tuple[PackageFile, Twin]] = {}
        self._turn = threading.Lock()
        self._closed = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="twin")

    def run(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Answer:
        """Compute what a package computes; nothing takes too long.

        Args:
            package: a package that was compiled from the source.
            inputs: bytes of every input in the order of its elements, by layer name.
            timeout: has no effect.

        Raises:
            UsageError: the package was not compiled from the source.
            UnsupportedError: the package keeps states from inference to inference.
            DeviceError: the device was closed.
        """
        with self._turn:
            if self._closed:
                raise DeviceError("the device was closed", where=self.description)
            twin = self._twin(package)
            graph = twin.graph
            arrays = {
                name: inputs[name].view(type.dtype.numpy).reshape(type.shape)
                for name, type in ((name, graph.type(name)) for name in graph.inputs)
            }
            found = {
                name: np.ascontiguousarray(x).reshape(-1).view(np.uint8)
                for name, x in twin.run(arrays).items()
            }
        return TwinOutputs(found)

    def submit(
        self, package: PackageFile, inputs: Mapping[str, Array], *, timeout: float | None = None
    ) -> Pending:
        """Compute what a package computes in the background."""
        return self._worker.submit(self.run, package, inputs)

    def close(self) -> None:
        """End what is under way."""
        self._closed = True
        self._worker.shutdown(cancel_futures=True)

    def _twin(self, package: PackageFile) -> Twin:
        known = self._twins.get(id(package))
        if known is None:
            # The package is kept, so that no other one gets its identity.
            known = package, _twin_of(self._source, package)
            self._twins[id(package)] = known
        return known[1]


def _twin_of(source: Graph, package: PackageFile) -> Twin:
    """The twin of a package.

    Raises:
        UsageError: the package was not compiled from the source.
        UnsupportedError: the package keeps states from inference to inference.
    """
    main = package.main
    inputs, outputs = [*main.inputs], [*main.outputs]
    if any(name.endswith(STATE_SUFFIX) for name in outputs):
        raise UnsupportedError(
            "the program keeps states from inference to inference, which a twin does not",
            where=package.path,
            hint="run it on the simulated chip: --device sim",
        )
    for name in (*inputs, *outputs):
        if name not in source.values:
            raise UsageError(
                f"the model has no tensor {name!r}, which the package has",
                where=source.name,
                hint="give the model that it was compiled from",
            )
    graph = source.between(inputs, outputs)
    ours = (package.package.compiler_version or "").startswith(PRODUCER)
    return Twin(graph, OPERATORS if ours else operators(published_logistic(package)))

"""A device that is the twin of the chip: it computes the source of programs, not the programs.

Outputs are those of the programs to the byte, some hundred times faster than on the simulated
chip. There are no cycles, and faults of a program stay unseen: a twin stands for programs that
were compared with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fitzroy.base.cores import cores, products_on
from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array, TensorType
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading
from fitzroy.compiler.frontends.loading import Model, load
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.base import run_passes
from fitzroy.compiler.targets.edgetpu.parameters.operands import STATE_SUFFIX
from fitzroy.compiler.targets.edgetpu.partition.preparation import preparing_for
from fitzroy.compiler.targets.edgetpu.twin.published import (
    kernels,
    operators,
    published_logistic,
)
from fitzroy.compiler.targets.edgetpu.twin.source import demand_source, digests_of
from fitzroy.compiler.targets.edgetpu.twin.twin import Twin
from fitzroy.driver.runtime.devices import Answer, LocalDevice
from fitzroy.formats import custom_op
from fitzroy.formats.darwinn import Layer, PackageFile
from fitzroy.linker.packages.darwinn import PRODUCER


@dataclass(frozen=True)
class TwinOutputs:
    """What a twin computed.

    Attributes:
        tensors: bytes of every output in the order of its elements, by layer name.
    """

    tensors: Mapping[str, Array]


class TwinDevice(LocalDevice):
    """The twin of the chip, for packages that were compiled from one model.

    Args:
        source: the model that the packages were compiled from, quantized to 8 bits.
        name: its file, for people; by default the name of the graph.
        threads: how many threads compute several images; by default one for each core that the
            process has. Matrix products have no threads of their own.
    """

    def __init__(self, source: Graph, name: str = "", *, threads: int | None = None) -> None:
        self._name = name or source.name
        super().__init__(f"the twin of the chip, which computes {os.path.basename(self._name)}")
        self._source = source
        self._threads = threads or cores()
        self._twins: dict[int, tuple[PackageFile, Twin]] = {}

    def compute(self, package: PackageFile, inputs: Mapping[str, Array]) -> Answer:
        """Compute what a package that was compiled from the source computes.

        Raises:
            UsageError: the package was not compiled from the source.
            UnsupportedError: the package keeps states from inference to inference.
        """
        with products_on(1):
            (answer,) = _answers(self._twin(package), [inputs])
        return answer

    def compute_images(
        self, package: PackageFile, inputs: Sequence[Mapping[str, Array]]
    ) -> Sequence[Answer]:
        """Compute several images: a few in one product of matrices, and others on every core.

        Raises:
            FitzroyError: as `compute` says.
        """
        twin = self._twin(package)
        pieces = _pieces(inputs, self._threads, twin.together)
        with products_on(1), ThreadPoolExecutor(self._threads) as pool:
            parts = pool.map(lambda piece: _answers(twin, piece), pieces)
            return [answer for answers in parts for answer in answers]

    def _twin(self, package: PackageFile) -> Twin:
        known = self._twins.get(id(package))
        if known is None:
            # The package is kept, so that no other one gets its identity.
            known = package, twin_of(self._source, self._name, package)
            self._twins[id(package)] = known
        return known[1]


def twin(model: Model, *, threads: int | None = None, how: Reading = PLAINLY) -> TwinDevice:
    """The twin of the chip, to run what was compiled from a model.

    Args:
        model: the model that was compiled, quantized to 8 bits: a path or a graph.
        threads: as for `TwinDevice`.
        how: how a file is read, as for compiling it.

    Raises:
        UsageError: the file cannot be read.
        FormatError: it is malformed.
        UnsupportedError: it has operators without counterpart.
    """
    if isinstance(model, Graph):
        return TwinDevice(model, threads=threads)
    return TwinDevice(load(model, how), os.fspath(model), threads=threads)


def _pieces(
    inputs: Sequence[Mapping[str, Array]], threads: int, most: int
) -> list[Sequence[Mapping[str, Array]]]:
    """Images in pieces for threads, as many for each and of about one size.

    Args:
        inputs: the images.
        threads: how many threads there are.
        most: how many images a piece has at most.
    """
    turns = max(1, -(-len(inputs) // (threads * most)))
    size = max(1, -(-len(inputs) // (threads * turns)))
    return [inputs[first : first + size] for first in range(0, len(inputs), size)]


def _answers(twin: Twin, images: Sequence[Mapping[str, Array]]) -> list[TwinOutputs]:
    """What a twin computes of some images together."""
    types = {name: twin.graph.type(name) for name in twin.graph.inputs}
    arrays = {
        name: np.stack([one[name].view(type.dtype.numpy).reshape(type.shape) for one in images])
        for name, type in types.items()
    }
    found = {
        name: np.ascontiguousarray(x).reshape(len(images), -1).view(np.uint8)
        for name, x in twin.run_images(arrays, len(images)).items()
    }
    return [
        TwinOutputs({name: x[number] for name, x in found.items()}) for number in range(len(images))
    ]


def twin_of(source: Graph, title: str, package: PackageFile) -> Twin:
    """The twin of a package.

    Args:
        source: the model that it was compiled from.
        title: the file of that, for errors.
        package: the package.

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
    source = run_passes(source, preparing_for(source, [*inputs, *outputs]))
    where = f"{title}, for {package.path}" if package.path else title
    for name, layer in (main.inputs | main.outputs).items():
        _demand_layer(source, name, layer, where)
    graph = source.between(inputs, outputs)
    if package.source:
        demand_source(package.source, digests_of(graph), where)
    if (package.package.compiler_version or "").startswith(PRODUCER):
        return Twin(graph)
    return Twin(graph, operators(published_logistic(package)), kernels())


def _demand_layer(source: Graph, name: str, layer: Layer, where: str) -> None:
    """Demand that a model has an input or output of a package.

    Raises:
        UsageError: there is no such tensor, or it has another type.
    """
    value = source.values.get(name)
    if value is None:
        fault, reason = f"the model has no tensor {name!r}, which the package has", ""
    else:
        fault, reason = f"{name!r} is another tensor than in the package", _fault(value.type, layer)
    if value is None or reason:
        raise UsageError(
            fault,
            reason=reason,
            where=where,
            hint="give the quantized model that it was compiled from",
        )


def _fault(type: TensorType, layer: Layer) -> str:
    """How a tensor differs from a layer; empty if it does not."""
    there = custom_op.layer_type(layer)
    count = there.size * layer.execution_count_per_inference
    if (type.size, type.dtype) != (count, there.dtype):
        return (
            f"{type.size} elements of {type.dtype.value} in the model, "
            f"{count} of {there.dtype.value} in the package"
        )
    ours, theirs = type.quantization, there.quantization
    if ours is None or theirs is None:
        return ""
    pairs = [(np.float32(item.scale[0]), item.zero_point[0]) for item in (ours, theirs)]
    if pairs[0] == pairs[1]:
        return ""
    (scale, zero), (other, there_zero) = pairs
    return (
        f"scale {scale:.7g} and zero point {zero} in the model, "
        f"{other:.7g} and {there_zero} in the package"
    )

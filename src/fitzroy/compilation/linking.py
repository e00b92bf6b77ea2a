"""Files of what targets make of models, by what that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fitzroy.compilation.edgetpu import EdgeTpuCompilation, link_options, linked_models
from fitzroy.compilation.modules import compiled_entry, write_entries
from fitzroy.compilation.source import Source
from fitzroy.compilation.texts import forms
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.targets.edgetpu.chip import OnChip
from fitzroy.compiler.targets.edgetpu.options import EdgeTpuOptions
from fitzroy.compiler.targets.edgetpu.settings import generator_options
from fitzroy.compiler.targets.target import Product, Target
from fitzroy.compiler.targets.vm.target import Function
from fitzroy.formats.darwinn import PackageFile
from fitzroy.linker.packages.executorch import link_program


@dataclass(frozen=True)
class LoweredModel:
    """A model as a target has lowered it.

    Attributes:
        model: the model as it was read.
        program: what the target made of it.
    """

    model: Graph | Source
    program: Any


def _nothing() -> dict[str, str | bytes]:
    return {}


@dataclass(frozen=True)
class Linked:
    """A file.

    Attributes:
        data: its bytes.
        packages: programs of the Edge TPU in it, in the order in which they run.
        steps: makes what else is worth reading of how it came about: names of files and contents.
    """

    data: bytes
    packages: tuple[PackageFile, ...] = ()
    steps: Callable[[], Mapping[str, str | bytes]] = field(default=_nothing)


def linked(target: Target, models: Sequence[LoweredModel], options: Any) -> Linked:
    """The file of what a target made of models.

    Args:
        target: the target.
        models: one, or several if its files have several.
        options: an instance of the target's options.

    Raises:
        CapacityError: it needs more memory than there is.
        LinkError: the programs cannot be in one file.
    """
    return _LINKERS[target.product](models, options)


def _file(models: Sequence[LoweredModel], options: Any) -> Linked:
    (item,) = models
    return Linked(bytes(item.program))


def _program(models: Sequence[LoweredModel], options: Any) -> Linked:
    methods = [item.program for item in models]
    blobs: dict[str, str | bytes] = {
        f"{method.method.name}-{index}.xnnpack": bytes(subgraph.blob)
        for method in methods
        for index, subgraph in enumerate(method.subgraphs)
    }
    return Linked(link_program([item.method for item in methods]), steps=lambda: blobs)


def _module(models: Sequence[LoweredModel], options: Any) -> Linked:
    entries, packages = [], list[PackageFile]()
    for item in models:
        function: Function = item.program
        entry = function.entry
        if entry is None:
            made = _on_chip(item.model, function.programs, options.inner)
            packages += [part.package for part in made.segments]
            entry = compiled_entry(made.data, made.source.path, function.name)
        entries.append(entry)
    return Linked(write_entries(_name(models[0].model), entries), tuple(packages))


def _edgetpu_model(models: Sequence[LoweredModel], options: Any) -> Linked:
    (item,) = models
    made = _on_chip(item.model, item.program, options)
    packages = tuple(part.package for part in made.segments)
    return Linked(made.data, packages, lambda: forms(made))


def _on_chip(
    model: Graph | Source, programs: OnChip, options: EdgeTpuOptions
) -> EdgeTpuCompilation:
    """A model with the packages of its programs."""
    assert isinstance(model, Source), "the target keeps models"
    confirmed = generator_options(options).confirmed
    (made,) = linked_models([(model, programs)], link_options(options), confirmed)
    return made


def _name(model: Graph | Source) -> str:
    return model.name if isinstance(model, Graph) else model.graph.name


_LINKERS: dict[Product, Callable[[Sequence[LoweredModel], Any], Linked]] = {
    Product.FILE: _file,
    Product.METHOD: _program,
    Product.FUNCTION: _module,
    Product.PROGRAMS: _edgetpu_model,
}

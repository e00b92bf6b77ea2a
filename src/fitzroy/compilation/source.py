"""Models as the Edge TPU's compiler takes them: as TFLite, and as the graph of that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fitzroy.base.errors import UnsupportedError
from fitzroy.base.files import read_file
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading, frontend_for
from fitzroy.compiler.frontends.loading import load
from fitzroy.compiler.frontends.tflite import export_model, import_model, is_faithful, named
from fitzroy.compiler.frontends.tflite.shapes import given_shapes
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.base import Pass, run_passes
from fitzroy.compiler.targets.edgetpu.partition.rules import has_quantized_activations
from fitzroy.formats import custom_op, tflite
from fitzroy.formats.detect import FileKind


@dataclass(frozen=True, repr=False)
class Source:
    """A model that has been read.

    Attributes:
        path: its file.
        size: bytes of the file.
        model: the model as TFLite.
        graph: the model as a graph.
    """

    path: str
    size: int
    model: tflite.Model
    graph: Graph

    def __repr__(self) -> str:
        return f"<Source {self.path}: {self.size:,} bytes, {len(self.graph.nodes())} operators>"

    @classmethod
    def read(cls, path: str | os.PathLike[str], how: Reading = PLAINLY) -> Source:
        """Read a model of any frontend, and as much of it as `how` says.

        Raises:
            UsageError: the file cannot be read, or is no model, or inputs are not as `how` says.
            FormatError: it is malformed.
            UnsupportedError: it has operators without counterpart, or inputs with open extents.
        """
        name, data = os.fspath(path), read_file(path)
        if frontend_for(data, name).kind is not FileKind.TFLITE:
            return cls._exported(name, len(data), load(path, how))
        model = named(tflite.read_model(data, name))
        graph = import_model(model, path=name, shapes=given_shapes(how, name))
        if not is_faithful(model, graph):
            # The operators of the file are not those that are mapped; these are written instead.
            return cls._exported(name, len(data), graph, like=model)
        return cls(name, len(data), model, graph)

    @classmethod
    def _exported(
        cls, path: str, size: int, graph: Graph, like: tflite.Model | None = None
    ) -> Source:
        """A graph as a model, with the metadata and signatures of the one that it was made of."""
        model = export_model(graph, like=like)
        again = import_model(model, path=path)
        again.remarks = graph.remarks
        return cls(path, size, model, again)

    @classmethod
    def of(cls, graph: Graph) -> Source:
        """A graph as a model.

        Raises:
            UnsupportedError: TFLite cannot express it.
        """
        model = export_model(graph)
        size = len(tflite.write_model(model))
        again = import_model(model, path=graph.name)
        again.remarks = list(graph.remarks)
        return cls(graph.name, size, model, again)

    def passed(self, passes: Sequence[Pass]) -> Source:
        """The model after some passes, with its metadata and signatures.

        Raises:
            UnsupportedError: TFLite cannot express what they made of it.
        """
        if not passes:
            return self
        made = run_passes(self.graph, passes)
        model = export_model(made, like=self.model)
        again = import_model(model, path=self.path)
        again.remarks = made.remarks
        return replace(self, model=model, graph=again)

    def labelled(self, labels: Mapping[int, str]) -> Source:
        """The model with labels in place of any that it has.

        Raises:
            UsageError: there are too many.
        """
        from fitzroy.formats.labels import labelled, labels_of

        model = labelled(self.model, labels)
        graph = self.graph.copy()
        graph.labels = labels_of(model).labels
        return replace(self, model=model, graph=graph)

    @property
    def quantized(self) -> bool:
        """Whether the model has activations of 8 bits."""
        return has_quantized_activations(self.graph)

    @property
    def compiled(self) -> bool:
        """Whether the model has Edge TPU operators already."""
        return _is_compiled(self.graph)


def _is_compiled(graph: Graph) -> bool:
    return any(
        getattr(node.attributes, "code", None) == custom_op.CUSTOM_CODE for node in graph.nodes()
    )


def demand_uncompiled(graph: Graph, path: str) -> None:
    """Refuse a model that has Edge TPU operators.

    Raises:
        UnsupportedError: it has.
    """
    if _is_compiled(graph):
        raise UnsupportedError(
            "the model is compiled for the Edge TPU already",
            where=path,
            hint="take the model that it was made of",
        )

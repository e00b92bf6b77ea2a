"""The frontend of ONNX models."""

from __future__ import annotations

from fitzroy.compiler.frontends.frontend import PLAINLY, Frontend, Reading
from fitzroy.compiler.frontends.onnx import reader
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.passes.base import Pass
from fitzroy.compiler.passes.canonicalize import FuseActivations, Simplify
from fitzroy.compiler.passes.fold_scales import FoldScales
from fitzroy.compiler.passes.layout import ChannelsLastInputs
from fitzroy.formats.detect import FileKind

CLEANING: tuple[Pass, ...] = (Simplify(), FoldScales(), FuseActivations())
"""Passes that make of ONNX's operators those that TFLite's converter would have written."""


class OnnxFrontend(Frontend):
    """Reads ONNX models, with the package ``onnx``."""

    name = "onnx"
    title = FileKind.ONNX.value
    kind = FileKind.ONNX

    def read(self, data: bytes, path: str, how: Reading = PLAINLY) -> Graph:
        """The graph of a model; images have channels last unless the layout is to be kept."""
        proto = reader.decode(data, path)
        # Importing operators takes the package, too.
        from fitzroy.compiler.frontends.onnx.model import import_model

        graph = import_model(proto, path=path, shapes=how.shapes)
        for step in CLEANING if how.keep_layout else (*CLEANING, ChannelsLastInputs()):
            graph = step.run(graph)
        return graph

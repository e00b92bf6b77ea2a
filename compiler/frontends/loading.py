"""Models from files."""

from __future__ import annotations

import os

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.files import read_file
from fitzroy.compiler.frontends.frontend import PLAINLY, Reading, frontend_for
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import verify

Model = str | os.PathLike[str] | Graph
"""A model: its file, or its graph."""


def load(path: str | os.PathLike[str], how: Reading = PLAINLY) -> Graph:
    """The graph of a model, whose format is told by its content.

    Args:
        path: a ``.tflite`` or ``.onnx`` model, a graph in text form, or what another frontend
            reads.
        how: which of a file's graphs, extents that a model leaves open, and whether images of
            an ONNX model stay [N,C,H,W].

    Raises:
        UsageError: the file cannot be read, or is a program rather than a model.
        FormatError: the file is malformed.
        UnsupportedError: the model has operators without counterpart, or inputs with open extents.
    """
    name, data = os.fspath(path), read_file(path)
    graph = frontend_for(data, name).read(data, name, how)
    try:
        verify(graph)
    except InternalError as error:
        raise FormatError(f"the graph is inconsistent: {error}", path=name) from None
    return graph

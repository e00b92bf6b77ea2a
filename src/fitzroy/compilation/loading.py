"""Models from files."""

from __future__ import annotations

import os

from fitzroy.base.errors import FormatError, InternalError
from fitzroy.base.files import read_file
from fitzroy.compiler.frontends.frontend import frontend_for
from fitzroy.compiler.ir import Graph
from fitzroy.compiler.reference import verify

Model = str | os.PathLike[str] | Graph
"""A model: its file, or its graph."""


def load(path: str | os.PathLike[str], *, subgraph: int = 0) -> Graph:
    """The graph of a model, whose format is told by its content.

    Args:
        path: a ``.tflite`` model, a graph in text form, or what another frontend reads.
        subgraph: which subgraph of a TFLite model; 0 is its main one.

    Raises:
        UsageError: the file cannot be read, or is a program rather than a model.
        FormatError: the file is malformed.
        UnsupportedError: the model has operators without counterpart.
    """
    name, data = os.fspath(path), read_file(path)
    graph = frontend_for(data, name).read(data, name, subgraph=subgraph)
    try:
        verify(graph)
    except InternalError as error:
        raise FormatError(f"the graph is inconsistent: {error}", path=name) from None
    return graph

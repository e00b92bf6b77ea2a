"""Execution of serialized XNNPACK graphs."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fitzroy.base.errors import FormatError, UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.formats.xnnpack import Blob, read_blob
from fitzroy.hw_models.xnnpack.nodes import NODES, Frame
from fitzroy.hw_models.xnnpack.values import Named, read_values


def execute(
    blob: bytes | memoryview | Blob,
    inputs: Mapping[int, Array],
    named: Named = lambda _: None,
    *,
    path: str = "",
) -> dict[int, Array]:
    """Execute a graph as XNNPACK does on x86: exactly for integers, closely for floats.

    Args:
        blob: delegate data of ExecuTorch's XNNPACK backend, or what was read from it.
        inputs: arrays by external id, of the declared shapes and element types.
        named: looks up constants that live outside of the blob.
        path: name of the file, for errors.

    Returns:
        Outputs by external id.

    Raises:
        FormatError: the graph is malformed.
        UnsupportedError: the graph asks for what the runtime refuses, or silently gets wrong.
        UsageError: the inputs are not those of the graph.
    """
    if not isinstance(blob, Blob):
        blob = read_blob(blob, path=path)
    values = read_values(blob, named, path)
    frame = Frame(values, {})
    externals = {value.external_id: value for value in values.values() if value.is_input}
    if set(externals) != set(inputs):
        raise UsageError(
            f"the graph has inputs {sorted(externals)}", reason=f"{sorted(inputs)} are given"
        )
    for number, value in externals.items():
        array = inputs[number]
        if array.shape != value.type.shape or array.dtype != value.type.dtype.numpy:
            raise UsageError(
                f"input {number} is {value.type}",
                reason=f"the array is {array.dtype} of shape {list(array.shape)}",
            )
        frame.arrays[value.id] = array
    for value in values.values():
        if value.data is not None:
            frame.arrays[value.id] = value.data
    for position, entry in enumerate(blob.graph.xnodes or []):
        node = entry.node
        if node is None:
            raise FormatError(f"node {position} is empty", path=path, table="XNNGraph")
        frame.where = f"node {position}, {type(node).__name__}"
        run = NODES.get(type(node))
        if run is None:
            raise UnsupportedError(
                f"the runtime does not execute {type(node).__name__}", where=path
            )
        bounds = entry.output_min_max
        frame.clamped = bounds is not None
        frame.low = -math.inf if bounds is None else bounds.output_min
        frame.high = math.inf if bounds is None else bounds.output_max
        run(frame, node)
    outputs: dict[int, Array] = {}
    for value in values.values():
        if value.is_output:
            if value.id not in frame.arrays:
                raise FormatError(f"nothing computes output {value.name}", path=path)
            outputs[value.external_id] = frame.arrays[value.id]
    return outputs

"""Shapes of the inputs of TFLite models."""

from __future__ import annotations

from collections.abc import Mapping

from fitzroy.base.errors import UsageError
from fitzroy.compiler.frontends.frontend import Reading
from fitzroy.compiler.frontends.shapes import Shape, by_input, closed_shape, fits, of_arrays
from fitzroy.formats import tflite
from fitzroy.formats.flat import ints


def given_shapes(how: Reading, path: str) -> Mapping[str, Shape]:
    """The shapes of inputs that a reading gives.

    Raises:
        UsageError: it fixes inputs to values.
    """
    # One whole number is both a shape and a value.
    values = [name for name in how.values if name not in how.shapes]
    if values:
        raise UsageError(
            f"input {values[0]!r} is given a value",
            reason="only inputs of ONNX models can be constants",
            where=path,
            hint=f"give a shape, as in --input {values[0]}=1x224x224x3",
        )
    return how.shapes


def input_shapes(
    subgraph: tflite.SubGraph, given: Mapping[str, Shape], path: str
) -> dict[int, Shape]:
    """Shapes of the inputs of a subgraph by their tensors.

    Args:
        subgraph: the subgraph; its tensors have names.
        given: shapes by name or number of the input.
        path: name of the file, for errors.

    Raises:
        UsageError: a given shape does not fit, or there is no such input.
        UnsupportedError: extents are open and no shape is given.
    """
    tensors = subgraph.tensors or []
    names = {index: tensors[index].name or "" for index in ints(subgraph.inputs)}
    shapes = by_input(given, [*names.values()], path)
    found = {}
    for index, name in names.items():
        extents = stated_extents(tensors[index])
        if name not in shapes:
            # Converters write 1 for what is open; another extent is what a model was resized to.
            pairs = zip(extents, ints(tensors[index].shape), strict=True)
            extents = tuple(own if own != 1 and open is None else open for open, own in pairs)
        found[index] = closed_shape(name, extents, shapes.get(name), path)
    return found


def fitting_shapes(model: tflite.Model, arrays: Mapping[str, Shape]) -> dict[str, Shape]:
    """Those shapes of arrays that inputs of a model can have, by number.

    Arrays may also lack dimensions of an input, or be for no input; what reads them judges that.

    Args:
        model: the model.
        arrays: shapes of arrays, as `of_arrays` takes them.
    """
    subgraph = (model.subgraphs or [])[0]
    tensors = [(subgraph.tensors or [])[index] for index in dict.fromkeys(ints(subgraph.inputs))]
    names = [tensor.name or "" for tensor in tensors]
    found = of_arrays(arrays, names)
    return {
        str(number): found[name]
        for number, (name, tensor) in enumerate(zip(names, tensors, strict=True))
        if name in found and fits(found[name], stated_extents(tensor))
    }


def stated_extents(tensor: tflite.Tensor) -> tuple[int | None, ...]:
    """The extents of a tensor; None for those that the file leaves open."""
    shape, signature = ints(tensor.shape), ints(tensor.shape_signature)
    if len(signature) != len(shape):
        return shape
    return tuple(None if open == -1 else own for open, own in zip(signature, shape, strict=True))

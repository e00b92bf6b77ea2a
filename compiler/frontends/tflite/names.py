"""Names of the tensors of TFLite models, which files may leave out or repeat."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fitzroy.formats import tflite
from fitzroy.formats.flat import ints


def named(model: tflite.Model) -> tflite.Model:
    """A model in which every tensor has a name that no other tensor of its subgraph has.

    Graphs know values by their names, and so do packages their inputs and outputs. Of tensors of
    the same name, an input or output keeps it, else the first.
    """
    return replace(model, subgraphs=[_named(subgraph) for subgraph in model.subgraphs or ()])


def _named(subgraph: tflite.SubGraph) -> tflite.SubGraph:
    """A subgraph whose tensors have different names."""
    tensors = list(subgraph.tensors or ())
    taken = {tensor.name for tensor in tensors if tensor.name}
    kept, numbers = set[str](), Counter[str]()
    for index in dict.fromkeys(
        (*ints(subgraph.inputs), *ints(subgraph.outputs), *range(len(tensors)))
    ):
        name = tensors[index].name
        if not name or name in kept:
            name = _unused(name or f"tensor{index}", taken, numbers)
            tensors[index] = replace(tensors[index], name=name)
            taken.add(name)
        kept.add(name)
    return replace(subgraph, tensors=tensors)


def _unused(stem: str, taken: set[str], numbers: Counter[str]) -> str:
    """A name that is not taken; numbers go on from the last of a stem, which many may share."""
    name = stem
    while name in taken:
        numbers[stem] += 1
        name = f"{stem}.{numbers[stem]}"
    return name

"""What a TFLite model says beside its operators: metadata, packed files, names of signatures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fitzroy.formats import tflite
from fitzroy.formats.flat import ints


def annotated(model: tflite.Model, like: tflite.Model) -> tflite.Model:
    """A model with the description, the metadata, the packed files and the signatures of another.

    Signatures of the first subgraph are kept whose inputs and outputs it has, by their names.
    TFLite's metadata, which describe outputs by their order, are kept if it has the same outputs.

    Args:
        model: a model without metadata and signatures.
        like: the model whose it gets.
    """
    buffers, entries = list(model.buffers or ()), list[tflite.Metadata]()
    held = like.buffers or []
    same = _outputs(model) == _outputs(like)
    for entry in like.metadata or ():
        if entry.buffer < len(held) and (same or entry.name != tflite.METADATA):
            entries.append(dataclasses.replace(entry, buffer=len(buffers)))
            buffers.append(held[entry.buffer])
    return dataclasses.replace(
        model,
        description=like.description,
        buffers=buffers,
        metadata=entries or None,
        signature_defs=[*_signatures(model, like)] or None,
        archive=like.archive,
    )


def _signatures(model: tflite.Model, like: tflite.Model) -> Iterable[tflite.SignatureDef]:
    """The signatures of a model with the tensors of another."""
    numbers = {tensor.name: number for number, tensor in enumerate(_tensors(model))}
    names = [tensor.name for tensor in _tensors(like)]
    for signature in like.signature_defs or ():
        every = [*(signature.inputs or ()), *(signature.outputs or ())]
        if signature.subgraph_index or not all(names[x.tensor_index] in numbers for x in every):
            continue
        inputs, outputs = (
            [dataclasses.replace(x, tensor_index=numbers[names[x.tensor_index]]) for x in some]
            for some in (signature.inputs or (), signature.outputs or ())
        )
        yield dataclasses.replace(signature, inputs=inputs, outputs=outputs)


def _outputs(model: tflite.Model) -> list[str | None]:
    """Names of the outputs of the first subgraph, in order."""
    tensors = _tensors(model)
    return [
        tensors[number].name
        for item in (model.subgraphs or ())[:1]
        for number in ints(item.outputs)
    ]


def _tensors(model: tflite.Model) -> list[tflite.Tensor]:
    """Tensors of the first subgraph."""
    subgraphs = model.subgraphs or []
    return list(subgraphs[0].tensors or ()) if subgraphs else []

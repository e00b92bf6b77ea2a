"""TFLite models made of some operators of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fitzroy.base.errors import UnsupportedError, UsageError
from fitzroy.base.types import Array
from fitzroy.formats import flat, tflite


def submodel(
    model: tflite.Model, operators: Iterable[int], inputs: Sequence[str], outputs: Sequence[str]
) -> tflite.Model:
    """Some operators of the main subgraph as a model of their own, without signatures.

    Args:
        model: the model; it is not changed.
        operators: indices of the operators.
        inputs: names of the tensors that they read from others, in order.
        outputs: names of the tensors to give, in order.

    Raises:
        UsageError: there is no such tensor.
    """
    subgraphs = list(model.subgraphs or ())
    main = subgraphs[0]
    numbers = {tensor.name: index for index, tensor in enumerate(main.tensors or ())}
    missing = [name for name in (*inputs, *outputs) if name not in numbers]
    if missing:
        raise UsageError(f"the model has no tensor {missing[0]!r}")
    subgraphs[0] = dataclasses.replace(
        main,
        inputs=np.array([numbers[name] for name in inputs], np.int32),
        outputs=np.array([numbers[name] for name in outputs], np.int32),
    )
    every = main.operators or []
    return rebuilt(
        dataclasses.replace(model, subgraphs=subgraphs, signature_defs=None),
        [every[index] for index in sorted(operators)],
    )


def rebuilt(model: tflite.Model, operators: Sequence[tflite.Operator]) -> tflite.Model:
    """A model with other operators in its main subgraph.

    Tensors and buffers that nothing refers to any more are left out.

    Args:
        model: the model; it is not changed.
        operators: the operators in order, with tensors as the model numbers them.

    Raises:
        UnsupportedError: a signature names a tensor that is left out.
    """
    subgraphs = list(model.subgraphs or ())
    main = subgraphs[0]
    tensors = main.tensors or []
    used = _used(main, operators)
    numbers = {old: new for new, old in enumerate(used)}
    subgraphs[0] = dataclasses.replace(
        main,
        tensors=[tensors[index] for index in used],
        inputs=_renumbered(main.inputs, numbers),
        outputs=_renumbered(main.outputs, numbers),
        operators=[
            dataclasses.replace(
                item,
                inputs=_renumbered(item.inputs, numbers),
                outputs=_renumbered(item.outputs, numbers),
                intermediates=_renumbered(item.intermediates, numbers),
            )
            for item in operators
        ],
    )
    signatures = None
    if model.signature_defs is not None:
        signatures = [_renamed_signature(item, numbers) for item in model.signature_defs]
    return _without_unused_buffers(
        dataclasses.replace(model, subgraphs=subgraphs, signature_defs=signatures)
    )


def _renamed_signature(
    signature: tflite.SignatureDef, numbers: Mapping[int, int]
) -> tflite.SignatureDef:
    """A signature of the main subgraph with other numbers of tensors."""
    if signature.subgraph_index:
        return signature

    def renamed(maps: list[tflite.TensorMap] | None) -> list[tflite.TensorMap] | None:
        if maps is None:
            return None
        for item in maps:
            if item.tensor_index not in numbers:
                raise UnsupportedError(
                    f"signature {signature.signature_key!r} names tensor {item.tensor_index} "
                    f"as {item.name!r}, which is inside of what is replaced",
                    hint="signatures are to name inputs and outputs of the model",
                )
        return [dataclasses.replace(item, tensor_index=numbers[item.tensor_index]) for item in maps]

    return dataclasses.replace(
        signature, inputs=renamed(signature.inputs), outputs=renamed(signature.outputs)
    )


def _used(main: tflite.SubGraph, operators: Iterable[tflite.Operator]) -> list[int]:
    """Indices of tensors that something refers to, in order."""
    found = {*flat.ints(main.inputs), *flat.ints(main.outputs)}
    for item in operators:
        for indices in (item.inputs, item.outputs, item.intermediates):
            found.update(index for index in flat.ints(indices) if index >= 0)
    return sorted(found)


def _renumbered(indices: Array | None, numbers: Mapping[int, int]) -> Array | None:
    if indices is None:
        return None
    return np.array([numbers.get(index, -1) for index in flat.ints(indices)], np.int32)


def _without_unused_buffers(model: tflite.Model) -> tflite.Model:
    """A model without the buffers that no tensor and no metadata refer to; 0 stays, empty.

    Metadata whose buffer the model does not have is left out.
    """
    tensors = [item for graph in model.subgraphs or () for item in graph.tensors or ()]
    buffers = model.buffers or [tflite.Buffer()]
    entries = [item for item in model.metadata or () if item.buffer < len(buffers)]
    listed = [index for index in flat.ints(model.metadata_buffer) if 0 <= index < len(buffers)]
    kept = {0, *(item.buffer for item in tensors), *(item.buffer for item in entries), *listed}
    order = sorted(kept)
    numbers = {old: new for new, old in enumerate(order)}
    return dataclasses.replace(
        model,
        buffers=[buffers[index] for index in order],
        metadata_buffer=None
        if model.metadata_buffer is None
        else _renumbered(np.array(listed, np.int32), numbers),
        metadata=None
        if model.metadata is None
        else [dataclasses.replace(m, buffer=numbers[m.buffer]) for m in entries],
        subgraphs=[
            dataclasses.replace(
                graph,
                tensors=[
                    dataclasses.replace(item, buffer=numbers[item.buffer])
                    for item in graph.tensors or ()
                ],
            )
            for graph in model.subgraphs or ()
        ],
    )

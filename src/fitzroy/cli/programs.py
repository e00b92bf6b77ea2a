"""What a program's inputs and outputs mean: quantization out of the delegates they pass through.

ExecuTorch programs store shapes and element types only; the delegates' graphs know scales and
zero points of the values that cross their borders.
"""

from __future__ import annotations

from dataclasses import replace

from fitzroy.base.types import Quantization, TensorType
from fitzroy.formats import executorch as et
from fitzroy.formats import xnnpack
from fitzroy.formats.flat import ints


def quantizations(file: et.ProgramFile, plan: et.ExecutionPlan) -> dict[int, Quantization]:
    """Quantization of the values that a method exchanges with XNNPACK delegates, by index.

    Raises:
        FormatError: the data of a delegate is malformed.
    """
    found: dict[int, Quantization] = {}
    delegates = plan.delegates or []
    for chain in plan.chains or ():
        for instruction in chain.instructions or ():
            step = instruction.instr_args
            if not isinstance(step, et.DelegateCall):
                continue
            delegate = delegates[step.delegate_index]
            if delegate.id != et.XNNPACK_BACKEND:
                continue
            blob = xnnpack.read_blob(file.delegate_data(delegate), path=file.path)
            arguments = ints(step.args)
            for external, quantization in _externals(blob.graph).items():
                if external < len(arguments):
                    found.setdefault(arguments[external], quantization)
    return found


def _externals(graph: xnnpack.XNNGraph) -> dict[int, Quantization]:
    found = {}
    for value in graph.xvalues or ():
        inner = value.value
        if not isinstance(inner, xnnpack.QuantizedTensorValue) or inner.tensor_value is None:
            continue
        parameters = inner.quant_params
        if isinstance(parameters, xnnpack.PerTensorQuant):
            found[inner.tensor_value.external_id] = Quantization(
                (parameters.scale,), (parameters.zero_point,)
            )
    found.pop(xnnpack.INVALID_ID, None)
    return found


def method_types(
    file: et.ProgramFile, plan: et.ExecutionPlan
) -> tuple[list[TensorType | None], list[TensorType | None]]:
    """Types of a method's inputs and outputs, quantized where a delegate says so.

    Returns:
        inputs and outputs in order; None for what is no tensor that numpy can express.

    Raises:
        FormatError: the data of a delegate is malformed.
    """
    known = quantizations(file, plan)
    values = plan.values or []

    def type_of(index: int) -> TensorType | None:
        tensor = values[index].val
        if not isinstance(tensor, et.Tensor) or tensor.scalar_type not in et.DTYPES:
            return None
        type = TensorType(tensor.shape, et.DTYPES[tensor.scalar_type])
        return replace(type, quantization=known.get(index)) if type.dtype.is_integer else type

    return [type_of(i) for i in ints(plan.inputs)], [type_of(i) for i in ints(plan.outputs)]

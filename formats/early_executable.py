"""Executables of the first compilers for the Edge TPU, from before there were packages.

Until 2019, the options of the operator held executables one by one: key "4" the one that computes,
and key "3", where there is one, another that loads its parameters first. Their layers have no
element type and no executions of their own; all elements are unsigned bytes, or what the outputs
say. Nor do executables have a type or a caching token: which is which is said by their keys.

Facts: the published reader of the options, whose comments name the keys, and a published model,
``mobilenet_quant_v1_224_feature_layers-custom_op`` of google-coral/edgetpu.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fitzroy.base.types import Array
from fitzroy.formats import darwinn, flat
from fitzroy.formats.darwinn import (
    PAGE_ALIGNMENT,
    DmaHints,
    Executable,
    ExecutableType,
    InputLayer,
    InstructionBitstream,
    Layer,
    NumericsConstants,
    OutputLayer,
    PackageFile,
)
from fitzroy.formats.flat import Table, scalar, string, table, tables, union, vector


@dataclass(eq=False, slots=True, kw_only=True)
class EarlyLayer(Table):
    """An input or output of a model."""

    name: str | None = string()
    size_bytes: int = scalar("i4")
    y_dim: int = scalar("i4")
    x_dim: int = scalar("i4")
    z_dim: int = scalar("i4")
    numerics: NumericsConstants | None = table(NumericsConstants)
    any_layer: OutputLayer | InputLayer | None = union((OutputLayer, InputLayer))

    def layer(self) -> Layer:
        """The same as a layer of a package."""
        output = self.any_layer if isinstance(self.any_layer, OutputLayer) else None
        fields = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        return Layer(**fields, data_type=output.data_type if output is not None else 0)


@dataclass(eq=False, slots=True, kw_only=True)
class EarlyExecutable(Table):
    """A program for the chip with its parameters and interface."""

    version: int = scalar("i4")
    name: str | None = string()
    serialized_model: Array | None = vector("u1")
    batch_size: int = scalar("i4")
    scratch_size_bytes: int = scalar("i4")
    instruction_bitstreams: list[InstructionBitstream] | None = tables(InstructionBitstream)
    parameters: Array | None = vector("u1", align=PAGE_ALIGNMENT)
    dma_hints: DmaHints | None = table(DmaHints)
    input_layers: list[EarlyLayer] | None = tables(EarlyLayer)
    output_layers: list[EarlyLayer] | None = tables(EarlyLayer)

    def executable(self, kind: ExecutableType, token: int) -> Executable:
        """The same as an executable of a package.

        Args:
            kind: the part that it plays.
            token: its parameter caching token, 0 for none.
        """
        fields = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for name in ("input_layers", "output_layers"):
            if fields[name] is not None:
                fields[name] = [layer.layer() for layer in fields[name]]
        return Executable(**fields, type=int(kind), parameter_caching_token=token)


def read_executables(
    main: memoryview,
    caching: memoryview | None,
    path: str = "",
    offsets: tuple[int, int] = (0, 0),
) -> PackageFile:
    """Executables from the options of an operator as a package.

    Bytes and vectors are views of the arguments.

    Args:
        main: the executable that computes.
        caching: the one that loads its parameters, None if there is none.
        path: name of the file, for errors.
        offsets: where both begin in that file, in the order of the arguments.

    Raises:
        FormatError: the bytes are malformed, or the runtime would refuse what they say.
    """
    last = flat.decode(EarlyExecutable, main, path=path, base=offsets[0])
    if caching is None:
        alone = last.executable(ExecutableType.STAND_ALONE, 0)
        return darwinn.package_of([alone], path, offsets[:1])
    first = flat.decode(EarlyExecutable, caching, path=path, base=offsets[1])
    # The driver of the time loaded parameters for every model anew.
    token = darwinn.caching_token([first.parameters] if first.parameters is not None else [])
    pair = [
        first.executable(ExecutableType.PARAMETER_CACHING, token),
        last.executable(ExecutableType.EXECUTION_ONLY, token),
    ]
    return darwinn.package_of(pair, path, (offsets[1], offsets[0]))

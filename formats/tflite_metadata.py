"""TFLite's metadata of a model, as far as it says which packed files are lists of labels.

The metadata are a FlatBuffers file of their own in a buffer of the model. What describes images,
processing and statistics is not declared here: it is skipped when read, and such tables are never
written again.

Facts: the published schema ``metadata_schema.fbs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fitzroy.formats.flat import Table, scalar, skipped, string, tables

IDENTIFIER = b"M001"

PARSER = "1.0.0"
"""The oldest parser that reads all that is written here."""


class FileType(IntEnum):
    """What a packed file is for."""

    UNKNOWN = 0
    DESCRIPTIONS = 1
    TENSOR_AXIS_LABELS = 2
    TENSOR_VALUE_LABELS = 3


@dataclass(eq=False, slots=True, kw_only=True)
class AssociatedFile(Table):
    """A packed file."""

    name: str | None = string()
    description: str | None = string()
    type: int = scalar("i1")
    locale: str | None = string()
    version: str | None = string()


@dataclass(eq=False, slots=True, kw_only=True)
class TensorMetadata(Table):
    """An input or output; dimension names, content, process units and statistics are skipped."""

    name: str | None = string()
    description: str | None = string()
    _others: None = skipped(4)
    associated_files: list[AssociatedFile] | None = tables(AssociatedFile)


@dataclass(eq=False, slots=True, kw_only=True)
class SubGraphMetadata(Table):
    """A subgraph; what comes after its files is skipped."""

    name: str | None = string()
    description: str | None = string()
    input_tensor_metadata: list[TensorMetadata] | None = tables(TensorMetadata)
    output_tensor_metadata: list[TensorMetadata] | None = tables(TensorMetadata)
    associated_files: list[AssociatedFile] | None = tables(AssociatedFile)


@dataclass(eq=False, slots=True, kw_only=True)
class ModelMetadata(Table):
    """The root table."""

    name: str | None = string()
    description: str | None = string()
    version: str | None = string()
    subgraph_metadata: list[SubGraphMetadata] | None = tables(SubGraphMetadata)
    author: str | None = string()
    license: str | None = string()
    associated_files: list[AssociatedFile] | None = tables(AssociatedFile)
    min_parser_version: str | None = string()

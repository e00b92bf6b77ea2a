"""Digests by which a package knows the model that it was compiled from.

Weights in packages are rearranged, and scales are multiplied into others, so that a package does
not show its source. The compiler keeps two digests of each operator instead, in the compilation
record of the model around the package.
"""

from __future__ import annotations

from dataclasses import dataclass

DIGEST_BYTES = 8


@dataclass(frozen=True, slots=True)
class OperatorDigest:
    """An operator of a source.

    Attributes:
        name: its first result, for people.
        form: digest of what it is: operator, attributes, whose results it takes, and the shape,
            element type and quantization of operands and results; hexadecimal.
        constants: digest of the elements of its constant operands; hexadecimal.
    """

    name: str
    form: str
    constants: str

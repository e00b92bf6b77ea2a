"""How well a fact about the hardware is known."""

from __future__ import annotations

from enum import Enum


class Evidence(Enum):
    """Level of evidence of a fact, strongest first; the value is the sentence for documentation.

    Facts whose sources disagree on the level carry the weaker one.
    """

    CONFIRMED = "checked against independent data in every instance"
    MEASURED = "published reading of an instrument, or capture of a real device's traffic"
    SOURCE = "read in the published driver or firmware, or observed when it runs"
    DERIVED = "computed from other facts"
    FITTED = "parameter of a model that reproduces published measurements"
    LIKELY = "consistent with everything seen, not separately testable"
    ASSUMED = "chosen; nothing contradicts it"
    UNKNOWN = "no evidence"

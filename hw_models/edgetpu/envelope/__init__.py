"""What every published program keeps to: properties, their ranges, and programs measured."""

from fitzroy.hw_models.edgetpu.envelope.check import (
    Departure,
    Measured,
    departures,
    measured,
    range_text,
)
from fitzroy.hw_models.edgetpu.envelope.declaration import PROPERTIES, Bound, Property, Risk
from fitzroy.hw_models.edgetpu.envelope.program import Place, Program, Value
from fitzroy.hw_models.edgetpu.envelope.published import Published, published

__all__ = [
    "PROPERTIES",
    "Bound",
    "Departure",
    "Measured",
    "Place",
    "Program",
    "Property",
    "Published",
    "Risk",
    "Value",
    "departures",
    "measured",
    "published",
    "range_text",
]

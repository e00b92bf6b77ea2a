"""The name by which scripts import the timing of packages; it is `execution.estimate`."""

from fitzroy.execution.estimate import Conditions, StepFigures, estimate, steps

__all__ = ["Conditions", "StepFigures", "estimate", "steps"]

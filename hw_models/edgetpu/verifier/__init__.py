"""Checks of the synchronization of programs."""

from fitzroy.hw_models.edgetpu.verifier.record import record
from fitzroy.hw_models.edgetpu.verifier.rules import RULES, Finding, Rule
from fitzroy.hw_models.edgetpu.verifier.verify import verify

__all__ = ["RULES", "Finding", "Rule", "record", "verify"]

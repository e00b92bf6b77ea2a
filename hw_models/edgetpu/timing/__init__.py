"""When everything on the chip happens: the timing model."""

from fitzroy.hw_models.edgetpu.timing.model import simulate

__all__ = ["simulate"]

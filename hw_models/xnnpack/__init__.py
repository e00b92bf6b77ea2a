"""Oracle: executes serialized XNNPACK graphs with numpy."""

from fitzroy.hw_models.xnnpack.execute import execute
from fitzroy.hw_models.xnnpack.nodes import NODES

__all__ = ["NODES", "execute"]

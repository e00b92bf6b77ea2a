"""All portable kernels: importing this module registers every family."""

from fitzroy.compiler.targets.executorch import kernels, plain
from fitzroy.compiler.targets.executorch.kernels import KERNELS

__all__ = ["KERNELS", "kernels", "plain"]

"""Model of the ExecuTorch runtime: executes programs with numpy."""

from fitzroy.hw_models.executorch.interpreter import MethodModel, run_method
from fitzroy.hw_models.executorch.kernels import KERNELS, Kernel

__all__ = ["KERNELS", "Kernel", "MethodModel", "run_method"]

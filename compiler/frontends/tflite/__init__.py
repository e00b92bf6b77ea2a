"""TFLite models to graphs and back."""

from fitzroy.compiler.frontends.tflite.exporter import export_model
from fitzroy.compiler.frontends.tflite.importer import import_model, is_faithful
from fitzroy.compiler.frontends.tflite.names import named

__all__ = ["export_model", "import_model", "is_faithful", "named"]

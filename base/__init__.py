"""What every layer shares: errors, diagnostics, element types, quantization."""

"""File formats: codecs between bytes and dataclasses."""

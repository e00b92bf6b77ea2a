"""Relocatable objects: their assembly text, and recovery from compiled packages."""

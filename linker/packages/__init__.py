"""Containers that a runtime loads."""

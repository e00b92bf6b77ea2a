"""Interpreters, devices and labels."""

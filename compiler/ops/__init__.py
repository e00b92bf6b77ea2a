"""Operators: one declaration each, in one file per family.

Import `fitzroy.compiler.ops.catalog` to have all of them registered.
"""

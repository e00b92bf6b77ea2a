"""Instruction set of the beagle Edge TPU: one declaration per opcode.

A program is a list of instructions; `catalog` finds the declaration of an opcode, `program` reads
and writes bitstreams, `text` is the assembly language.
"""

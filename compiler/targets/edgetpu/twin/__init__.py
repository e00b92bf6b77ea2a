"""The twin of a program: a graph computed in the chip's arithmetic, without the chip's program.

`semantics` says what every operator gives, to the byte, and `published` what it gives in programs
of Google's compiler; `kernels` compute nearly all of them fast, by `filters`, `elementwise` and
`places` on the `codes` of elements; `twin` runs a graph with both, and `source` tells whether a
graph is the one that a program was compiled from.
"""

"""The twin of a program: a graph computed in the chip's arithmetic, without the chip's program.

`semantics` says what every operator gives, to the byte; `kernels` compute the frequent ones fast;
`twin` runs a graph with both.
"""

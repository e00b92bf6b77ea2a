"""Weights fitted to rounded inputs by least squares, and rounded one after the other."""
from __future__ import annotations
class Fitter:
    def parameters(self, given, wanted, active): return given
def fitter(graph,node,arrays): return None

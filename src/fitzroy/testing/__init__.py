"""Tests of compiled models: what they compute, what they cost, and how both change."""

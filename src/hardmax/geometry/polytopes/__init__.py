"""Polytopes and their Minkowski sums, vertex by vertex."""

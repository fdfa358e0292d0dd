"""Cells of ReLU networks on convex polygons of the plane."""

"""Cells of ReLU networks on boxes and polytopes of any dimension."""

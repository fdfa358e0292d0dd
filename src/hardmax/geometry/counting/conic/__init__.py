"""Cells of hard Transformers on a plane on which all tokens move: walls are conics."""

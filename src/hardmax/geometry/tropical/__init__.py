"""Maxima of affine functions with exact coefficients: the inner waist of the room."""

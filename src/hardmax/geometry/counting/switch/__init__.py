"""Cells and regions of whatever chooses by an argmax of affine forms."""

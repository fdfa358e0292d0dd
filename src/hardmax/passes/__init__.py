"""Constructions become constructions; each pass says how the claim changes."""

from hardmax.passes._soften import soften as soften

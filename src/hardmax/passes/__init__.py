"""Constructions become constructions; each pass says how the claim changes."""

from hardmax.passes._disguise import add_noise as add_noise
from hardmax.passes._disguise import legible_circuit as legible_circuit
from hardmax.passes._disguise import rotate as rotate
from hardmax.passes._disguise import with_weights as with_weights
from hardmax.passes._soften import soften as soften

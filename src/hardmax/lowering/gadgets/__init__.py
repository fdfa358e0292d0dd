"""Heads and layers with a theorem each."""

from hardmax.lowering.gadgets._averaging import averaging_head as averaging_head
from hardmax.lowering.gadgets._gate import GatedPiece as GatedPiece
from hardmax.lowering.gadgets._gate import gated_pieces as gated_pieces
from hardmax.lowering.gadgets._maximum import maximum_head as maximum_head
from hardmax.lowering.gadgets._rectifier import rectifier_head as rectifier_head
from hardmax.lowering.gadgets._switch import switched_map_head as switched_map_head

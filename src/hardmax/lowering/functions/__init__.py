"""Functions lowered node by node, along one way or another."""

from hardmax.lowering.functions._compose import compose as compose
from hardmax.lowering.functions._proposal import FORMATS as FORMATS
from hardmax.lowering.functions._proposal import Proposal as Proposal
from hardmax.lowering.functions._universal import propose_pieces as propose_pieces
from hardmax.lowering.functions._universal import propose_universal as propose_universal
from hardmax.lowering.functions._ways import WAYS as WAYS
from hardmax.lowering.functions._ways import Way as Way
from hardmax.lowering.functions._ways import differing_ways as differing_ways
from hardmax.lowering.functions._ways import recipe as recipe

"""Functions lowered node by node, along one way or another."""

from hardmax.lowering.functions._compose import compose as compose
from hardmax.lowering.functions._proposal import Proposal as Proposal
from hardmax.lowering.functions._ways import WAYS as WAYS
from hardmax.lowering.functions._proposal import FORMATS as FORMATS

"""Functions lowered node by node, along one route or another."""

from hardmax.lowering.functions._compose import compose as compose
from hardmax.lowering.functions._proposal import Proposal as Proposal
from hardmax.lowering.functions._route_gadgets import ROUTE_GADGETS as ROUTE_GADGETS
from hardmax.lowering.functions._route_gadgets import RouteGadgets as RouteGadgets
from hardmax.lowering.functions._route_gadgets import differing_routes as differing_routes
from hardmax.lowering.functions._route_gadgets import is_native as is_native
from hardmax.lowering.functions._route_gadgets import is_square as is_square
from hardmax.lowering.functions._route_gadgets import recipe as recipe

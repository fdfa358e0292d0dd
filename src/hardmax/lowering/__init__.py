"""From source to Construction."""

from hardmax.lowering._planner import PREFERENCES as PREFERENCES
from hardmax.lowering._planner import Offer as Offer
from hardmax.lowering._planner import Plan as Plan
from hardmax.lowering._planner import RoutePlan as RoutePlan
from hardmax.lowering._planner import as_target as as_target
from hardmax.lowering._planner import domain_of as domain_of
from hardmax.lowering._planner import is_function as is_function
from hardmax.lowering._sizing import DECADES as DECADES
from hardmax.lowering._sizing import RouteCurve as RouteCurve
from hardmax.lowering._sizing import SizingCurve as SizingCurve
from hardmax.lowering._sizing import SizingPoint as SizingPoint
from hardmax.lowering._sizing import sizing_curve as sizing_curve
from hardmax.lowering.functions._routes import lower_function as lower_function
from hardmax.lowering.functions._routes import plan_function as plan_function
from hardmax.lowering.networks._offers import plan_network as plan_network
from hardmax.lowering.networks._routes import lower as lower
from hardmax.lowering.networks._routes import routes_for as routes_for
from hardmax.lowering.programs import ProgramPlan as ProgramPlan
from hardmax.lowering.programs import lower_program as lower_program
from hardmax.lowering.programs import plan_program as plan_program
from hardmax.lowering.programs import words_for as words_for

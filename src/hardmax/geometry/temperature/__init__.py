"""How close softmax attention is to its hard skeleton: gaps, walls, and what they guarantee."""

from hardmax.geometry.temperature._arrays import stability_of as stability_of
from hardmax.geometry.temperature._curvature import hessian_bound as hessian_bound
from hardmax.geometry.temperature._curvature import jacobian_bound as jacobian_bound
from hardmax.geometry.temperature._curvature import spread_share as spread_share
from hardmax.geometry.temperature._lemmas import distance_for_error as distance_for_error
from hardmax.geometry.temperature._lemmas import gradient_bound as gradient_bound
from hardmax.geometry.temperature._lemmas import output_bound as output_bound
from hardmax.geometry.temperature._lemmas import temperature_for_outputs as temperature_for_outputs
from hardmax.geometry.temperature._lemmas import temperature_for_weights as temperature_for_weights
from hardmax.geometry.temperature._lemmas import value_bound as value_bound
from hardmax.geometry.temperature._lemmas import weight_bound as weight_bound
from hardmax.geometry.temperature._model import stability as stability
from hardmax.geometry.temperature._published import PublishedExample as PublishedExample
from hardmax.geometry.temperature._table import HeadStability as HeadStability
from hardmax.geometry.temperature._table import Kind as Kind
from hardmax.geometry.temperature._table import Stability as Stability
from hardmax.geometry.temperature._table import StabilityReport as StabilityReport

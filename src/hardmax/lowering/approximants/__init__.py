"""Functions of one variable, approximated with a proved sup error. Knows no Transformer."""

from hardmax.lowering.approximants._anchors import MOST_FOR_WAVES as MOST_FOR_WAVES
from hardmax.lowering.approximants._anchors import AnchorFit as AnchorFit
from hardmax.lowering.approximants._anchors import anchors_for as anchors_for
from hardmax.lowering.approximants._anchors import fit_anchors as fit_anchors
from hardmax.lowering.approximants._curve import Curve as Curve
from hardmax.lowering.approximants._knots import MOST_PIECES as MOST_PIECES
from hardmax.lowering.approximants._knots import PiecewiseFit as PiecewiseFit
from hardmax.lowering.approximants._knots import fit_knots as fit_knots
from hardmax.lowering.approximants._knots_given import fit_knots_from_bound as fit_knots_from_bound
from hardmax.lowering.approximants._knots_given import fit_knots_lipschitz as fit_knots_lipschitz
from hardmax.lowering.approximants._sigmoids import MOST_SIGMOIDS as MOST_SIGMOIDS
from hardmax.lowering.approximants._sigmoids import SigmoidSum as SigmoidSum
from hardmax.lowering.approximants._sigmoids import SigmoidTerm as SigmoidTerm
from hardmax.lowering.approximants._sigmoids import fit_sigmoids as fit_sigmoids
from hardmax.lowering.approximants._sigmoids import sigmoids_for as sigmoids_for
from hardmax.lowering.approximants._sigmoids_in_format import (
    sigmoids_in_format as sigmoids_in_format,
)
from hardmax.lowering.approximants._softening import Softening as Softening
from hardmax.lowering.approximants._softening import coldness_for as coldness_for
from hardmax.lowering.approximants._softening import softening as softening
from hardmax.lowering.approximants._supremum import supremum as supremum
from hardmax.lowering.approximants._tanh_sums import TanhSum as TanhSum
from hardmax.lowering.approximants._tanh_sums import identity_by_tanh as identity_by_tanh
from hardmax.lowering.approximants._tanh_sums import square_by_tanh as square_by_tanh
from hardmax.lowering.approximants._universal import COARSE_FLATNESS as COARSE_FLATNESS
from hardmax.lowering.approximants._universal import FLATNESS as FLATNESS
from hardmax.lowering.approximants._universal import GridFit as GridFit
from hardmax.lowering.approximants._universal import grid_for as grid_for
from hardmax.lowering.approximants._universal import mean_distance as mean_distance

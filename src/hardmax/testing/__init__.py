"""Random networks, exact points and plain oracles for property tests; needs Hypothesis."""

from hardmax.testing._oracles import by_definition as by_definition
from hardmax.testing._oracles import rounding_bound as rounding_bound
from hardmax.testing._strategies import boxes as boxes
from hardmax.testing._strategies import dyadics as dyadics
from hardmax.testing._strategies import max_affine_functions as max_affine_functions
from hardmax.testing._strategies import maxout_networks as maxout_networks
from hardmax.testing._strategies import networks as networks
from hardmax.testing._strategies import networks_at_points as networks_at_points
from hardmax.testing._strategies import piecewise_linear_functions as piecewise_linear_functions
from hardmax.testing._strategies import rational_points as rational_points
from hardmax.testing._strategies import relu_networks as relu_networks

"""What can be said: networks and piecewise linear functions, each with its own interpreter."""

from hardmax.languages._decoding import decode_target as decode_target
from hardmax.languages._max_affine import MaxAffine as MaxAffine
from hardmax.languages._maxout import MaxoutNetwork as MaxoutNetwork
from hardmax.languages._network_files import load_network as load_network
from hardmax.languages._network_files import save_network as save_network
from hardmax.languages._piecewise import PiecewiseLinear as PiecewiseLinear
from hardmax.languages._relu import ReluNetwork as ReluNetwork

"""Operators of networks, one small function each: what they add to a straight-line program."""

from hardmax.languages.networks.operators import _affine as _affine
from hardmax.languages.networks.operators import _arrangement as _arrangement
from hardmax.languages.networks.operators import _functions as _functions
from hardmax.languages.networks.operators import _pooling as _pooling
from hardmax.languages.networks.operators._registry import ONNX as ONNX
from hardmax.languages.networks.operators._registry import TORCH as TORCH
from hardmax.languages.networks.operators._registry import draw as draw
from hardmax.languages.networks.operators._registry import (
    unsupported_operator as unsupported_operator,
)
from hardmax.languages.networks.operators._wiring import Wires as Wires
from hardmax.languages.networks.operators._wiring import Wiring as Wiring

"""What can be said: networks, piecewise linear functions and expressions, each interpreted."""

from hardmax.languages._callable import CallableFunction as CallableFunction
from hardmax.languages._decoding import decode_target as decode_target
from hardmax.languages.expressions._derivative import derivative as derivative
from hardmax.languages.expressions._domain import check_domain as check_domain
from hardmax.languages.expressions._expression import Apply as Apply
from hardmax.languages.expressions._expression import Expression as Expression
from hardmax.languages.expressions._expression import Number as Number
from hardmax.languages.expressions._expression import Variable as Variable
from hardmax.languages.expressions._expression import add as add
from hardmax.languages.expressions._expression import as_expression as as_expression
from hardmax.languages.expressions._expression import divide as divide
from hardmax.languages.expressions._expression import multiply as multiply
from hardmax.languages.expressions._expression import postorder as postorder
from hardmax.languages.expressions._expression import power as power
from hardmax.languages.expressions._expression import split_coefficient as split_coefficient
from hardmax.languages.expressions._function import Function as Function
from hardmax.languages.expressions._rewriting import build as build
from hardmax.languages.expressions._rewriting import substitute as substitute
from hardmax.languages.expressions._sorting import sorting_network as sorting_network
from hardmax.languages.expressions._text import parse as parse
from hardmax.languages.expressions._values import ball_value as ball_value
from hardmax.languages.expressions._values import evaluate as evaluate
from hardmax.languages.expressions._values import evaluate_all as evaluate_all
from hardmax.languages.expressions.words import *  # noqa: F403 - `__all__` lists them
from hardmax.languages.networks._files import load_network as load_network
from hardmax.languages.networks._files import save_network as save_network
from hardmax.languages.networks._layered import LayeredNetwork as LayeredNetwork
from hardmax.languages.networks._layered import from_torch as from_torch
from hardmax.languages.networks._max_affine import MaxAffine as MaxAffine
from hardmax.languages.networks._maxout import MaxoutNetwork as MaxoutNetwork
from hardmax.languages.networks._piecewise import PiecewiseLinear as PiecewiseLinear
from hardmax.languages.networks._relu import ReluNetwork as ReluNetwork

"""Exact rationals, outward-rounded intervals and the constants of softmax. Knows no head."""

from hardmax.numerics._arrays import exact as exact
from hardmax.numerics._arrays import finite_array as finite_array
from hardmax.numerics._arrays import frozen_array as frozen_array
from hardmax.numerics._interval import Interval as Interval
from hardmax.numerics._lambert import lambert_w as lambert_w
from hardmax.numerics._lambert import softmax_gap as softmax_gap
from hardmax.numerics._projection import Projection as Projection
from hardmax.numerics._rounding import LARGEST as LARGEST
from hardmax.numerics._rounding import UNIT_ROUNDOFF as UNIT_ROUNDOFF
from hardmax.numerics._rounding import gamma as gamma
from hardmax.numerics._rounding import inflate as inflate
from hardmax.numerics._rounding import is_coarse as is_coarse
from hardmax.numerics._rounding import is_power_of_two as is_power_of_two
from hardmax.numerics._rounding import is_representable as is_representable
from hardmax.numerics._rounding import stray as stray

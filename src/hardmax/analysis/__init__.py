"""Ranges, deviations and rounding of a Transformer: one forward pass of proof.

Lowerings and passes read it; the checker has its own and believes none of it. It also supplies
the one number of a bill that is not counted but bounded, the largest logit.
"""

from hardmax.analysis._contests import NEGLIGIBLE as NEGLIGIBLE
from hardmax.analysis._flow import Flow as Flow
from hardmax.analysis._flow import follow as follow
from hardmax.analysis._flow import largest_logit as largest_logit
from hardmax.analysis._flow import rounding_bound as rounding_bound
from hardmax.analysis._outlines import Reach as Reach
from hardmax.core import bound_logits_with

bound_logits_with(largest_logit)

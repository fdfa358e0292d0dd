"""A zoo, mutations and a dense search; random networks and plain oracles. Needs Hypothesis."""

from hardmax.testing._claim_cases import ClaimCase as ClaimCase
from hardmax.testing._claim_cases import claim_case as claim_case
from hardmax.testing._claim_cases import claim_fault as claim_fault
from hardmax.testing._claim_cases import claims_around as claims_around
from hardmax.testing._float_oracle import RoundingCase as RoundingCase
from hardmax.testing._float_oracle import rounding_part as rounding_part
from hardmax.testing._float_oracle import run_in_format as run_in_format
from hardmax.testing._float_oracle import transformer_at_the_edge as transformer_at_the_edge
from hardmax.testing._mutations import MUTATIONS as MUTATIONS
from hardmax.testing._mutations import Mutant as Mutant
from hardmax.testing._mutations import mutate as mutate
from hardmax.testing._oracles import by_definition as by_definition
from hardmax.testing._oracles import rounding_bound as rounding_bound
from hardmax.testing._outward_law import coarse_steps as coarse_steps
from hardmax.testing._outward_law import exactly as exactly
from hardmax.testing._outward_law import falls_below as falls_below
from hardmax.testing._outward_law import full_floats as full_floats
from hardmax.testing._outward_law import sizes_looked_at as sizes_looked_at
from hardmax.testing._programs import CONSTRUCTS as CONSTRUCTS
from hardmax.testing._programs import RandomProgram as RandomProgram
from hardmax.testing._programs import random_program as random_program
from hardmax.testing._random_transformers import Kind as Kind
from hardmax.testing._random_transformers import (
    random_sequence_transformer as random_sequence_transformer,
)
from hardmax.testing._random_transformers import (
    random_vector_transformer as random_vector_transformer,
)
from hardmax.testing._region_oracle import QuadraticScore as QuadraticScore
from hardmax.testing._region_oracle import cells_by_definition as cells_by_definition
from hardmax.testing._region_oracle import counts_by_definition as counts_by_definition
from hardmax.testing._search import belied as belied
from hardmax.testing._search import breaks as breaks
from hardmax.testing._search import errors_at as errors_at
from hardmax.testing._search import hard_points as hard_points
from hardmax.testing._search import has_a_hole as has_a_hole
from hardmax.testing._search import surely_broken as surely_broken
from hardmax.testing._search import true_outputs as true_outputs
from hardmax.testing._search import worst_points as worst_points
from hardmax.testing._strategies import boxes as boxes
from hardmax.testing._strategies import dyadics as dyadics
from hardmax.testing._strategies import max_affine_functions as max_affine_functions
from hardmax.testing._strategies import maxout_networks as maxout_networks
from hardmax.testing._strategies import networks as networks
from hardmax.testing._strategies import networks_at_points as networks_at_points
from hardmax.testing._strategies import piecewise_linear_functions as piecewise_linear_functions
from hardmax.testing._strategies import rational_points as rational_points
from hardmax.testing._strategies import relu_networks as relu_networks
from hardmax.testing._targets import StepsTarget as StepsTarget
from hardmax.testing._targets import WordTable as WordTable
from hardmax.testing._targets import steps_of_transformer as steps_of_transformer
from hardmax.testing._trials import UNTOUCHED as UNTOUCHED
from hardmax.testing._trials import Trial as Trial
from hardmax.testing._trials import fault_of as fault_of
from hardmax.testing._trials import try_mutant as try_mutant
from hardmax.testing._trials import try_untouched as try_untouched
from hardmax.testing._zoo import Specimen as Specimen
from hardmax.testing._zoo import random_maxout as random_maxout
from hardmax.testing._zoo import random_relu as random_relu
from hardmax.testing._zoo import zoo as zoo

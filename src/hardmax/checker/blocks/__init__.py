"""The proof of legible models, block by block, from weights, claim, steps and circuit alone."""

from hardmax.checker.blocks._holding import Holdings as Holdings
from hardmax.checker.blocks._holding import Question as Question
from hardmax.checker.blocks._prove import BlockProof as BlockProof
from hardmax.checker.blocks._prove import assumptions as assumptions
from hardmax.checker.blocks._prove import statements as statements
from hardmax.checker.blocks._sets import ClosedSets as ClosedSets
from hardmax.checker.blocks._sets import Unproved as Unproved

"""Construction -> Certificate. Sees weights, a claim and a target, and trusts nobody."""

from hardmax.checker._budget import Budget as Budget
from hardmax.checker._budget import Progress as Progress
from hardmax.checker._budget import Standing as Standing
from hardmax.checker._certificate import Certificate as Certificate
from hardmax.checker._certificate import Verdict as Verdict
from hardmax.checker._certify import certify as certify
from hardmax.checker.blocks import ClosedSets as ClosedSets
from hardmax.checker.blocks import Unproved as Unproved

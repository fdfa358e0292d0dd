"""Branch and bound: forms on thousands of boxes at once, and everything that makes them few."""

from hardmax.checker.boxes._compile_tape import Problem as Problem
from hardmax.checker.boxes._compile_tape import Unsuitable as Unsuitable
from hardmax.checker.boxes._compile_tape import needed as needed
from hardmax.checker.boxes._compile_tape import pose as pose
from hardmax.checker.boxes._cuts import bound_by_cut as bound_by_cut
from hardmax.checker.boxes._opaque import pose_against as pose_against
from hardmax.checker.boxes._search import Search as Search
from hardmax.checker.boxes._search import Watch as Watch
from hardmax.checker.boxes._small_box import HARD as HARD
from hardmax.checker.boxes._small_box import MOST_DIMENSIONS as MOST_DIMENSIONS
from hardmax.checker.boxes._small_box import SmallBoxes as SmallBoxes
from hardmax.checker.boxes._small_box import TooManyDimensions as TooManyDimensions
from hardmax.checker.boxes._small_box import bound_by_parts as bound_by_parts
from hardmax.checker.boxes._small_box import in_balls as in_balls
from hardmax.checker.boxes._tape import run as run

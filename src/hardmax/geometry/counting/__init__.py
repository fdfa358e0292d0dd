"""Linear regions of networks and of hard Transformers, counted exactly."""

from hardmax.geometry.counting._cells import LinearCell as LinearCell
from hardmax.geometry.counting._domains import Segment as Segment
from hardmax.geometry.counting._domains import Slice as Slice
from hardmax.geometry.counting._experiment import Experiment as Experiment
from hardmax.geometry.counting._experiment import ExperimentRow as ExperimentRow
from hardmax.geometry.counting._experiment import experiment as experiment
from hardmax.geometry.counting._public import input_width as input_width
from hardmax.geometry.counting._public import regions as regions
from hardmax.geometry.counting._public import skeleton as skeleton
from hardmax.geometry.counting._result import Adjacency as Adjacency
from hardmax.geometry.counting._result import Regions as Regions
from hardmax.geometry.counting._visits import Visits as Visits
from hardmax.geometry.counting.conic._counting import ConicRegions as ConicRegions
from hardmax.geometry.counting.conic._counting import conic_cells as conic_cells
from hardmax.geometry.counting.line._cells import LineCell as LineCell
from hardmax.geometry.counting.line._quadratic import QuadraticNumber as QuadraticNumber
from hardmax.geometry.counting.line._segments import LineBatch as LineBatch
from hardmax.geometry.counting.line._segments import LineRegions as LineRegions
from hardmax.geometry.counting.line._segments import line_breakpoints as line_breakpoints

"""Linear regions of networks and of hard Transformers, counted exactly."""

from hardmax.geometry.regions._cells import LinearCell as LinearCell
from hardmax.geometry.regions._conic import ConicRegions as ConicRegions
from hardmax.geometry.regions._conic import conic_cells as conic_cells
from hardmax.geometry.regions._domains import Segment as Segment
from hardmax.geometry.regions._domains import Slice as Slice
from hardmax.geometry.regions._experiment import Experiment as Experiment
from hardmax.geometry.regions._experiment import ExperimentRow as ExperimentRow
from hardmax.geometry.regions._experiment import experiment as experiment
from hardmax.geometry.regions._line import LineBatch as LineBatch
from hardmax.geometry.regions._line import LineRegions as LineRegions
from hardmax.geometry.regions._line import line_breakpoints as line_breakpoints
from hardmax.geometry.regions._line_cells import LineCell as LineCell
from hardmax.geometry.regions._public import input_width as input_width
from hardmax.geometry.regions._public import regions as regions
from hardmax.geometry.regions._public import skeleton as skeleton
from hardmax.geometry.regions._quadratic import QuadraticNumber as QuadraticNumber
from hardmax.geometry.regions._result import Adjacency as Adjacency
from hardmax.geometry.regions._result import Regions as Regions
from hardmax.geometry.regions._visits import Visits as Visits

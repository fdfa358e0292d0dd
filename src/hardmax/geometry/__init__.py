"""The exact geometry of heads and networks: power diagrams, polytopes, bounds, stability."""

from hardmax.geometry import bounds as bounds
from hardmax.geometry._cells import Cell as Cell
from hardmax.geometry._cells import Side as Side
from hardmax.geometry._depth import depth_construction as depth_construction
from hardmax.geometry._diagram import PowerDiagram as PowerDiagram
from hardmax.geometry._diagram import power_diagram as power_diagram
from hardmax.geometry._head_diagram import head_diagram as head_diagram
from hardmax.geometry._hull import Hull as Hull
from hardmax.geometry._hull import convex_hull as convex_hull
from hardmax.geometry._minkowski import MinkowskiSum as MinkowskiSum
from hardmax.geometry._minkowski import minkowski_sum as minkowski_sum
from hardmax.geometry._points import Points as Points
from hardmax.geometry._polytope import Polytope as Polytope
from hardmax.geometry._rational import least_solution as least_solution
from hardmax.geometry._top_k import TopKDiagram as TopKDiagram
from hardmax.geometry._top_k import top_k_diagram as top_k_diagram
from hardmax.geometry._tropical import Tropical as Tropical
from hardmax.geometry._tropical_rational import TropicalRational as TropicalRational
from hardmax.geometry._tropical_refinement import common_refinement as common_refinement
from hardmax.geometry.temperature import Stability as Stability
from hardmax.geometry.temperature import StabilityReport as StabilityReport
from hardmax.geometry.temperature import stability as stability
from hardmax.geometry.temperature import stability_of as stability_of

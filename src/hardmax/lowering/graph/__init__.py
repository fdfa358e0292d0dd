"""An expression as a graph of few, large nodes, and what errors do in it."""

from hardmax.lowering.graph._analysis import Analysis as Analysis
from hardmax.lowering.graph._analysis import analyse as analyse
from hardmax.lowering.graph._analysis import opaque_analysis as opaque_analysis
from hardmax.lowering.graph._graph import NONLINEAR as NONLINEAR
from hardmax.lowering.graph._graph import CurveNode as CurveNode
from hardmax.lowering.graph._graph import Graph as Graph
from hardmax.lowering.graph._graph import InputNode as InputNode
from hardmax.lowering.graph._graph import LinearNode as LinearNode
from hardmax.lowering.graph._graph import MaximumNode as MaximumNode
from hardmax.lowering.graph._graph import MinimumNode as MinimumNode
from hardmax.lowering.graph._graph import Node as Node
from hardmax.lowering.graph._graph import OpaqueNode as OpaqueNode
from hardmax.lowering.graph._graph import ProductNode as ProductNode
from hardmax.lowering.graph._graph import QuotientNode as QuotientNode
from hardmax.lowering.graph._graph import SoftmaxNode as SoftmaxNode
from hardmax.lowering.graph._graph import T as T
from hardmax.lowering.graph._graph import build_graph as build_graph
from hardmax.lowering.graph._graph import opaque_graph as opaque_graph
from hardmax.lowering.graph._graph import with_quotients as with_quotients

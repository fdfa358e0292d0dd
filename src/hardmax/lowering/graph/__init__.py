"""An expression as a graph of few, large nodes, and what errors do in it."""

from hardmax.lowering.graph._analysis import Analysis as Analysis
from hardmax.lowering.graph._analysis import analyse as analyse
from hardmax.lowering.graph._analysis import opaque_analysis as opaque_analysis
from hardmax.lowering.graph._graph import T as T
from hardmax.lowering.graph._graph import as_line as as_line
from hardmax.lowering.graph._graph import build_graph as build_graph
from hardmax.lowering.graph._graph import opaque_graph as opaque_graph
from hardmax.lowering.graph._graph import with_quotients as with_quotients
from hardmax.lowering.graph._nodes import NONLINEAR as NONLINEAR
from hardmax.lowering.graph._nodes import CurveNode as CurveNode
from hardmax.lowering.graph._nodes import Graph as Graph
from hardmax.lowering.graph._nodes import InputNode as InputNode
from hardmax.lowering.graph._nodes import LinearNode as LinearNode
from hardmax.lowering.graph._nodes import MaximumNode as MaximumNode
from hardmax.lowering.graph._nodes import MinimumNode as MinimumNode
from hardmax.lowering.graph._nodes import Node as Node
from hardmax.lowering.graph._nodes import OpaqueNode as OpaqueNode
from hardmax.lowering.graph._nodes import ProductNode as ProductNode
from hardmax.lowering.graph._nodes import QuotientNode as QuotientNode
from hardmax.lowering.graph._nodes import SoftmaxNode as SoftmaxNode
from hardmax.lowering.graph._on_domain import simplified as simplified
from hardmax.lowering.graph._on_domain import softened as softened
from hardmax.lowering.graph._on_domain import softening as softening
from hardmax.lowering.graph._on_domain import with_fixed as with_fixed

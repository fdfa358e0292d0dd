"""How many cells an architecture can have: exact bounds, with theorem, hypotheses and weights."""

from hardmax.geometry.bounds._architecture import Architecture as Architecture
from hardmax.geometry.bounds._attaining import Keys as Keys
from hardmax.geometry.bounds._attaining import attaining_keys as attaining_keys
from hardmax.geometry.bounds._bound import Bound as Bound
from hardmax.geometry.bounds._bound import scientific as scientific
from hardmax.geometry.bounds._compare import Comparison as Comparison
from hardmax.geometry.bounds._compare import Rival as Rival
from hardmax.geometry.bounds._compare import compare as compare
from hardmax.geometry.bounds._heads import several_heads as several_heads
from hardmax.geometry.bounds._heads import single_head as single_head
from hardmax.geometry.bounds._heads import standard_split as standard_split
from hardmax.geometry.bounds._heads import two_polygons as two_polygons
from hardmax.geometry.bounds._layers import deep_stack as deep_stack
from hardmax.geometry.bounds._layers import feed_forward as feed_forward
from hardmax.geometry.bounds._layers import folding_network as folding_network
from hardmax.geometry.bounds._layers import maxout_layer as maxout_layer
from hardmax.geometry.bounds._networks import maxout_network as maxout_network
from hardmax.geometry.bounds._networks import maxout_network_lower as maxout_network_lower
from hardmax.geometry.bounds._networks import product_of_arrangements as product_of_arrangements
from hardmax.geometry.bounds._networks import relu_network as relu_network
from hardmax.geometry.bounds._networks import relu_network_lower as relu_network_lower
from hardmax.geometry.bounds._recipe import Recipe as Recipe
from hardmax.geometry.bounds._transformer import TransformerBounds as TransformerBounds
from hardmax.geometry.bounds._transformer import transformer as transformer

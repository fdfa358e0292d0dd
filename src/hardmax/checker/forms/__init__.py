"""Exact forms over atoms: a Transformer and its target, written out in one alphabet."""

from hardmax.checker.forms._atoms import Apply as Apply
from hardmax.checker.forms._atoms import Gate as Gate
from hardmax.checker.forms._atoms import HardMean as HardMean
from hardmax.checker.forms._atoms import Maximum as Maximum
from hardmax.checker.forms._atoms import Mean as Mean
from hardmax.checker.forms._atoms import Relu as Relu
from hardmax.checker.forms._atoms import Times as Times
from hardmax.checker.forms._atoms import Variable as Variable
from hardmax.checker.forms._atoms import arguments as arguments
from hardmax.checker.forms._basis import Basis as Basis
from hardmax.checker.forms._dominance import excess as excess
from hardmax.checker.forms._forms import NOTHING as NOTHING
from hardmax.checker.forms._forms import ONE as ONE
from hardmax.checker.forms._forms import ZERO as ZERO
from hardmax.checker.forms._forms import Form as Form
from hardmax.checker.forms._forms import constant as constant
from hardmax.checker.forms._forms import direction_of as direction_of
from hardmax.checker.forms._forms import nearest as nearest
from hardmax.checker.forms._forms import rational as rational
from hardmax.checker.forms._forms import renamed as renamed
from hardmax.checker.forms._forms import total as total
from hardmax.checker.forms._graph import Graph as Graph
from hardmax.checker.forms._ranges import Bounds as Bounds
from hardmax.checker.forms._targets import TargetForms as TargetForms
from hardmax.checker.forms._targets import is_defined as is_defined
from hardmax.checker.forms._unroll import Unrolled as Unrolled

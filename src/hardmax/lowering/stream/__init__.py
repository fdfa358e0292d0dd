"""A Transformer in the making: rows of the data token and the heads that write them."""

from hardmax.lowering.stream._arrangement import Arrangement as Arrangement
from hardmax.lowering.stream._arrangement import arrange as arrange
from hardmax.lowering.stream._assembly import assemble as assemble
from hardmax.lowering.stream._form import Form as Form
from hardmax.lowering.stream._program import Chooser as Chooser
from hardmax.lowering.stream._program import Gate as Gate
from hardmax.lowering.stream._program import Program as Program
from hardmax.lowering.stream._program import Row as Row
from hardmax.lowering.stream._program import Unit as Unit
from hardmax.lowering.stream._program import attention_after as attention_after
from hardmax.lowering.stream._program import feed_forward_after as feed_forward_after
from hardmax.lowering.stream._ranges import RangeTable as RangeTable
from hardmax.lowering.stream._ranges import read as read
from hardmax.lowering.stream._ranges import row_ranges as row_ranges
from hardmax.lowering.stream._reuse import reuse_rows as reuse_rows
from hardmax.lowering.stream._reuse import without as without
from hardmax.lowering.stream._rounding import Rounding as Rounding
from hardmax.lowering.stream._rounding import rounding as rounding
from hardmax.lowering.stream._statement import Statement as Statement
from hardmax.lowering.stream._statement import state as state

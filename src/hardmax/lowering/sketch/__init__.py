"""A Transformer before its weights: registers, forms, heads and units; and how they become weights.

The names below are for functions (`BoxSketch`), networks (`PromptSketch`) and sequence programs
(`WordSketch`); `Form`, `HeadSketch`, `UnitSketch` and `Assembly` are everybody's.
"""

from hardmax.lowering.sketch._box_layers import BoxAssembly as BoxAssembly
from hardmax.lowering.sketch._box_layers import Statement as Statement
from hardmax.lowering.sketch._box_layers import reuse_registers as reuse_registers
from hardmax.lowering.sketch._box_layers import without as without
from hardmax.lowering.sketch._box_sketch import BoxForm as BoxForm
from hardmax.lowering.sketch._box_sketch import BoxRegister as BoxRegister
from hardmax.lowering.sketch._box_sketch import BoxSketch as BoxSketch
from hardmax.lowering.sketch._box_sketch import Chooser as Chooser
from hardmax.lowering.sketch._box_sketch import Moved as Moved
from hardmax.lowering.sketch._box_sketch import Multiplier as Multiplier
from hardmax.lowering.sketch._box_sketch import Pair as Pair
from hardmax.lowering.sketch._box_sketch import exact_form as exact_form
from hardmax.lowering.sketch._layers import EXCLUDED as EXCLUDED
from hardmax.lowering.sketch._layers import Assembly as Assembly
from hardmax.lowering.sketch._layers import Form as Form
from hardmax.lowering.sketch._layers import HeadSketch as HeadSketch
from hardmax.lowering.sketch._layers import Ladder as Ladder
from hardmax.lowering.sketch._layers import Levels as Levels
from hardmax.lowering.sketch._layers import OneOf as OneOf
from hardmax.lowering.sketch._layers import UnitSketch as UnitSketch
from hardmax.lowering.sketch._layers import attention_from as attention_from
from hardmax.lowering.sketch._layers import feed_forward_from as feed_forward_from
from hardmax.lowering.sketch._levels import NOISE as NOISE
from hardmax.lowering.sketch._levels import Bends as Bends
from hardmax.lowering.sketch._levels import misfit as misfit
from hardmax.lowering.sketch._levels import spanned as spanned
from hardmax.lowering.sketch._merging import Rename as Rename
from hardmax.lowering.sketch._merging import merge_registers as merge_registers
from hardmax.lowering.sketch._prompt_sketch import Column as Column
from hardmax.lowering.sketch._prompt_sketch import PromptForm as PromptForm
from hardmax.lowering.sketch._prompt_sketch import PromptHead as PromptHead
from hardmax.lowering.sketch._prompt_sketch import PromptRegister as PromptRegister
from hardmax.lowering.sketch._prompt_sketch import PromptSketch as PromptSketch
from hardmax.lowering.sketch._prompt_sketch import PromptUnit as PromptUnit
from hardmax.lowering.sketch._prompt_sketch import single as single
from hardmax.lowering.sketch._ranges import RangeTable as RangeTable
from hardmax.lowering.sketch._ranges import register_ranges as register_ranges
from hardmax.lowering.sketch._rounding import Rounding as Rounding
from hardmax.lowering.sketch._rounding import rounding as rounding
from hardmax.lowering.sketch._straying import Strays as Strays
from hardmax.lowering.sketch._straying import strays_of as strays_of
from hardmax.lowering.sketch._word_layers import WordAssembly as WordAssembly
from hardmax.lowering.sketch._word_sketch import Care as Care
from hardmax.lowering.sketch._word_sketch import NeedsSaneStart as NeedsSaneStart
from hardmax.lowering.sketch._word_sketch import Placed as Placed
from hardmax.lowering.sketch._word_sketch import WordForm as WordForm
from hardmax.lowering.sketch._word_sketch import WordHead as WordHead
from hardmax.lowering.sketch._word_sketch import WordRegister as WordRegister
from hardmax.lowering.sketch._word_sketch import WordSaying as WordSaying
from hardmax.lowering.sketch._word_sketch import WordSketch as WordSketch
from hardmax.lowering.sketch._word_sketch import WordUnit as WordUnit

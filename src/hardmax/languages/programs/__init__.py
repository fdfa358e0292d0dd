"""Sequence programs: what every position of a word holds, step by step, and their library.

from hardmax import programs as p

reverse = p.program(lambda s: s.tokens.at(s.length - 1 - s.index))
histogram = p.program(lambda s: (p.there(s.tokens) == s.tokens).count())
p.sort("hello")
"""

from hardmax.languages.programs._items import Item as Item
from hardmax.languages.programs._items import counted as counted
from hardmax.languages.programs._library import copy as copy
from hardmax.languages.programs._library import count_of as count_of
from hardmax.languages.programs._library import counter as counter
from hardmax.languages.programs._library import detect as detect
from hardmax.languages.programs._library import duplicates as duplicates
from hardmax.languages.programs._library import dyck as dyck
from hardmax.languages.programs._library import fraction_so_far as fraction_so_far
from hardmax.languages.programs._library import fsm as fsm
from hardmax.languages.programs._library import histogram as histogram
from hardmax.languages.programs._library import length as length
from hardmax.languages.programs._library import most_frequent as most_frequent
from hardmax.languages.programs._library import prefix_count as prefix_count
from hardmax.languages.programs._library import prefix_sum as prefix_sum
from hardmax.languages.programs._library import reverse as reverse
from hardmax.languages.programs._library import seen_before as seen_before
from hardmax.languages.programs._library import shift as shift
from hardmax.languages.programs._library import shuffle_dyck as shuffle_dyck
from hardmax.languages.programs._library import sort as sort
from hardmax.languages.programs._library import sort_by as sort_by
from hardmax.languages.programs._library import sort_by_frequency as sort_by_frequency
from hardmax.languages.programs._library import sorted_by as sorted_by
from hardmax.languages.programs._library import table as table
from hardmax.languages.programs._machines import Machine as Machine
from hardmax.languages.programs._machines import machine_of_regex as machine_of_regex
from hardmax.languages.programs._nodes import Aggregated as Aggregated
from hardmax.languages.programs._nodes import Applied as Applied
from hardmax.languages.programs._nodes import Combined as Combined
from hardmax.languages.programs._nodes import Constant as Constant
from hardmax.languages.programs._nodes import Given as Given
from hardmax.languages.programs._nodes import Joined as Joined
from hardmax.languages.programs._nodes import Memorised as Memorised
from hardmax.languages.programs._nodes import Ranked as Ranked
from hardmax.languages.programs._nodes import Related as Related
from hardmax.languages.programs._nodes import Scanned as Scanned
from hardmax.languages.programs._nodes import Selection as Selection
from hardmax.languages.programs._nodes import Sequence as Sequence
from hardmax.languages.programs._nodes import Value as Value
from hardmax.languages.programs._nodes import apply as apply
from hardmax.languages.programs._nodes import or_else as or_else
from hardmax.languages.programs._nodes import select as select
from hardmax.languages.programs._nodes import there as there
from hardmax.languages.programs._nodes import where as where
from hardmax.languages.programs._pointwise import conjuncts as conjuncts
from hardmax.languages.programs._pointwise import evaluated as evaluated
from hardmax.languages.programs._pointwise import keys_and_queries as keys_and_queries
from hardmax.languages.programs._pointwise import roots_of as roots_of
from hardmax.languages.programs._pointwise import selects as selects
from hardmax.languages.programs._printing import written as written
from hardmax.languages.programs._program import Program as Program
from hardmax.languages.programs._program import program as program
from hardmax.languages.programs._rasp import from_rasp as from_rasp
from hardmax.languages.programs._steps import Code as Code
from hardmax.languages.programs._steps import Round as Round
from hardmax.languages.programs._steps import codes_of as codes_of
from hardmax.languages.programs._target import ProgramTarget as ProgramTarget
from hardmax.languages.programs._text import parse_program as parse_program
from hardmax.languages.programs._value_sets import TooLarge as TooLarge
from hardmax.languages.programs._value_sets import value_sets as value_sets

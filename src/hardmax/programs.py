"""Sequence programs: what every position of a word holds, step by step, and their library.

>>> import hardmax as hm
>>> p = hm.programs
>>> reverse = p.program(lambda s: s.tokens.at(s.length - 1 - s.index))
>>> reverse("abc")
['c', 'b', 'a']
>>> p.program(lambda s: (p.there(s.tokens) == s.tokens).count())("abac")
[2, 1, 2, 1]
>>> p.sort("hello")
['e', 'h', 'l', 'l', 'o']

These are the words to write programs with. What they are made of, and how a lowering reads them,
is the affair of the room `hardmax.languages.programs`.
"""

from hardmax.languages.programs import GALLERY as GALLERY
from hardmax.languages.programs import Item as Item
from hardmax.languages.programs import Machine as Machine
from hardmax.languages.programs import Program as Program
from hardmax.languages.programs import Selection as Selection
from hardmax.languages.programs import Sequence as Sequence
from hardmax.languages.programs import TooLarge as TooLarge
from hardmax.languages.programs import Value as Value
from hardmax.languages.programs import apply as apply
from hardmax.languages.programs import copy as copy
from hardmax.languages.programs import count_of as count_of
from hardmax.languages.programs import counter as counter
from hardmax.languages.programs import detect as detect
from hardmax.languages.programs import duplicates as duplicates
from hardmax.languages.programs import dyck as dyck
from hardmax.languages.programs import fraction_so_far as fraction_so_far
from hardmax.languages.programs import from_rasp as from_rasp
from hardmax.languages.programs import fsm as fsm
from hardmax.languages.programs import histogram as histogram
from hardmax.languages.programs import is_free as is_free
from hardmax.languages.programs import length as length
from hardmax.languages.programs import machine_of_regex as machine_of_regex
from hardmax.languages.programs import most_frequent as most_frequent
from hardmax.languages.programs import or_else as or_else
from hardmax.languages.programs import parse_program as parse_program
from hardmax.languages.programs import prefix_count as prefix_count
from hardmax.languages.programs import prefix_sum as prefix_sum
from hardmax.languages.programs import program as program
from hardmax.languages.programs import reverse as reverse
from hardmax.languages.programs import seen_before as seen_before
from hardmax.languages.programs import select as select
from hardmax.languages.programs import shift as shift
from hardmax.languages.programs import shuffle_dyck as shuffle_dyck
from hardmax.languages.programs import sort as sort
from hardmax.languages.programs import sort_by as sort_by
from hardmax.languages.programs import sort_by_frequency as sort_by_frequency
from hardmax.languages.programs import sorted_by as sorted_by
from hardmax.languages.programs import table as table
from hardmax.languages.programs import there as there
from hardmax.languages.programs import where as where

__all__ = [  # noqa: RUF022  # in groups, as one would look for them
    # how a program is written
    "program",
    "Program",
    "parse_program",
    "from_rasp",
    # what it is written with
    "Sequence",
    "Value",
    "Selection",
    "Item",
    "there",
    "select",
    "apply",
    "where",
    "or_else",
    "sorted_by",
    # the library: moving, sorting
    "copy",
    "reverse",
    "shift",
    "sort",
    "sort_by",
    "sort_by_frequency",
    # counting
    "length",
    "histogram",
    "duplicates",
    "seen_before",
    "most_frequent",
    "prefix_sum",
    "prefix_count",
    "count_of",
    "fraction_so_far",
    "counter",
    "detect",
    # brackets, machines, tables
    "dyck",
    "shuffle_dyck",
    "fsm",
    "Machine",
    "machine_of_regex",
    "table",
    # two dozen programs to look at
    "GALLERY",
    "is_free",
    # errors
    "TooLarge",
]

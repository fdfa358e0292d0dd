"""All words of a length at once: what a token can know of a word, in finitely many slots."""

from hardmax.checker.sequences.slots._compare import bound_by_slots as bound_by_slots
from hardmax.checker.sequences.slots._program import SlotMemory as SlotMemory

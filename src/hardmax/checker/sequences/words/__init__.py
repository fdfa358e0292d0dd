"""Word after word: every output enclosed, every suspicion settled exactly."""

from hardmax.checker.sequences.words._batches import enclose_words as enclose_words
from hardmax.checker.sequences.words._enumeration import cost_of_enumeration as cost_of_enumeration
from hardmax.checker.sequences.words._enumeration import enumerate_words as enumerate_words

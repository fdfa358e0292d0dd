"""True errors from exact rationals and balls: nothing here is shared with the checker."""

from hardmax.testing.truth._arithmetic import BITS as BITS
from hardmax.testing.truth._arithmetic import Balls as Balls
from hardmax.testing.truth._arithmetic import Rationals as Rationals
from hardmax.testing.truth._arithmetic import Undecided as Undecided
from hardmax.testing.truth._cells import largest_error_on_cells as largest_error_on_cells
from hardmax.testing.truth._line import ball_of as ball_of
from hardmax.testing.truth._line import ends_of as ends_of
from hardmax.testing.truth._line import largest_error_on_line as largest_error_on_line
from hardmax.testing.truth._meaning import outputs_on_vector as outputs_on_vector
from hardmax.testing.truth._meaning import outputs_on_word as outputs_on_word
from hardmax.testing.truth._meaning import values_of_steps as values_of_steps
from hardmax.testing.truth._words import error_on_word as error_on_word
from hardmax.testing.truth._words import largest_error_on_words as largest_error_on_words

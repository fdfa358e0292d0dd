"""All words at once where every coordinate holds one value of the target."""

from hardmax.checker.sequences.registers._bound import bound_by_registers as bound_by_registers
from hardmax.checker.sequences.registers._bound import picks_from_many as picks_from_many
from hardmax.checker.sequences.registers._units import RegisterMemory as RegisterMemory

"""How sublayers read a stream: as it is, or through the norms and activations of a host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker._hosts import (
    NOTHING,
    NoCharge,
    ReadCharge,
    activation_charge,
    answer_charge,
    attention_format,
    read_charge,
    with_turns,
)
from hardmax.checker.sequences._stream import Overflow, Stream
from hardmax.core import Activation, Host, ReadOut, Transformer
from hardmax.numerics import Format, inflate


@dataclass(frozen=True, eq=False)
class Reading:
    """How one sublayer reads; the read-out is the one after the last."""

    format: Format
    host: Host | None = None
    transformer: Transformer | None = None
    sublayer: int = 0

    @property
    def is_plain(self) -> bool:
        return self.host is None

    @property
    def for_attention(self) -> Format:
        """The format in which weights are taken."""
        return attention_format(self.host, self.format)

    @property
    def computes_plainly(self) -> bool:
        """Whether activations are rectifiers and weights are taken in the stream's format."""
        return self._activation is None and self.for_attention == self.format

    @property
    def computes_gates(self) -> bool:
        """Whether nothing takes the place of the activation that a gated layer names."""
        return self._activation is None

    @property
    def turns(self) -> bool:
        """Whether positions are rotary."""
        return self.host is not None and self.host.rotary is not None

    @property
    def _activation(self) -> Activation | None:
        """That of the sublayer; the read-out has none."""
        own = () if self.host is None else self.host.activations
        return own[self.sublayer] if self.sublayer < len(own) else None

    def charge(self, size: np.ndarray) -> ReadCharge:
        """For a stream whose coordinates have at most these sizes."""
        if self.host is None or self.transformer is None:
            return NOTHING
        try:
            return read_charge(self.host, self.transformer, self.sublayer, size, self.format)
        except NoCharge:
            raise Overflow(
                f"Nothing can be said in {self.format.name}: the host's norm has no room for it."
            ) from None

    def of(self, stream: Stream) -> Stream:
        """What is read of a stream: its balls, larger by what the host's norm may do to them.

        Numbers of radius 0 are multiples of 2^grid, and so 0 or at least that.
        """
        return stream if self.is_plain else self._read(stream, self._charge_of(stream))

    def keys(self, stream: Stream) -> Stream:
        """The same for what keys are made of, which rotary positions turn."""
        if self.host is None or self.transformer is None or self.host.rotary is None:
            return self.of(stream)
        charge = self._charge_of(stream)
        return self._read(stream, with_turns(charge, self.host, self.transformer, self.format))

    def _read(self, stream: Stream, charge: ReadCharge) -> Stream:
        with np.errstate(over="ignore"):
            exact = ~stream.is_loose & (np.exp2(stream.grid) >= charge.safe)
        away = charge.of(stream.magnitude, exact)
        return stream.loosened(away) if away.any() else stream

    def affine(self, stream: Stream, matrix: np.ndarray, bias: np.ndarray) -> Stream:
        """matrix @ x + bias of what is read; a host without biases reads those, too."""
        found = self.of(stream).affine(matrix, bias, self.format)
        factor = self._charge_of(stream).biases
        return found.loosened(inflate(factor * np.abs(bias), 2)) if factor else found

    def answered(self, stream: Stream, readout: ReadOut) -> Stream:
        """The answer, larger by what classes lose that are computed in its place."""
        found = self.affine(stream, readout.weights, readout.bias)
        if self.host is None or not self.host.classes:
            return found
        return found.loosened(np.array([self.owed(readout, self._charge_of(stream))]))

    def owed(self, readout: ReadOut, charge: ReadCharge) -> float:
        """What answers owe to classes."""
        try:
            return answer_charge(self.host, readout, charge, self.format)
        except NoCharge:
            raise Overflow("Nothing can be said of classes that read several columns.") from None

    def activated(self, stream: Stream, inner: Stream, hidden: Stream) -> Stream:
        """Hidden numbers as the host's activation makes them of what units read: `inner`."""
        if self._activation is None:
            return hidden
        factor = self._charge_of(stream).biases
        charge = activation_charge(self._activation, self.format, factor)
        if not (inner.magnitude <= charge.largest).all():
            raise Overflow(f"Nothing can be said in {self.format.name}: the host is too steep.")
        return hidden.loosened(charge.of(hidden.magnitude))

    def _charge_of(self, stream: Stream) -> ReadCharge:
        size = stream.magnitude
        return self.charge(size.reshape(-1, stream.width).max(axis=0, initial=0.0))


def readings(host: Host | None, transformer: Transformer, format: Format) -> list[Reading]:
    """One for each sublayer, and one for the read-out."""
    count = len(transformer.sublayers) + 1
    return [Reading(format, host, transformer, number) for number in range(count)]

"""Named tensors of one float format, as the bytes of a safetensors file and back.

The header is read and written here, because safetensors' own door to NumPy knows no bfloat16: a
bfloat16 is the upper half of a float32. Every number that is read is a float64 that holds the
stored one exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np

from hardmax._errors import FileError, PrecisionError
from hardmax.numerics import Format

TYPES = {"float64": "F64", "float32": "F32", "bfloat16": "BF16"}
_SIZES = {"F64": 8, "F32": 4, "BF16": 2}
_NAMES = {code: name for name, code in TYPES.items()}
_PREFIX = 8  # bytes that hold the header's length
_LONGEST = 100_000_000  # safetensors reads no longer header
_ALIGNED = 8  # bytes, so that tensors start where processors like it


def rounded(values: np.ndarray, format: Format, name: str) -> np.ndarray:
    """The numbers of the format nearest to these; one beyond its range is refused."""
    stored = format.stored(np.asarray(values, dtype=np.float64))
    if not np.all(np.abs(stored) <= format.largest):
        raise PrecisionError(
            f"The weights {name} reach {float(np.abs(stored).max()):.3g}, beyond the largest "
            f"{format.name}: choose dtype='float64'."
        )
    return stored


def to_bytes(tensors: Mapping[str, np.ndarray], format: Format) -> bytes:
    """The file: the header's length, the header, and the tensors' bytes in the order of names."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(tensors):
        part = _encoded(rounded(tensors[name], format, name), format)
        ends = [offset, offset + len(part)]
        shape = list(np.shape(tensors[name]))
        header[name] = {"dtype": TYPES[format.name], "shape": shape, "data_offsets": ends}
        parts.append(part)
        offset += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(_PREFIX, "little") + text + b"".join(parts)


def from_bytes(data: bytes) -> tuple[dict[str, np.ndarray], str]:
    """Every tensor as float64, and the one format that they are all stored in."""
    length = int.from_bytes(data[:_PREFIX], "little")
    if len(data) < _PREFIX + 1 or length > _LONGEST or data[_PREFIX : _PREFIX + 1] != b"{":
        raise FileError("is not a safetensors file.")
    body = memoryview(data)[_PREFIX + length :]
    try:
        header = json.loads(data[_PREFIX : _PREFIX + length])
        header.pop("__metadata__", None)
        _refuse_other_types(header)
        found = {name: _tensor(part, body) for name, part in header.items()}
        codes = {part["dtype"] for part in header.values()}
        spans = sorted(tuple(part["data_offsets"]) for part in header.values())
    except FileError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as reason:
        raise FileError("is damaged: its header and its bytes do not fit together.") from reason
    ends = [0, *(end for _, end in spans)]
    if [start for start, _ in spans] != ends[:-1] or ends[-1] != len(body):
        raise FileError("is damaged: its tensors overlap, or bytes are missing or left over.")
    if len(codes) != 1:
        raise FileError(f"holds tensors of {len(codes)} types, but a model of ours has one.")
    for name, array in found.items():
        if not np.isfinite(array).all():
            raise FileError(f"holds numbers in {name} that are not finite.")
    return found, _NAMES[codes.pop()]


def _refuse_other_types(header: Mapping[str, Mapping[str, object]]) -> None:
    """Whole numbers, 8 bits and float16 are told by their names, before any byte is looked at."""
    for name, part in header.items():
        if part["dtype"] not in _SIZES:
            raise FileError(
                f"stores {name} as {part['dtype']}, but quantised weights and other types than "
                f"{', '.join(TYPES)} are not understood: export the model again in one of these."
            )


def _encoded(values: np.ndarray, format: Format) -> bytes:
    if format.name == "float64":
        return np.asarray(values, dtype="<f8", order="C").tobytes()
    single = np.asarray(values, dtype="<f4", order="C")
    if format.name == "float32":
        return single.tobytes()
    return (single.view("<u4") >> 16).astype("<u2").tobytes()


def _tensor(part: Mapping[str, object], body: memoryview) -> np.ndarray:
    code, shape, span = part["dtype"], part["shape"], part["data_offsets"]
    if code not in _SIZES or not isinstance(shape, list) or not isinstance(span, list):
        raise ValueError(f"a tensor of type {code}")
    start, end = span
    if not all(isinstance(n, int) and n >= 0 for n in (*shape, start, end)) or end < start:
        raise ValueError("a shape or an offset that is none")
    if end - start != math.prod(shape) * _SIZES[str(code)] or end > len(body):
        raise ValueError("bytes that are not those of the shape")
    raw = bytes(body[start:end])
    if code == "BF16":
        values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    else:
        values = np.frombuffer(raw, "<f8" if code == "F64" else "<f4")
    return values.astype(np.float64).reshape(shape)

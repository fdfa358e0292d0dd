"""What can go wrong, as one tree. Every message says what was needed, what came, and what to do.

HardmaxError
├── ShapeError (ValueError)      arrays that do not fit together, or hold nan or infinities
├── DomainError (ValueError)     a domain that is unbounded, inverted or of the wrong dimension
├── RequestError (ValueError)    an error, route or option that makes no sense for the source
│   └── PrecisionError           an error below what the float format can deliver
├── FileError (ValueError)       a file that is foreign, truncated or altered
├── SemanticsError (TypeError)   an operation that the weighting does not allow
└── MissingExtra (ImportError)   an optional dependency that is not installed
"""


class HardmaxError(Exception):
    """The root of every error raised on purpose."""


class ShapeError(HardmaxError, ValueError):
    """Arrays do not fit together, or hold something that is not a number."""


class DomainError(HardmaxError, ValueError):
    """The domain is unbounded, inverted, or of the wrong dimension."""


class RequestError(HardmaxError, ValueError):
    """The request makes no sense for this source."""


class PrecisionError(RequestError):
    """The error asked is below what the float format can deliver."""


class FileError(HardmaxError, ValueError):
    """The file is foreign, truncated or altered."""


class SemanticsError(HardmaxError, TypeError):
    """The weighting of a head does not allow the operation."""


class MissingExtra(HardmaxError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Try: pip install 'hardmax[{extra}]'")

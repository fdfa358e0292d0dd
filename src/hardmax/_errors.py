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
    """The root of every error raised on purpose.

    >>> try:
    ...     hm.compile("x*")
    ... except hm.HardmaxError as reason:
    ...     print(type(reason).__name__)
    RequestError
    """


class ShapeError(HardmaxError, ValueError):
    """Arrays do not fit together, or hold something that is not a number.

    >>> hm.ReluNetwork(3, 4)
    Traceback (most recent call last):
    hardmax._errors.ShapeError: weights must be a list ...
    """


class DomainError(HardmaxError, ValueError):
    """The domain is unbounded, inverted, or of the wrong dimension.

    >>> hm.Box([1], [0])
    Traceback (most recent call last):
    hardmax._errors.DomainError: The domain is inverted ...
    """


class RequestError(HardmaxError, ValueError):
    """The request makes no sense for this source.

    >>> hm.plan("x", on="[0,1]", prefer="beauty").choose("beauty")
    Traceback (most recent call last):
    hardmax._errors.RequestError: There is no preference 'beauty'; ...
    """


class PrecisionError(RequestError):
    """The error asked is below what the float format can deliver.

    >>> hm.compile("exp(x)", on="[0,1]", error=1e-300)
    Traceback (most recent call last):
    hardmax._errors.PrecisionError: ...
    """


class FileError(HardmaxError, ValueError):
    """The file is foreign, truncated or altered.

    >>> hm.load("nowhere.safetensors")
    Traceback (most recent call last):
    hardmax._errors.FileError: nowhere.safetensors was not found...
    """


class SemanticsError(HardmaxError, TypeError):
    """The weighting of a head does not allow the operation.

    >>> hm.regions(hm.compile("x*y", on="[-1,1]^2"), on="[-1,1]^2")
    Traceback (most recent call last):
    hardmax._errors.SemanticsError: A Transformer with softmax heads ...
    """


class MissingExtra(HardmaxError, ImportError):
    """An optional dependency is not installed.

    >>> str(hm.MissingExtra("torch", "torch"))
    "torch is not installed. Try: pip install 'hardmax[torch]'"
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed. Try: pip install 'hardmax[{extra}]'")

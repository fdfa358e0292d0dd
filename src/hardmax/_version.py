"""Which release this is: here and in pyproject.toml, and a test compares them."""

__version__ = "0.1.0"

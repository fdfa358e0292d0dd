"""Networks and piecewise linear functions, each with its own interpreter, and their files."""

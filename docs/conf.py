"""How the documentation is built: `make docs`, without any other host."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import reference_pages  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

import hardmax  # noqa: E402

project = "hardmax"
author = "The hardmax developers"
version = release = hardmax.__version__
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"hardmax {version}"
html_static_path: list[str] = []
exclude_patterns = ["README.md"]
nitpicky = True
pygments_style, pygments_dark_style = "tango", "monokai"


def write_reference(_: Sphinx) -> None:
    """The reference, from the commands and docstrings of today."""
    reference_pages.write(HERE / "reference")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", write_reference)

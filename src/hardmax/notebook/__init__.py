"""How values look in a notebook: light HTML and SVG, without any other library."""

from hardmax.notebook._pages import html_of as html_of

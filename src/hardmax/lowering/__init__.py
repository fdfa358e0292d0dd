"""Languages become constructions: one arrow per file, one gadget per theorem."""

from hardmax.lowering._routes import lower as lower
from hardmax.lowering._routes import routes_for as routes_for

"""The exact geometry of heads and networks: power diagrams, polytopes, bounds, stability."""

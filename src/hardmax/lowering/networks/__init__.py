"""Networks as Transformers: one arrow per file."""

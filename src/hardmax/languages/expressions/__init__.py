"""Functions given by expressions: text, meaning, domain, derivative, steps."""

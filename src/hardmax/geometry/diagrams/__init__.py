"""Power diagrams: which key, or which k keys, win where."""

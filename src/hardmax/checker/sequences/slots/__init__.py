"""All words of a length at once: what a token can know of a word, in finitely many slots."""

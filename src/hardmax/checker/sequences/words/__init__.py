"""Word after word: every output enclosed, every suspicion settled exactly."""

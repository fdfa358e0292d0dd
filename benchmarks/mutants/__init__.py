"""Faults put into the installed package one by one, and whether the tests see them.

    python -m benchmarks.mutants --kind guard --count 150 --seed 0     guards of rounding
    python -m benchmarks.mutants --kind logic --count 150 --seed 0     everything else
    python -m benchmarks.mutants --room geometry --kind guard --count 20 --seed 1
    python -m benchmarks.mutants --seed 0 --kind guard --count 150 --part 1/4 --jobs 2
    python -m benchmarks.mutants --list --kind guard --count 30        what would be tried

A mutant is the package with one expression replaced: an operator of a table (`OPERATORS`) at a
site. Sites are drawn uniformly over rooms and then over the sites of the room; seed and list are
printed. The tests that execute the line (by a recording with coverage, `out/mutants/map`) run on a
private copy of the installed package until one of them fails: then the mutant is killed. It
survived if all of them pass, and it is undecided if the budget ended before.

Mutation tools that exist (cosmic-ray, mutmut) start one command per mutant, the same tests for
all of them; here a test costs milliseconds and an interpreter with its guests costs seconds.
"""

"""The command line: it opens files, calls the library and prints. No mathematics here."""

from hardmax.cli._main import main as main

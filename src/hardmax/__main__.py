"""`python -m hardmax` is `hardmax`."""

from hardmax.cli import main

if __name__ == "__main__":
    main(prog_name="hardmax")

"""A newcomer's walks: the files that three calls cross, in the order in which they are entered.

    python -m benchmarks.walks            as a table
    python -m benchmarks.walks --write    into docs/walks.md

A file counts if one of its functions runs, importing left aside; compiled loops do not show, the
files that call them do. Dataclasses' own methods and lambdas count where they are written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

HERE = Path(__file__).resolve().parents[1]
WALKS: dict[str, tuple[str, str, int]] = {  # what is made ready, what is followed, the most files
    "compile": ("", 'hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-3)', 35),
    "certify": (
        'model = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-3)',
        "hm.certify(model)",
        56,  # 45 before formats, hosts and 2-norms had files of their own
    ),
    "regions": (
        'network = hm.load_network("examples/bump.npz")',
        'hm.regions(network, on="[-1,1]^2").cells',
        18,
    ),
}


def entered(call: Callable[[], object]) -> list[str]:
    """The package's files whose functions run, first come first."""
    import hardmax

    root = Path(hardmax.__file__).parent
    files: dict[str, None] = {}
    for shown in hardmax.__all__:  # which opens the rooms: importing is no part of the walk
        getattr(hardmax, shown)

    def follow(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(root)) and not _imports(frame, str(root)):
            files.setdefault(str(Path(name).relative_to(root)))

    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(files)


def _imports(frame: FrameType | None, root: str) -> bool:
    """Whether a file of the package is just being imported, decorators and tables included."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(root):
            return True
        frame = frame.f_back
    return False


def walk(name: str) -> list[str]:
    """One walk in a process of its own, where nothing is known yet."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.walks", "--one", name],
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE,
        env={**os.environ, "HARDMAX_LOOPS": "compiled"},
    )
    return ran.stdout.split()


def page() -> Iterator[str]:
    """The walks as a page of the documentation."""
    yield "# Three walks through the house\n"
    yield "What runs when you call it, in the order in which files are entered; made by "
    yield "`python -m benchmarks.walks --write`.\n"
    for name, (_, call, most) in WALKS.items():
        files = walk(name)
        yield f"\n## `{call}`: {len(files)} files (at most {most})\n"
        yield from (
            f"{number}. `{file}`: {_first_line(file)}" for number, file in enumerate(files, 1)
        )


def _first_line(file: str) -> str:
    text = (HERE / "src" / "hardmax" / file).read_text(encoding="utf-8")
    return text.split("\n", 1)[0].strip('"')


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the walks; 0 if none is longer than it may be."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.walks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="write docs/walks.md")
    parser.add_argument("--one", choices=WALKS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        _follow_one(options.one)
        return 0
    text = "\n".join(page()) + "\n"
    if options.write:
        (HERE / "docs" / "walks.md").write_text(text, encoding="utf-8")
    print(text)
    lengths = {name: len(walk(name)) for name in WALKS}
    return int(any(lengths[name] > most for name, (_, _, most) in WALKS.items()))


def _follow_one(name: str) -> None:
    import hardmax as hm

    ready, call, _ = WALKS[name]
    names: dict[str, object] = {"hm": hm}
    exec(ready, names)
    print(*entered(lambda: eval(call, names)), sep="\n")


if __name__ == "__main__":
    sys.exit(main())

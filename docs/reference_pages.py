"""The reference, made of what is there: every public name from its docstring, every command from
its help.

    python docs/reference_pages.py FOLDER

Docstrings of hardmax are plain text with doctests; what Markdown would read as marks is escaped.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import click

import hardmax as hm
from hardmax.cli import main as command

ROOMS = {
    "programs": "Sequence programs",
    "interop": "Other people's tools",
    "plots": "Pictures",
    "bounds": "Bounds",
    "testing": "Testing",
}
_MARKS = re.compile(r"([\\*_<>\[\]#$|~{}])")
_LABEL = re.compile(r"[^a-z0-9]+")


# ---- docstrings ----------------------------------------------------------------------------------


def markdown(docstring: str) -> str:
    """Plain text as Markdown: doctests and indented blocks as code, the rest as it stands."""
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        lines = block.splitlines()
        if any(line.lstrip().startswith(">>>") for line in lines[:1]):
            parts.append(_fenced("python", "\n".join(line.strip("\n") for line in lines)))
        elif all(line.startswith("    ") for line in lines):
            parts.append(_fenced("text", "\n".join(line[4:] for line in lines)))
        else:
            parts.append("\n".join(map(_escaped, lines)))
    return "\n\n".join(parts)


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{inspect.cleandoc(text)}\n```"


def _escaped(line: str) -> str:
    """Marks outside `code` are letters; `code` stays as it is."""
    pieces = re.split(r"(``?[^`]+``?)", line)
    return "".join(p if k % 2 else _MARKS.sub(r"\\\1", p) for k, p in enumerate(pieces))


def summary(thing: object) -> str:
    """The first sentence of a docstring."""
    if not callable(thing) or isinstance(thing, types.UnionType):
        return _escaped(_value(thing))
    first = inspect.cleandoc(inspect.getdoc(thing) or "").split("\n\n")[0]
    return _escaped(" ".join(first.split()))


def _value(thing: object) -> str:
    """A value that has no text of its own: what it prints, kinds by their names."""
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", repr(thing))[:300]


def _signature(thing: object) -> str:
    """Names and short defaults; types are in the text."""
    try:
        given = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "()"
    names = []
    for p in given.parameters.values():
        bare = p.replace(annotation=inspect.Parameter.empty)
        shown = repr(p.default)
        long = p.default is not inspect.Parameter.empty and not re.fullmatch(
            r"[\w.'\"+-]{1,20}|\(\)", shown
        )
        names.append(bare.replace(default=Ellipsis) if long else bare)
    text = str(given.replace(parameters=names, return_annotation=inspect.Signature.empty))
    return text.replace("(self, ", "(").replace("(self)", "()").replace("Ellipsis", "...")


# ---- names ---------------------------------------------------------------------------------------


def public_names() -> dict[str, object]:
    """Everything that the surface shows, rooms opened: `hm.compile`, `hm.programs.sort`, ..."""
    found: dict[str, object] = {}
    for name in hm.__all__:
        thing = getattr(hm, name)
        if not isinstance(thing, types.ModuleType):
            found[f"hm.{name}"] = thing
    for room in ROOMS:
        module = getattr(hm, room)
        shown = getattr(module, "__all__", None) or [
            name
            for name, thing in vars(module).items()
            if not name.startswith("_") and not isinstance(thing, types.ModuleType)
        ]
        found |= {f"hm.{room}.{name}": getattr(module, name) for name in shown}
    return found


def label(name: str) -> str:
    return _LABEL.sub("-", name.lower()).strip("-")


def entry(name: str, thing: object) -> str:
    """A name with its signature, its text, and, of a class, what it offers."""
    text = markdown(inspect.getdoc(thing) or "")
    if inspect.isclass(thing):
        kind, offered = "class", "\n\n".join(_members(name, thing))
        text = f"{text}\n\n{offered}" if offered else text
    elif callable(thing) and not isinstance(thing, types.UnionType):
        kind = "function"
    else:
        kind, text = "data", _escaped(_value(thing))
    shown = _signature(thing) if kind != "data" else ""
    return f"``````{{py:{kind}}} {name}{shown}\n\n{text}\n``````"


def _members(name: str, thing: type) -> Iterator[str]:
    for member, value in vars(thing).items():
        if member.startswith("_"):
            continue
        inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "func", value)))
        doc = inspect.getdoc(inner) if callable(inner) and inspect.isroutine(inner) else None
        if doc is None:
            continue
        is_value = not inspect.isroutine(value) and not isinstance(
            value, classmethod | staticmethod
        )
        kind = "attribute" if is_value else "method"
        shown = "" if is_value else _signature(getattr(thing, member))
        yield f"`````{{py:{kind}}} {name}.{member}{shown}\n\n{markdown(doc)}\n`````"


def page(title: str, text: str, names: dict[str, object]) -> str:
    """A table of names, one line each, and then each of them."""
    rows = "\n".join(f"| [`{n}`](#{n}) | {summary(t)} |" for n, t in names.items())
    body = "\n\n".join(entry(n, t) for n, t in names.items())
    return f"# {title}\n\n{text}\n\n| name | what it is |\n|---|---|\n{rows}\n\n{body}\n"


def api_pages() -> dict[str, str]:
    names = public_names()
    words = set(hm.__all__) - set(_surface())
    top = {n: t for n, t in names.items() if n.count(".") == 1}
    pages = {
        "verbs": page(
            "Verbs",
            "What is done with sources and models.",
            {n: t for n, t in top.items() if inspect.isfunction(t) and n[3:] not in words},
        ),
        "values": page(
            "Values",
            "Sources, models, promises, proofs, geometry and errors: frozen values.",
            {
                n: t
                for n, t in top.items()
                if inspect.isclass(t) or not (inspect.isfunction(t) or n[3:] in words)
            },
        ),
        "functions": page(
            "Words of functions",
            "What expressions are written with, beside Python's own operators.",
            {n: t for n, t in top.items() if n[3:] in words and not inspect.isclass(t)},
        ),
    }
    for room, title in ROOMS.items():
        inside = {n: t for n, t in names.items() if n.startswith(f"hm.{room}.")}
        about = markdown((getattr(hm, room).__doc__ or "").split("\n\n")[0])
        pages[room] = page(title, about, inside)
    return pages


def _surface() -> list[str]:
    return list(vars(hm)["_SURFACE"])


# ---- commands ------------------------------------------------------------------------------------


def command_page() -> str:
    """What `hardmax COMMAND --help` prints, for every command."""
    context = click.Context(command, info_name="hardmax", max_content_width=92)
    parts = [f"```text\n{command.get_help(context)}\n```"]
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        inner = click.Context(found, info_name=name, parent=context, max_content_width=92)
        parts.append(f"## hardmax {name}\n\n```text\n{found.get_help(inner)}\n```")
    return "# Commands\n\n" + "\n\n".join(parts) + "\n"


# ---- files ---------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The text of each page by its name."""
    found = api_pages() | {"commands": command_page()}
    listed = "\n".join(found)
    return found | {"index": f"# Reference\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"}


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
